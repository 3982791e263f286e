"""What the checker is told is what the sandbox really has, and what it would otherwise refuse."""

from __future__ import annotations

import pytest
from pydantic_monty import Monty, MontyTypingError

from holdfast.durable.runs.checking import UNKNOWN, checked_against
from holdfast.durable.runs.tool import Tools


def lookup(name: str) -> int: ...


STUBS = Tools.of([lookup]).preamble


@pytest.fixture(scope="module")
def pool():
    with Monty(max_processes=1) as pool:
        yield pool


def begin(pool, code, stubs):
    with pool.checkout(type_check=True, type_check_stubs=stubs) as session:
        session.feed_start(code)


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_sandbox_has_what_its_checker_does_not_know(pool, name):
    with pytest.raises(MontyTypingError):
        begin(pool, f"x = {name}", STUBS)  # when this fails, the name can be left out
    begin(pool, f"x = {name}", checked_against(STUBS))


async def test_a_program_may_use_them(runner_with):
    code = """
try:
    open("/nowhere").read()
except FileNotFoundError:
    told = "no file"
except PermissionError:
    told = "no file"
except OSError as error:
    told = str(error)
[told, list(map(abs, [-1])), list(filter(None, [0, 1])), hasattr(told, "nope"), getattr(told, "nope", 3)]
"""
    result = await runner_with(lookup).run("a", code, "call_1")
    assert result.error is None
    assert result.output[1:] == [[1], [1], False, 3]


async def test_what_the_checker_is_told_is_no_part_of_the_offer(runner_with):
    runner = runner_with(lookup)
    assert "FileNotFoundError" not in runner.tool.description
    assert "FileNotFoundError" not in runner.tools.preamble
    result = await runner.run("a", "typing.Any", "call_1")
    assert result.is_error, "nothing was imported for the program"


async def test_a_wrong_call_of_a_tool_is_still_refused(runner_with):
    result = await runner_with(lookup).run("a", "lookup(3)", "call_1")
    assert "Expected `str`" in result.error
    assert result.tool_call_count == 0

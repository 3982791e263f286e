"""Whoever watches a runner is told of each call when it begins and when its answer is known."""

from __future__ import annotations

import pytest

from holdfast.durable.runs.tool import Tool
from holdfast.history.records import RlmToolCall
from tests.unit.durable.runs.conftest import Killed

CODE = """
import asyncio
def twice(n):
    return double(n)
print("first")
a = twice(1)
b = await asyncio.gather(later(2), later(3))
try:
    refuse()
except ValueError:
    print("refused")
[a, b]
"""


def double(n: int) -> int:
    return n * 2


async def later(n: int) -> int:
    return n


def refuse() -> None:
    raise ValueError("no")


def told(events):
    return [(one.what, one.number, one.tool_name, one.arguments, one.line) for one in events]


async def test_each_call_is_told_twice_with_its_line_and_what_was_printed(runner_with):
    events = []
    result = await runner_with(double, later, refuse, on_call=events.append).run("a", CODE, "call_1")
    assert result.output == [2, [2, 3]]
    assert told(events) == [
        ("begun", 1, "double", {"n": 1}, 4), ("answered", 1, "double", {"n": 1}, 4),
        ("begun", 2, "later", {"n": 2}, 7), ("begun", 3, "later", {"n": 3}, 7),
        ("answered", 2, "later", {"n": 2}, 7), ("answered", 3, "later", {"n": 3}, 7),
        ("begun", 4, "refuse", {}, 9), ("answered", 4, "refuse", {}, 9),
    ]  # fmt: skip
    assert [one.result for one in events if one.what == "answered"] == [2, 2, 3, None]
    assert events[-1].error == {"type": "ValueError", "message": "no"}
    assert {one.printed for one in events} == {"first\n"}


async def test_the_line_of_a_call_is_recorded_and_comes_back(runner_with, store):
    await runner_with(double, later, refuse).run("a", "é = 'ü'\n\nx = (1,\n  double(2))", "call_1")
    assert [record.line for record in await store.read("a") if isinstance(record, RlmToolCall)] == [4]


async def test_a_call_in_a_function_of_an_earlier_program_of_the_session_has_no_line(runner_with, store):
    runner = runner_with(double)
    await runner.run("a", "def f(n):\n    return double(n)", "call_1", session="s")
    await runner.run("a", "f(1)\ndouble(2)", "call_2", session="s")
    assert [record.line for record in await store.read("a") if isinstance(record, RlmToolCall)] == [None, 2]


async def test_of_a_recovered_run_only_what_happens_now_is_told(runner_with):
    events = []

    def step(n: int) -> int:
        if n == 2 and not events:
            raise Killed
        return n

    with pytest.raises(Killed):
        await runner_with(Tool(step, on_restart="retry")).run("a", "[step(1), step(2), step(3)]", "call_1")
    await runner_with(Tool(step, on_restart="retry"), on_call=events.append).recover()
    assert [(one.what, one.number, one.attempt) for one in events] == [
        ("begun", 2, 2), ("answered", 2, 2), ("begun", 3, 1), ("answered", 3, 1),
    ]  # fmt: skip


async def test_an_observer_that_fails_is_logged_and_harms_nothing(runner_with, caplog):
    def failing(event):
        raise RuntimeError("no screen")

    result = await runner_with(double, on_call=failing).run("a", "double(2)", "call_1")
    assert result.output == 4
    assert caplog.text.count("An observer of runs failed") == 2

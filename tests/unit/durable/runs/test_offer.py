"""Claims about what a model is told of `run_python`."""

from __future__ import annotations

import re

import jsonschema
import pytest
from pydantic_monty import MontyError

from holdfast.durable.runs.offer import SCHEMA, description, offer
from holdfast.durable.runs.tool import Tools
from tests.unit.durable.runs.sandboxed import sandbox


async def fetch(url: str) -> str:
    """Fetch a page."""


def lookup(name: str) -> int: ...


TOOLS = Tools.of([fetch, lookup])


def test_an_offer_is_all_that_a_framework_needs():
    made = offer(TOOLS)
    assert made.name == "run_python"
    assert made.schema is SCHEMA
    assert made.description == description(TOOLS)
    assert TOOLS.preamble in made.description


def test_the_schema_takes_a_program_and_nothing_else():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate({"code": "1"}, SCHEMA)
    for wrong in ({}, {"code": 1}, {"code": "1", "timeout": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_a_page_is_enough():
    assert 1_000 < len(description([])) < 3_500
    assert max(map(len, description([]).split("\n"))) <= 120


def test_without_tools_none_are_spoken_of():
    assert "functions below" not in description([])
    assert "```" not in description([])


def test_every_module_that_is_promised_can_be_imported():
    modules = re.search(r"can be imported: ([\w\s]+)\.", description([]))[1].split()
    assert len(modules) > 20
    with sandbox() as run:
        for module in modules:
            run(f"import {module}")


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n  yield 1",
        "x = 1\ndel x",
        "class A: pass\nclass B(A): pass",
        "class A:\n  @property\n  def x(self): return 1",
        "async def f():\n  async with x: pass",
        "async def f():\n  async for y in x: pass",
        "try: pass\nexcept* ValueError: pass",
        "from math import *",
        "import asyncio\nasyncio.create_task",
        "import asyncio\nasyncio.wait_for",
        "import asyncio\nasyncio.TaskGroup",
    ],
)
def test_what_is_said_to_be_missing_is_missing(code):
    with sandbox() as run, pytest.raises((MontyError, NotImplementedError)):
        run(code)


def test_what_is_promised_works():
    code = """
import asyncio
from dataclasses import dataclass

@dataclass
class Point:
    x: int

    def moved(self):
        return Point(self.x + 1)

class Guard:
    def __enter__(self): return 1
    def __exit__(self, *args): return False

async def one(): return 1

def outer():
    count = 1
    def inner():
        nonlocal count
        count += 1
        return count
    return inner()

try:
    with Guard() as g:
        raise ValueError(f"{g:>3}")
except ValueError as error:
    told = str(error)
finally:
    done = True

match [1, 2]:
    case [1, second]:
        matched = second

comprehended = [x for x in range(2)]
(await asyncio.gather(one(), one()), outer(), told, done, matched, Point(1).moved().x, comprehended, (lambda: 3)())
"""
    with sandbox() as run:
        assert run(code) == ([1, 1], 2, "  1", True, 2, 2, [0, 1], 3)


@pytest.mark.parametrize(
    "code",
    [
        "sorted([1], key=lambda x: lookup('a'))",
        "list(map(lookup, ['a']))",
        "list(filter(lookup, ['a']))",
        "class A:\n  def __repr__(self): return lookup('a')\nrepr(A())",
    ],
)
def test_no_tool_can_be_called_where_it_is_said_that_none_can(code):
    with sandbox() as run, pytest.raises(MontyError, match="cannot suspend"):
        run(code, {"return_value": 1})

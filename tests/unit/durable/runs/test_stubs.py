"""Claims about stubs: what a model reads, and what the type checker of the sandbox holds a program against."""

from __future__ import annotations

import ast
import collections.abc as c
import enum
import inspect
import uuid
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_monty import MontyTypingError

from holdfast.durable.runs.stubs import DOCSTRING_MAX, IMPORTED, preamble
from holdfast.durable.runs.tool import Tool, Tools
from tests.unit.durable.runs.sandboxed import sandbox


class Mood(enum.Enum):
    CALM = "calm"
    BUSY = "busy"


@dataclass
class Order:
    item: str
    count: int = 1


async def fetch(url: str, *, retries: int = 3) -> dict[str, Any]:
    """Fetch a page.

    It takes its time.
    """


def book(
    order: Order,
    at: datetime,
    /,
    price: Decimal = Decimal(1),
    *names: str,
    mood: Mood = Mood.CALM,
    mode: Literal["a", "b"] = "a",
    parts: c.Sequence[float] = (),
    **more: uuid.UUID,
) -> Order | None: ...


def bare(x, y=float("inf")): ...


TOOLS = Tools.of([fetch, book, bare])


def test_a_stub_is_what_one_would_write():
    assert (
        TOOLS.preamble
        == '''\
import datetime
import decimal
from typing import Any, Literal, Sequence

async def fetch(url: str, *, retries: int = 3) -> dict[str, Any]:
    """Fetch a page.

    It takes its time.
    """
    ...

def book(order: dict[str, Any], at: datetime.datetime, /, price: decimal.Decimal = ..., *names: str, \
mood: Literal['calm', 'busy'] = ..., mode: Literal['a', 'b'] = 'a', parts: Sequence[float] = (), **more: str) \
-> dict[str, Any] | None:
    """order: {"item": str, "count": int (optional)}
    returns: {"item": str, "count": int} | None
    """
    ...

def bare(x: Any, y: Any = ...) -> Any:
    ...
'''
    )


def test_stubs_are_the_same_every_time():
    assert preamble(TOOLS) == TOOLS.preamble == Tools.of([fetch, book, bare]).preamble


def test_without_tools_there_is_nothing_to_say():
    assert Tools.of([]).preamble == ""


@pytest.mark.parametrize(
    "code",
    [
        "(await fetch('x'))['title']",
        "import asyncio\n[r['x'] for r in await asyncio.gather(fetch('a'), fetch('b', retries=1))]",
        "import datetime\nbook({'item': 'tea'}, datetime.datetime.now())",
        "import datetime as dt, decimal\nbook({}, dt.datetime.now(), decimal.Decimal(1), 'a', 'b', mood='busy', k='v')",
        "import datetime\nr = book({}, datetime.datetime.now())\nif r is not None: r['count'] + 1",
        "xs = [1, 2]\nimport datetime\nbook({}, datetime.datetime.now(), parts=xs)",
        "bare(1).anything",
        "def bare(): return 'my own'\nbare()",
    ],
)
def test_a_right_call_passes_the_type_checker(code):
    assert _complaint(code) == ""


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("fetch('x')['title']", "Cannot subscript object of type `CoroutineType"),
        ("fetch('x')", "is not awaited"),
        ("await fetch(3)", "Expected `str`, found `Literal[3]`"),
        ("await fetch('x', retry=3)", "`retry` does not match any known parameter"),
        ("await fetch('x', 3)", "Too many positional arguments"),
        ("await bare(1, 2, 3)", "Too many positional arguments"),
        ("import datetime\nbook({}, datetime.datetime.now(), mode='c')", 'Expected `Literal["a", "b"]`'),
        ("import datetime\nbook({}, datetime.datetime.now(), mood='wild')", 'Expected `Literal["calm", "busy"]`'),
        ("import datetime\nbook({}, datetime.datetime.now(), price=1.5)", "Expected `Decimal`"),
        ("book({}, '2020-01-01')", "Expected `datetime`"),
        ("import datetime\nbook({}, datetime.datetime.now())['count']", "on `None`|None"),
        ("send('x')", "Name `send` used when not defined"),
    ],
)
def test_a_wrong_call_is_told_before_anything_runs(code, complaint):
    assert any(part in _complaint(code) for part in complaint.split("|"))


@pytest.mark.parametrize("code", ["datetime.datetime.now()", "x: Any = 1", "decimal.Decimal(1)"])
def test_what_stubs_import_is_not_imported_for_the_program(code):
    assert "used when not defined" in _complaint(code)


def _complaint(code):
    options = {"type_check": True, "type_check_stubs": TOOLS.preamble, "type_check_format": "concise"}
    with sandbox() as run:
        try:
            # A function that nobody calls: only the checker reads it.
            run("async def main():\n" + "\n".join(f"    {line}" for line in code.split("\n")), **options)
        except MontyTypingError as error:
            return str(error)
    return ""


@given(st.text(st.characters(exclude_categories=())) | st.text('"\\\n \t\x00\u2028\ud800', max_size=12))
def test_any_docstring_is_valid_python(description):
    tree = ast.parse(Tool(lambda: None, name="tool", description=description).stub())
    assert [type(one) for one in tree.body] == [ast.FunctionDef]


@given(st.text(st.characters(categories=["L", "N", "P", "S"]) | st.sampled_from(["\n", " ", '"', "\\"])))
def test_a_docstring_says_in_the_stub_what_it_says_on_the_host(description):
    tree = ast.parse(Tool(lambda: None, name="tool", description=description).stub())
    shown = ast.get_docstring(tree.body[0]) or ""
    assert _lines(shown) == _lines(inspect.cleandoc(description))


def _lines(text):
    return [line.rstrip() for line in text.strip().split("\n")]


def test_a_docstring_is_shown_as_written_up_to_its_end():
    tool = Tool(lambda: None, name="tool", description='Say """hi""" to C:\\new\\table, "friend"')
    assert ast.get_docstring(ast.parse(tool.stub()).body[0]) == 'Say """hi""" to C:\\new\\table, "friend"'


def test_a_long_docstring_is_cut():
    tool = Tool(lambda: None, name="tool", description="word " * 5_000)
    assert len(tool.stub()) < DOCSTRING_MAX + 200
    assert "word …" in tool.stub()


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (None, "None"), (True, "True"), (-1, "-1"), (1.5, "1.5"), ("it's", '"it\'s"'), (b"x", "b'x'"), ((), "()"),
        ((1, "a"), "(1, 'a')"), ([], "[]"), ([[1]], "[[1]]"), ({}, "{}"), (float("nan"), "..."), ({1}, "..."),
        ("x" * 100, "..."), (object(), "..."), (Mood.CALM, "..."), (10**100, "..."), ({"a": 1}, "..."),
    ],
)  # fmt: skip
def test_a_default_is_shown_if_a_program_could_write_it(default, shown):
    def tool(x=default): ...

    assert f"x: Any = {shown})" in Tool(tool).stub()


def test_all_that_an_iterator_gives_is_a_list_for_the_program():
    def plain() -> c.Iterable[int]:
        yield 1

    async def later() -> c.AsyncIterator[uuid.UUID]:
        yield uuid.uuid4()

    def made() -> c.Awaitable[int]: ...

    assert "def plain() -> list[int]:" in Tool(plain).stub()
    assert "async def later() -> list[str]:" in Tool(later).stub()
    assert "def made() -> int:" in Tool(made).stub()


@pytest.mark.parametrize("name", sorted(IMPORTED))
def test_no_tool_can_hide_what_its_stub_imports(name):
    with pytest.raises(ValueError, match="means something else"):
        Tool(fetch, name=name)

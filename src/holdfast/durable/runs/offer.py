"""The offer of `run_python` to a model: its name, the schema of its arguments and all that it needs to know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.durable.runs.stubs import preamble

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool

NAME: Final = "run_python"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "description": "The Python program. The value of its last line, if that is an expression, is the result.",
        },
    },
    "required": ["code"],
    "additionalProperties": False,
}

_INTRODUCTION: Final = """\
Runs a Python program in a sandbox and returns what it printed and the value of its last expression.

Use it to call several functions, to loop over data, to compute, and to pass the result of one call to the next without
repeating it. End the program with the value you want as an expression on the last line; print() shows what you need on
the way. Only what is printed and that value come back, so keep both short.

The sandbox runs a subset of Python 3:
- It has functions, lambdas, closures, comprehensions, f-strings, try/except/finally, with, match, async/await, and
  plain classes and dataclasses.
- It does not have yield, del, class inheritance (so no exceptions of your own), decorators on methods (property,
  classmethod, staticmethod), async with, async for, except*, or `from x import *`.
- Only these modules can be imported: asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal
  functools hashlib itertools json math os pathlib random re sys time tomllib typing unicodedata.
- Methods of built-in types are no values: write `lambda text: text.lower()`, not `str.lower`.
- There is no network, no input() and no pip."""

_CALLING: Final = """\
Whatever touches the world outside goes through these functions, which a program can call; they are defined already, so
do not import or define them. Do not catch errors only to hide them: an exception that is not caught comes back to you
with its traceback.
- Call an `async def` with await, also at the top level. Await calls that do not depend on each other together, with
  `asyncio.gather(...)` after `import asyncio`: they run at the same time. gather takes no keywords; create_task,
  wait_for and TaskGroup do not exist.
- Call a plain `def` without await.
- No function below can be called from inside sorted(key=...), map(), filter(), __repr__ or another special method.
  Collect the results in a loop or a comprehension first.
- A call that was interrupted by a restart of the process may raise RuntimeError("Process was restarted"). It may have
  happened or not.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What an agent framework shows a model, so that it can use `run_python`."""

    name: str
    schema: dict[str, Any]
    description: str


def offer(tools: Iterable[Tool]) -> Offer:
    """`run_python` with these tools."""
    return Offer(name=NAME, schema=SCHEMA, description=description(tools))


def description(tools: Iterable[Tool]) -> str:
    """What the sandbox is and is not, what comes back of a program, and the stubs of the tools it can call."""
    stubs = preamble(tools)
    if not stubs:
        return _INTRODUCTION
    return f"{_INTRODUCTION}\n\n{_CALLING}\n```python\n{stubs}```"

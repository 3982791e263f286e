"""What came of a run, as the command line tells it, and the exit code that this is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from holdfast.history.preview import escape

if TYPE_CHECKING:
    from holdfast.durable.runs.result import RunResult

ENDED_BADLY = 1
WAITS = 6


def code_of(results: Iterable[RunResult]) -> int:
    """6 if one of them has not come to its end, else 1 if one ended with an error, else 0."""
    worst = 0
    for result in results:
        if result.status != "complete":
            return WAITS
        worst = max(worst, ENDED_BADLY if result.is_error else 0)
    return worst


def state_of(result: RunResult) -> str:
    if result.status == "complete":
        return "failed" if result.is_error else "finished"
    return result.status


def plain(result: RunResult) -> dict[str, Any]:
    """The result in JSON; values that JSON has no form for have the exact one of the wire format."""
    from holdfast.history.jsonform import to_json

    return {
        "agent_id": result.agent_id,
        "tool_call_id": result.tool_call_id,
        "state": state_of(result),
        "recovered": result.recovered,
        "tool_call_count": result.tool_call_count,
        "output": to_json(result.output),
        "print_output": result.print_output,
        "is_error": result.is_error,
        "error": result.error,
    }


def value_text(value: Any) -> str:
    """A program's last value as its user wants to see it: a text as it is, anything else as Python writes it."""
    return value if isinstance(value, str) else repr(value)


def print_output(value: Any) -> None:
    """The value of the last expression, if it is one."""
    from holdfast.cli.output import say
    from holdfast.cli.watching import shown

    if value is not None:
        say(shown(value_text(value), sys.stdout))


def print_error(result: RunResult, program: str | None = None) -> None:
    """A program's traceback, on stderr; with the name of its file, where that is known."""
    told = result.error or "It failed."
    if program is not None:
        told = re.sub(r'"<python-input-0>"', lambda _: f'"{program}"', told)
        told = re.sub(r"^main\.py(?=:\d)", lambda _: program, told, flags=re.MULTILINE)
    for line in told.rstrip("\n").split("\n"):
        click.echo(escape(line), file=sys.stderr)


def note(text: str, hint: str = "") -> None:
    """Something to know, on stderr."""
    click.echo(f"note: {escape(text)}", file=sys.stderr)
    if hint:
        click.echo(f"hint: {escape(hint)}", file=sys.stderr)

"""What the command line says when something goes wrong, and the exit code that it ends with."""

from __future__ import annotations

import sys
from typing import Final

import click

from holdfast.errors import (
    Closed,
    Corrupt,
    DiskFull,
    HoldfastError,
    Poisoned,
    ReadOnly,
    StorageFailed,
    Unopenable,
)
from holdfast.history.preview import escape

NOT_THERE: Final = 1
USAGE: Final = 2
DAMAGED: Final = 3
UNOPENABLE: Final = 4
IO_FAILED: Final = 5
INTERRUPTED: Final = 130

_CODES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (Corrupt, DAMAGED),
    (DiskFull, IO_FAILED),
    (Poisoned, IO_FAILED),
    (Closed, UNOPENABLE),
    (ReadOnly, UNOPENABLE),
    (Unopenable, UNOPENABLE),
    (StorageFailed, IO_FAILED),
)


def tell(error: BaseException) -> int:
    """Says what went wrong on stderr, in one line and a hint; returns the exit code."""
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say(getattr(error, "message", "stopped"), getattr(error, "hint", ""))
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        _say(error.format_message().rstrip("."), _usage_hint(error))
        return USAGE
    if isinstance(error, HoldfastError):
        _say(error.message, error.hint)
        return next((code for cls, code in _CODES if isinstance(error, cls)), NOT_THERE)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}", "")
        return NOT_THERE if isinstance(error, FileNotFoundError) else IO_FAILED
    raise error


def _usage_hint(error: click.ClickException) -> str:
    told = getattr(error, "hint", "")
    if told:
        return str(told)
    context = getattr(error, "ctx", None)
    return f"`{context.command_path} --help` shows how it is used." if context else "See `holdfast --help`."


def _say(message: str, hint: str) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, file=sys.stderr)  # what was told of the progress
    click.echo(f"error: {escape(message)}", file=sys.stderr)
    if hint:
        click.echo(f"hint: {escape(hint)}", file=sys.stderr)

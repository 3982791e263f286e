"""What commands print: coloured and cut to the width at a terminal, whole and plain on a pipe."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.history.preview import columns, escape, fit

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SCALES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def at_terminal() -> bool:
    return sys.stdout.isatty()


def coloured() -> bool:
    """Whether stdout is a terminal whose owner did not say NO_COLOR (https://no-color.org)."""
    return at_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, **style: Any) -> str:
    return click.style(text, **style) if text and coloured() else text


def width() -> int | None:
    """How many columns there are; None on a pipe, where nothing is cut."""
    return shutil.get_terminal_size().columns if at_terminal() else None


def cut(text: str, columns_max: int | None) -> str:
    return text if columns_max is None else fit(text, max(columns_max, 8))


def say(line: str = "") -> None:
    print(line)  # noqa: T201 - a command's answer


def say_json(document: Any) -> None:
    say(json_text(document, indent=2))


def json_text(document: Any, indent: int | None = None) -> str:
    """JSON that can be read and can't move a terminal's cursor: whatever is not printable is escaped."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    if text.isascii():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _json_escape(char) for char in text)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> None:
    """Rows under their heads, as wide as their content; the last column is cut at a terminal's edge."""
    shown = [list(head), *([escape(cell) for cell in row] for row in rows)]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    for number, row in enumerate(shown):
        cells = [cell + " " * (wide - columns(cell)) for cell, wide in zip(row, widths, strict=True)]
        line = cut("  ".join(cells).rstrip(), width())
        say(styled(line, dim=True) if number == 0 else line)


def moment(at: datetime) -> str:
    """An exact time, the same everywhere."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(at: datetime, now: datetime | None = None) -> str:
    """How long ago something was at a terminal; when it was, on a pipe."""
    return ago(at, now) if at_terminal() else moment(at)


def ago(at: datetime, now: datetime | None = None) -> str:
    """`3 min ago`, in whole units."""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    count, unit = next((int(abs(seconds) // size), unit) for size, unit in _UNITS if abs(seconds) >= size)
    return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"


def size(count: int) -> str:
    """`1.2 MB`: bytes as a person reads them."""
    for scale, unit in _SCALES:
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def progress() -> Progress | None:
    """Tells how far long work is, on a line of stderr that it uses again and again; None when that is no terminal."""
    if not sys.stderr.isatty():
        return None

    def tell(doing: str, done: int, total: int) -> None:
        line = f"{doing}: {done:,} of {total:,}" if done < total else ""
        print(f"\r\x1b[K{fit(escape(line), 79)}", end="", file=sys.stderr, flush=True)  # noqa: T201

    return tell

"""Whoever started a run watches it: a line for each call at a terminal, and what the program prints as it comes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final, TextIO

from holdfast.history.preview import escape, fit

if TYPE_CHECKING:
    from holdfast.durable.runs.observing import CallEvent

_COLUMNS_MIN: Final = 20
_COLUMNS_DEFAULT: Final = 80


class Watch:
    """Is told of every call. `prints`: what the program prints is passed on to stdout. `named`: runs are told apart."""

    def __init__(self, *, prints: bool = False, named: bool = False) -> None:
        self._out: TextIO | None = sys.stdout if prints else None
        self._err = sys.stderr
        self._shows = self._err.isatty()
        self._named = named
        self._printed = 0  # characters that were passed on
        self._under_way: dict[tuple[str, str, int], str] = {}
        self.calls = 0

    def __call__(self, event: CallEvent) -> None:
        self.calls = max(self.calls, event.number)
        self.passed_on(event.printed)
        if not self._shows:
            return
        call = (event.agent_id, event.tool_call_id, event.call_id)
        if event.what == "begun":
            self._under_way[call] = self._line(event)
        else:
            self._under_way.pop(call, None)
            self._write("\r\x1b[K" + self._line(event) + "\n")
        self._show_under_way()

    def passed_on(self, printed: str) -> None:
        """Passes on what is new of all that the program printed."""
        text, self._printed = printed[self._printed :], max(self._printed, len(printed))
        if not text or self._out is None:
            return
        try:
            self.clear()
            self._out.write(shown(text, self._out))
            self._out.flush()
        except OSError:  # whoever read it has seen enough; the program goes on, because its effects matter
            self._out = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What the tools print goes to stderr: stdout is for the programs and the answer."""
        stream = _Aside(self)
        with redirect_stdout(stream), redirect_stderr(stream):
            try:
                yield
            finally:
                self.clear()
                self._under_way.clear()

    def clear(self) -> None:
        """Takes away the line of what is under way."""
        if self._shows and self._under_way:
            self._write("\r\x1b[K")

    def _show_under_way(self) -> None:
        if self._under_way:
            line = next(reversed(self._under_way.values()))
            others = f"  (and {len(self._under_way) - 1} more)" if len(self._under_way) > 1 else ""
            self._write("\r\x1b[K" + fit(line, self._columns() - len(others)) + others)

    def _line(self, event: CallEvent) -> str:
        from holdfast.cli.calls import called, is_sleep, raised, returned

        width = self._columns()
        number = "   " if is_sleep(event.tool_name) else f"#{event.number}"
        name = f"{escape(event.tool_call_id)}  " if self._named else ""
        again = f"  (attempt {event.attempt})" if event.attempt > 1 else ""
        line = f"{name}{number:<4} {called(event.tool_name, event.arguments, width * 2 // 3)}{again}"
        if event.what == "begun":
            return fit(f"{line} …", width)
        if event.error is not None:
            return fit(f"{line} ! {raised(event.error, width)}", width)
        return line if is_sleep(event.tool_name) else fit(f"{line} = {returned(event.result, width)}", width)

    def _columns(self) -> int:
        import os

        told = os.environ.get("COLUMNS", "")
        try:
            columns = int(told) if told.isdecimal() else os.get_terminal_size(self._err.fileno()).columns
        except (OSError, ValueError, AttributeError):
            columns = 0
        return max((columns or _COLUMNS_DEFAULT) - 1, _COLUMNS_MIN)

    def _write(self, text: str) -> None:
        self._err.write(text)
        self._err.flush()


class _Aside(io.TextIOBase):
    """stderr, without the line of what is under way."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._err = sys.stderr

    def write(self, text: str) -> int:
        self._watch.clear()
        self._err.write(text)
        return len(text)

    def flush(self) -> None:
        self._err.flush()

    def isatty(self) -> bool:
        return self._err.isatty()

    def fileno(self) -> int:
        return self._err.fileno()


def shown(text: str, stream: TextIO) -> str:
    """What a program printed: as it is on a pipe; at a terminal nothing of it but lines and tabs moves the cursor."""
    if not stream.isatty():
        return text
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))

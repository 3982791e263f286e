"""Ctrl-C while programs run: it ends them promptly, whatever their tools are doing, and says how to go on."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

import click

from holdfast.cli.command import Invocation

T = TypeVar("T")

_SECONDS_TO_UNWIND: Final = 1.0
_SECONDS_TO_CLOSE: Final = 0.2


class Stopped(click.Abort):
    """What the user is told who stopped something that can be gone on with."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def stoppable(work: Coroutine[Any, Any, T], farewell: Callable[[], Stopped]) -> T:
    """Carries out work that can be stopped anywhere; the first Ctrl-C cancels it, the second ends the process.

    A thread can't be stopped, nor can a tool that blocks the event loop: for these nobody waits long. All that was
    recorded is on disk, so that ending the process loses nothing.
    """
    with asyncio.Runner() as runner:
        stop = _Stop(runner.get_loop(), farewell)
        before = signal.signal(signal.SIGINT, stop)
        try:
            return runner.run(stop.watched(work))
        except asyncio.CancelledError:
            if not stop.asked:
                raise
            raise farewell() from None
        finally:
            if stop.asked:
                stop.leave_after(_SECONDS_TO_CLOSE)
            runner.close()  # waits for the threads of tools
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGINT, before)


def command_line(invocation: Invocation, *words: str, **options: Any) -> str:
    """A command as one would type it, to be copied from a hint."""
    typed = ["holdfast", *words]
    for name, value in {"store": invocation.store, **options}.items():
        if value is True:
            typed.append(f"--{name}")
        elif value:
            typed += [part for one in ([value] if isinstance(value, str) else value) for part in (f"--{name}", one)]
    return shlex.join(typed)


class _Stop:
    """The handler of SIGINT."""

    def __init__(self, loop: asyncio.AbstractEventLoop, farewell: Callable[[], Stopped]) -> None:
        self.asked = False
        self._loop = loop
        self._farewell = farewell
        self._task: asyncio.Task[Any] | None = None

    async def watched(self, work: Coroutine[Any, Any, T]) -> T:
        self._task = asyncio.current_task()
        return await work

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked or self._task is None or self._task.done():
            self._leave()
        self.asked = True
        self._task.cancel()
        self._loop.call_soon_threadsafe(lambda: None)  # wakes it
        self.leave_after(_SECONDS_TO_UNWIND)

    def leave_after(self, seconds: float) -> None:
        """A timer of the system: it comes even while a tool holds the event loop up."""
        signal.signal(signal.SIGALRM, lambda *_: self._leave())
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _leave(self) -> NoReturn:
        from holdfast.cli.failures import INTERRUPTED, tell

        with suppress(OSError, ValueError, RuntimeError):  # the signal may have come in the middle of a write
            tell(self._farewell())
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(INTERRUPTED)

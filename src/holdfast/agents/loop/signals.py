"""Stop signals: SIGTERM and SIGINT end the loops of a program, after what they are at and a final checkpoint."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stoppable(Protocol):
    """What a stop signal ends."""

    def signalled(self, name: str) -> None:
        """A signal of this name came; it may come again."""


_stoppable: Final[list[Stoppable]] = []  # the main thread's alone
_before: Final[dict[signal.Signals, Any]] = {}  # what the signals did before the first loop began


@contextmanager
def stopped_by_signals(one: Stoppable) -> Iterator[None]:
    """Hands stop signals to it, and to all others within this block; what they did before comes back after the last.

    Only the main thread gets signals: a loop on any other is stopped by `stop()`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _stoppable:
        _install(asyncio.get_running_loop())
    _stoppable.append(one)
    try:
        yield
    finally:
        _stoppable.remove(one)
        if not _stoppable:
            _remove(asyncio.get_running_loop())


def _install(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        _before[number] = signal.getsignal(number)
        loop.add_signal_handler(number, _tell, number)


def _remove(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, _before.pop(number) or signal.SIG_DFL)


def _tell(number: signal.Signals) -> None:
    for one in [*_stoppable]:
        one.signalled(number.name)

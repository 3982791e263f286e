"""The world as a program sees it: the clock, chance and environment, answered by the host and kept for a replay."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.errors import HoldfastError

NOT_OURS: Final = object()
"""What `answer` gives for a call that is about files, or unknown."""

_CLOCK: Final = frozenset({"time.time", "datetime.now", "date.today"})


class Diverged(HoldfastError):
    """A replay asked for something else than what was recorded at this place."""

    def __init__(self, message: str, *, recorded: str = "", replayed: str = "") -> None:
        super().__init__(message)
        self.recorded = recorded
        self.replayed = replayed


class World:
    """Answers with what was recorded, in its order, and then with what is so now; keeps all of the latter.

    One thread uses it at a time: that of the program's turn, or whoever records between turns.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        environment: Mapping[str, str] | None = None,
        recorded: Iterable[list[Any]] = (),
        latest: float = 0.0,
    ) -> None:
        """`latest` is what the program saw of the clock last."""
        self._now = now
        self._environment = dict(environment or {})
        self._recorded: deque[tuple[str, Any]] = deque((what, value) for what, values in recorded for value in values)
        self._fresh: list[tuple[str, list[Any]]] = []
        self._latest = latest

    def answer(self, name: str, args: tuple[Any, ...]) -> Any:
        """What the operating system would say, or `NOT_OURS`."""
        if name in _CLOCK:
            return _clock(name, args, self._told("clock", self._moment))
        if name == "os.urandom":
            return self._told("random", lambda: os.urandom(args[0]))
        if name == "os.environ":
            return dict(self._told("environ", lambda: self._environment))
        if name == "os.getenv":
            return dict(self._told("environ", lambda: self._environment)).get(*args[:2])
        return NOT_OURS

    def take(self) -> list[Any] | None:
        """The answers since the last time, to be recorded: runs of one kind, `[kind, [answer, …]]`."""
        fresh, self._fresh = self._fresh, []
        return [[what, values] for what, values in fresh] or None

    def _told(self, what: str, ask: Callable[[], Any]) -> Any:
        if self._recorded:
            recorded, value = self._recorded.popleft()
            if recorded != what:
                raise Diverged(f"The program asks for {what} where it had asked for {recorded}",
                               recorded=recorded, replayed=what)  # fmt: skip
            if what == "clock":
                self._latest = max(self._latest, value)
            return value
        value = ask()
        if not self._fresh or self._fresh[-1][0] != what:
            self._fresh.append((what, []))
        self._fresh[-1][1].append(value)
        return value

    def _moment(self) -> float:
        """Now; a program never sees its clock go back, whichever machine goes on with it."""
        self._latest = max(self._latest, self._now())
        return self._latest


def _clock(name: str, args: tuple[Any, ...], moment: float) -> Any:
    if name == "time.time":
        return moment
    here = datetime.fromtimestamp(moment, UTC)
    if name == "date.today":
        return here.date()
    zone = args[0] if args else None
    return here.replace(tzinfo=None) if zone is None else here.astimezone(zone)

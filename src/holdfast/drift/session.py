"""The session: how long an agent did nothing, how many things it did, and how old its session is."""

from __future__ import annotations

from typing import Any, Final

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal

_SECONDS_MAX: Final = 1e15


class IdleTime(Signal):
    """`seconds` went by between two events. It is seen when the second one comes."""

    def __init__(self, seconds: float = 4 * 3600) -> None:
        self.seconds = seconds
        self._last: float | None = None
        self._idle = 0.0

    def observe(self, moment: Moment) -> float:
        at, last = _time_of(moment), self._last
        idle = 0.0 if at is None or last is None else at - last - max(0.0, moment.event.duration_seconds or 0.0)
        self._idle = max(0.0, idle)
        self._last = last if at is None else at
        return self._idle / self.seconds

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        return f"Nothing happened for {self._idle:.0f} seconds", {"seconds": self._idle, "events": [moment.number]}

    def state(self) -> Any:
        return [self._last, self._idle]

    def restore(self, state: Any) -> None:
        self._last, self._idle = state or (None, 0.0)


class CycleCount(Signal):
    """`events` were observed since the detector began."""

    def __init__(self, events: int = 1000) -> None:
        self.events = events

    def observe(self, moment: Moment) -> float:
        return moment.number / self.events

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        return f"The session has {moment.number} events", {"count": moment.number, "events": [moment.number]}


class SessionAge(Signal):
    """`seconds` went by since the first event that told its time."""

    def __init__(self, seconds: float = 24 * 3600) -> None:
        self.seconds = seconds
        self._first: float | None = None
        self._age = 0.0

    def observe(self, moment: Moment) -> float:
        at = _time_of(moment)
        if at is not None:
            self._first = at if self._first is None else self._first
            self._age = max(0.0, at - self._first)
        return self._age / self.seconds

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        return f"The session is {self._age:.0f} seconds old", {"seconds": self._age, "events": [moment.number]}

    def state(self) -> Any:
        return [self._first, self._age]

    def restore(self, state: Any) -> None:
        self._first, self._age = state or (None, 0.0)


def _time_of(moment: Moment) -> float | None:
    """When the event was over; nothing that no clock says."""
    at = moment.event.at
    return at if at is not None and abs(at) < _SECONDS_MAX else None

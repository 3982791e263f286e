"""Stall: many events, and nothing among them that had not been there before."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal


class Stall(Signal):
    """`events` in a row with neither a new call nor a new outcome. A new way to make a known mistake is nothing new."""

    def __init__(self, events: int = 12) -> None:
        self.events = events
        self._count = 0

    def observe(self, moment: Moment) -> float:
        self._count = 0 if moment.new else self._count + 1
        return self._count / self.events

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        reason = (
            f"{self._count} events in a row brought nothing new: every call and every outcome had been there before"
        )
        return reason, {"count": self._count, "events": [moment.number - self._count + 1, moment.number]}

    def state(self) -> Any:
        return self._count

    def restore(self, state: Any) -> None:
        self._count = state or 0

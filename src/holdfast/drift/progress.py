"""Progress: what the agent tells of it does not rise, or goes back."""

from __future__ import annotations

from math import isfinite
from typing import Any

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal


class Progress(Signal):
    """`events` that tell their progress without any telling more than before, or a `fall` of this share of the best.

    A fall must last for three events: who begins a new part may count from zero, and soon tells more.
    """

    def __init__(self, events: int = 30, fall: float = 0.5) -> None:
        self.events = events
        self.fall = fall
        self._best: float | None = None
        self._flat = 0
        self._low = 0
        self._now = 0.0

    def observe(self, moment: Moment) -> float:
        now = moment.event.progress
        if now is None or not isfinite(now):
            return self._level()
        self._now = now
        if self._best is None or now > self._best:
            self._best, self._flat, self._low = now, 0, 0
        else:
            self._flat += 1
            self._low = self._low + 1 if self._best - now >= self.fall * abs(self._best) > 0 else 0
        return self._level()

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        evidence = {"best": self._best, "now": self._now, "count": self._flat, "events": [moment.number]}
        if self._low >= _LOW_EVENTS:
            return f"Progress fell from {self._best:g} to {self._now:g}", evidence
        return f"Progress has not gone beyond {self._best:g} for {self._flat} events", evidence

    def state(self) -> Any:
        return [self._best, self._flat, self._low, self._now]

    def restore(self, state: Any) -> None:
        self._best, self._flat, self._low, self._now = state or (None, 0, 0, 0.0)

    def _level(self) -> float:
        return max(self._flat / self.events, self._low / _LOW_EVENTS)


_LOW_EVENTS = 3

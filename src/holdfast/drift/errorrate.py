"""Error rate: a rise of the share of events that fail, seen by the Page-Hinkley test."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal


class ErrorRate(Signal):
    """The failures beyond what was usual so far, plus `tolerance` per event, add up to `excess`.

    Nothing is told before `events_min` events. An agent that fails at the same rate all the time does not rise.
    """

    def __init__(self, excess: float = 8.0, tolerance: float = 0.05, events_min: int = 10) -> None:
        self.excess = excess
        self.tolerance = tolerance
        self.events_min = events_min
        self._events = 0
        self._mean = 0.0
        self._sum = 0.0
        self._failed: list[int] = []  # since the rise began, at most as many as are told

    def observe(self, moment: Moment) -> float:
        failed = bool(moment.step.mistake)
        self._events += 1
        self._mean += (failed - self._mean) / self._events
        # How far the test's sum is above its lowest so far; held at twice the threshold, so that it can fall again.
        self._sum = min(max(0.0, self._sum + failed - self._mean - self.tolerance), 2 * self.excess)
        if not self._sum:
            self._failed = []
        elif failed:
            self._failed = [*self._failed, moment.number][-_TOLD_MAX:]
        return self._sum / self.excess if self._events >= self.events_min else 0.0

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        first = self._failed[0] if self._failed else moment.number
        failed, of = len(self._failed), moment.number - first + 1
        reason = f"{failed} of the last {of} actions failed, more than the {self._mean:.0%} that were usual so far"
        return reason, {"failed": failed, "of": of, "usual": round(self._mean, 3), "events": self._failed}

    def state(self) -> Any:
        return [self._events, self._mean, self._sum, self._failed]

    def restore(self, state: Any) -> None:
        self._events, self._mean, self._sum, failed = state or (0, 0.0, 0.0, [])
        self._failed = list(failed)


_TOLD_MAX = 24

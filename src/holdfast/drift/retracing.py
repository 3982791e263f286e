"""Retracing: an agent that goes back to one after the other of what it has done, and finds it unchanged."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.drift.moment import Moment, Step
from holdfast.drift.signal import Signal

_EACH_MAX = 2


class Retracing(Signal):
    """`times` within the last `events` a call was made again with the same outcome; one call counts twice at most.

    So it takes several calls: one that comes again after every change is a test, and no drift by itself.
    """

    def __init__(self, times: int = 7, events: int = 40) -> None:
        self.times = times
        self.events = events

    def observe(self, moment: Moment) -> float:
        if not moment.again:
            return 0.0
        counts = Counter(step.call for step in self._again(moment))
        return sum(min(count, _EACH_MAX) for count in counts.values()) / self.times

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        again = self._again(moment)
        calls = len({step.call for step in again})
        reason = (
            f"{calls} different calls were made again within {self.events} events, and their outcomes were the same"
        )
        actions = sorted({step.action for step in again})
        return reason, {"actions": actions, "calls": calls, "events": [step.number for step in again]}

    def _again(self, moment: Moment) -> list[Step]:
        return [step for step in moment.again if step.number > moment.number - self.events]

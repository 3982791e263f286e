"""Retracing: an agent that goes back to one after the other of what it has done, and finds it unchanged."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from holdfast.drift.moment import Moment, Step
from holdfast.drift.signal import Signal

_ONCE: Final = 0.5  # to look again once may be to make sure
_TWICE: Final = 1.5


class Retracing(Signal):
    """Calls that were made again within the last `events`, with the same outcomes, add up to this much `evidence`.

    A call made again once adds a half, one made again more often one and a half. So it takes several: one call that
    comes again after every change is a test, and no drift by itself.
    """

    def __init__(self, evidence: float = 3.5, events: int = 40) -> None:
        self.evidence = evidence
        self.events = events

    def observe(self, moment: Moment) -> float:
        if not moment.again:
            return 0.0
        counts = Counter(step.call for step in self._again(moment))
        return sum(_ONCE if count == 1 else _TWICE for count in counts.values()) / self.evidence

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        again = self._again(moment)
        calls = len({step.call for step in again})
        reason = f"{calls} different calls were made again within {self.events} events, with the same outcomes"
        actions = sorted({step.action for step in again})
        return reason, {"actions": actions, "calls": calls, "events": [step.number for step in again]}

    def _again(self, moment: Moment) -> list[Step]:
        return [step for step in moment.again if step.number > moment.number - self.events]

"""Cycles: calls that come round with the same outcomes, however long the circle and whatever is in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.drift.moment import Moment, Step
from holdfast.drift.signal import Signal


class Cycles(Signal):
    """The last `events` have this much `evidence`.

    A call that has the same outcome as before adds the share of what happened since that was nothing new: 1 when it
    comes at once, a half when one new thing was done in between. The second time adds less than those after it.
    """

    def __init__(self, evidence: float = 1.5, events: int = 32) -> None:
        self.evidence = evidence
        self.events = events

    def observe(self, moment: Moment) -> float:
        return sum([step.again for step in self._again(moment)]) / self.evidence if moment.again else 0.0

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        again = self._again(moment)
        counts = Counter(step.call for step in again)
        most = max(counts.values()) + 1
        actions = sorted({step.action for step in again})
        if len(counts) == 1:
            reason = f"{actions[0]} came round {most} times with the same outcome"
        else:
            reason = f"{len(counts)} calls come round with the same outcomes, up to {most} times: {', '.join(actions)}"
        return reason, {"actions": actions, "calls": len(counts), "events": [step.number for step in again]}

    def _again(self, moment: Moment) -> list[Step]:
        return [step for step in moment.again if step.number > moment.number - self.events]

"""Cycles: calls that come round with the same outcomes, whatever the length of the circle and whatever is in between."""

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

    def __init__(self, evidence: float = 1.5, events: int = 24) -> None:
        self.evidence = evidence
        self.events = events

    def observe(self, moment: Moment) -> float:
        return sum(step.again for step in self._again(moment)) / self.evidence

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        again = self._again(moment)
        counts = Counter((step.action, step.call) for step in again)
        told = ", ".join(f"{action} {count + 1} times" for (action, _), count in counts.most_common(3))
        more = "" if len(counts) <= 3 else f" and {len(counts) - 3} more"
        reason = f"The agent goes round in circles: {told}{more}, with the same outcomes"
        actions = [action for (action, _), _ in counts.most_common()]
        return reason, {"actions": actions, "count": len(again), "events": [step.number for step in again]}

    def _again(self, moment: Moment) -> list[Step]:
        return [step for step in moment.again if step.number > moment.number - self.events]

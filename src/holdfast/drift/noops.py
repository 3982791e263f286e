"""No-ops: an agent that has collapsed into calls that do nothing."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal


class NoOps(Signal):
    """`calls` of the last `events` had nothing to carry out: no word in their arguments, or a shell's `:`."""

    def __init__(self, calls: int = 6, events: int = 8) -> None:
        self.calls = calls
        self.events = events

    def observe(self, moment: Moment) -> float:
        return [step.idle for step in moment.recent[-self.events :]].count(True) / self.calls

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        idle = [step for step in moment.recent[-self.events :] if step.idle]
        reason = f"{len(idle)} of the last {min(self.events, len(moment.recent))} calls had nothing to do"
        return reason, {"actions": sorted({step.action for step in idle}), "events": [step.number for step in idle]}

"""Near repeats: one mistake made again and again, each time a little differently."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment, Step
from holdfast.drift.signal import Signal


class NearRepeats(Signal):
    """`calls` different calls of an action among the last `events` failed with the same error.

    Errors are the same when they differ only in what is volatile, in line numbers, and in what they repeat of the
    arguments. The same call that fails again counts once: it may be a test after a change.
    """

    def __init__(self, calls: int = 4, events: int = 24) -> None:
        self.calls = calls
        self.events = events

    def observe(self, moment: Moment) -> float:
        calls = len({step.call for step in self._mistakes(moment)}) if moment.step.mistake else 0
        return calls / self.calls if calls > 1 else 0.0

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        made = self._mistakes(moment)
        calls = len({step.call for step in made})
        reason = f"{moment.step.action} was tried in {calls} ways, and all of them failed with the same error"
        return reason, {"action": moment.step.action, "calls": calls, "events": [step.number for step in made]}

    def _mistakes(self, moment: Moment) -> list[Step]:
        return [step for step in moment.recent[-self.events :] if step.mistake == moment.step.mistake]

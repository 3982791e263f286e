"""Repetition: the same call with the same outcome, again and again in a row."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal


class Repetition(Signal):
    """`times` in a row one action with the same arguments, and an outcome in which only times, ids and such changed."""

    def __init__(self, times: int = 4) -> None:
        self.times = times

    def observe(self, moment: Moment) -> float:
        run = len(_run(moment)) if moment.same else 1
        return run / self.times if run > 1 else 0.0

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        run = _run(moment)
        reason = f"{moment.step.action} was done {len(run)} times in a row with the same outcome"
        return reason, {"action": moment.step.action, "count": len(run), "events": run}


def _run(moment: Moment) -> list[int]:
    run = [moment.number]
    for step in reversed(moment.same):
        if step.number != run[0] - 1:
            break
        run.insert(0, step.number)
    return run

"""Latency: actions that take longer than they used to, seen by a cumulative sum of the logarithms."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, Final

from holdfast.drift.moment import Moment
from holdfast.drift.signal import Signal

_ACTIONS_MAX: Final = 32
_STEP_MAX: Final = 1.5  # one event alone, however long it took, is no trend
_MEMORY: Final = 100  # the usual follows slow changes with the weight of so many events


class Latency(Signal):
    """Durations grew, in sum over the last events, `excess` times beyond a slowdown of `factor`, action by action.

    An action has a usual duration after `events_min` events. Where durations vary much, more is tolerated.
    """

    def __init__(self, excess: float = 8.0, factor: float = 1.4, events_min: int = 20) -> None:
        self.excess = excess
        self.factor = factor
        self.events_min = events_min
        self._usual: dict[str, list[float]] = {}  # action: events, mean and variance of the logarithm
        self._sum = 0.0
        self._since: list[int] = []

    def observe(self, moment: Moment) -> float:
        seconds = moment.event.duration_seconds
        if seconds is None or not 0 < seconds < inf:
            return self._sum / self.excess
        usual = self._usual.pop(moment.step.action, [0.0, 0.0, 0.0])
        beyond = log(seconds) - usual[1]
        if usual[0] >= self.events_min:
            noise = max(1.0, 2 * sqrt(usual[2]))
            step = min(beyond / noise, _STEP_MAX) - log(self.factor)
            self._sum = min(max(0.0, self._sum + step), 2 * self.excess)
            self._since = [*self._since, moment.number][-_TOLD_MAX:] if self._sum else []
        if not self._sum or usual[0] < self.events_min:  # what is suspicious is not learned as usual
            usual[0] += 1
            weight = 1 / min(usual[0], _MEMORY)
            usual[2] += weight * (beyond * beyond * (1 - weight) - usual[2]) if usual[0] > 1 else 0.0
            usual[1] += weight * beyond
        self._usual[moment.step.action] = usual
        if len(self._usual) > _ACTIONS_MAX:
            del self._usual[next(iter(self._usual))]
        return self._sum / self.excess

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        usual = exp(self._usual[moment.step.action][1]) if moment.step.action in self._usual else 0.0
        seconds = moment.event.duration_seconds or 0.0
        reason = f"Actions take longer than they used to: {moment.step.action} {seconds:.3g} s instead of {usual:.3g} s"
        return reason, {"action": moment.step.action, "usual_seconds": round(usual, 6), "events": self._since}

    def state(self) -> Any:
        return [{action: list(usual) for action, usual in self._usual.items()}, self._sum, self._since]

    def restore(self, state: Any) -> None:
        usual, self._sum, since = state or ({}, 0.0, [])
        self._usual = {action: list(values) for action, values in usual.items()}
        self._since = list(since)


_TOLD_MAX: Final = 24

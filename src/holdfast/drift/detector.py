"""`DriftDetector`: tells from what an agent does, event by event, that it goes astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.drift.combination import Combination
from holdfast.drift.cycles import Cycles
from holdfast.drift.errorrate import ErrorRate
from holdfast.drift.latency import Latency
from holdfast.drift.moment import Memory, Moment
from holdfast.drift.nearrepeats import NearRepeats
from holdfast.drift.noops import NoOps
from holdfast.drift.normal import Normal
from holdfast.drift.progress import Progress
from holdfast.drift.protocol import Drift, Event
from holdfast.drift.repetition import Repetition
from holdfast.drift.retracing import Retracing
from holdfast.drift.session import CycleCount, IdleTime, SessionAge
from holdfast.drift.signal import Signal
from holdfast.drift.stall import Stall
from holdfast.errors import InvalidArgument

SIGNALS: Final[dict[str, Callable[[], Signal]]] = {
    "repetition": Repetition,
    "cycles": Cycles,
    "retracing": Retracing,
    "near_repeats": NearRepeats,
    "no_ops": NoOps,
    "stall": Stall,
    "progress": Progress,
    "error_rate": ErrorRate,
    "latency": Latency,
    "idle_time": IdleTime,
    "cycle_count": CycleCount,
    "session_age": SessionAge,
}
"""What a detector looks for unless it is told otherwise, by the kind of drift."""


class DriftDetector:
    """Observes one agent. Each kind of drift has a signal; a keyword replaces it, adds one, or turns it off with None.

    `window` is how many events are remembered; a signal sees no further back. A drift is news once, and again when it
    lasts for `again_after_events`; in between it is `ongoing`. With `normal`, the agent's own way of repeating is
    learned and excused. With a `combination` that was trained, its weights decide instead of each signal by itself.

    >>> detector = DriftDetector(repetition=Repetition(times=3), latency=None)
    >>> drifts = [detector.observe(Event(action="read", arguments={"path": "a.txt"})) for _ in range(3)]
    >>> drifts[1], drifts[2].kind, drifts[2].reason
    (None, 'repetition', 'read was done 3 times in a row with the same outcome')
    """

    def __init__(
        self,
        *,
        window: int = 40,
        again_after_events: int = 24,
        normal: Normal | None = None,
        combination: Combination | None = None,
        **signals: Signal | None,
    ) -> None:
        unknown = [kind for kind, signal in signals.items() if signal is None and kind not in SIGNALS]
        if unknown or window < 2:
            raise InvalidArgument(
                f"There is no signal {unknown[0]!r} to turn off" if unknown else "A window has at least two events",
                hint=f"Signals are {', '.join(SIGNALS)}.",
            )
        self.again_after_events = again_after_events
        self.combination = combination
        self.signals = {kind: make() for kind, make in SIGNALS.items() if kind not in signals}
        self.signals |= {kind: signal for kind, signal in signals.items() if signal is not None}
        self.levels: dict[str, float] = {}
        self._memory = Memory(window, normal)
        self._told = 0  # the number of the event with which drift was news

    def observe(self, event: Event) -> Drift | None:
        moment = self._memory.moment(event)
        self.levels = {kind: signal.observe(moment) for kind, signal in self.signals.items()}
        found = self._found()
        if found is None:
            return None
        ongoing = self._told > 0 and moment.number - self._told < self.again_after_events
        if not ongoing:
            self._told = moment.number
        return self._drift(*found, moment, ongoing=ongoing)

    def state(self) -> dict[str, Any]:
        signals = {kind: state for kind, signal in self.signals.items() if (state := signal.state()) is not None}
        return {"memory": self._memory.state(), "signals": signals, "told": self._told}

    def restore(self, state: dict[str, Any]) -> None:
        self._memory.restore(state.get("memory", {}))
        for kind, signal in self.signals.items():
            signal.restore(state.get("signals", {}).get(kind))
        self._told = state.get("told", 0)
        self.levels = {}

    def _found(self) -> tuple[str, float] | None:
        """The strongest drift that there is, with its score."""
        levels = self.levels
        if self.combination is not None:
            kind, score = self.combination.judge(levels)
            levels = {name: level for name, level in levels.items() if name not in self.combination.weights}
            levels[kind] = score
        kind = max(levels, key=levels.__getitem__, default="")
        return (kind, levels[kind]) if kind and levels[kind] >= 1.0 else None

    def _drift(self, kind: str, score: float, moment: Moment, *, ongoing: bool) -> Drift:
        reason, evidence = self.signals[kind].explain(moment)
        return Drift(kind=kind, score=score, reason=reason, evidence=evidence, ongoing=ongoing)

"""`DriftDetector`: tells from what an agent does, event by event, that it goes astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.drift.combination import Combination
from holdfast.drift.cycles import Cycles
from holdfast.drift.errorrate import ErrorRate
from holdfast.drift.latency import Latency
from holdfast.drift.moment import Memory
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
    "near_repeats": NearRepeats,
    "no_ops": NoOps,
    "cycles": Cycles,
    "retracing": Retracing,
    "stall": Stall,
    "progress": Progress,
    "error_rate": ErrorRate,
    "latency": Latency,
    "idle_time": IdleTime,
    "cycle_count": CycleCount,
    "session_age": SessionAge,
}
"""What a detector looks for unless it is told otherwise, by the kind of drift; what says most comes first."""

_REPEATS: Final = frozenset(("repetition", "near_repeats", "no_ops", "cycles", "retracing", "stall"))


class DriftDetector:
    """Observes one agent. Each kind of drift has a signal; a keyword replaces it, adds one, or turns it off with None.

    `window` is how many events are remembered; a signal sees no further back. Of several kinds the one is told that
    comes first in `SIGNALS`; your own come last. A drift is news once, and again when it lasts for
    `again_after_events`; otherwise it is `ongoing`. Repeats are news even while drift of another sort lasts, such as an
    old session. With `normal`, the agent's own way of repeating is learned and excused. With a `combination` that was
    trained, its weights decide instead of each signal by itself.

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
        made = {kind: signals[kind] if kind in signals else make() for kind, make in SIGNALS.items()}
        self.signals = {kind: signal for kind, signal in {**made, **signals}.items() if signal is not None}
        self.levels: dict[str, float] = {}
        self._memory = Memory(window, normal)
        self._told: list[Any] = [0, ""]  # the event with which drift was news, and the kind of it

    def observe(self, event: Event) -> Drift | None:
        moment = self._memory.moment(event)
        self.levels = {kind: signal.observe(moment) for kind, signal in self.signals.items()}
        found = self._found()
        if found is None:
            return None
        kind, score = found
        reason, evidence = self.signals[kind].explain(moment)
        news = self._is_news(kind, moment.number)
        if news:
            self._told = [moment.number, kind]
        return Drift(kind=kind, score=score, reason=reason, evidence=evidence, ongoing=not news)

    def state(self) -> dict[str, Any]:
        signals = {kind: state for kind, signal in self.signals.items() if (state := signal.state()) is not None}
        return {"memory": self._memory.state(), "signals": signals, "told": list(self._told)}

    def restore(self, state: dict[str, Any]) -> None:
        self._memory.restore(state.get("memory", {}))
        for kind, signal in self.signals.items():
            signal.restore(state.get("signals", {}).get(kind))
        self._told = list(state.get("told", (0, "")))
        self.levels = {}

    def _found(self) -> tuple[str, float] | None:
        """The drift that there is, with its score."""
        levels = self.levels
        if self.combination is not None:
            kind, score = self.combination.judge(levels)
            levels = {name: level for name, level in levels.items() if name not in self.combination.weights}
            levels[kind] = score
        return next(((kind, levels[kind]) for kind in self.signals if levels.get(kind, 0.0) >= 1.0), None)

    def _is_news(self, kind: str, number: int) -> bool:
        told, before = self._told
        return not told or number - told >= self.again_after_events or (kind in _REPEATS and before not in _REPEATS)

"""The watch over an agent: its detector of drift, and what is to be done about what that says."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from holdfast.drift.detector import DriftDetector
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.drift.protocol import Detector, Drift, Event

log = logging.getLogger("holdfast")

POLICIES: Final = ("notify", "checkpoint", "refresh", "stop", "ask")


class Answer(StrEnum):
    """What is done about a drift, besides telling of it."""

    NOTIFY = "notify"
    CHECKPOINT = "checkpoint"
    ASK = "ask"
    REFRESH = "refresh"
    STOP = "stop"


_LADDERS: Final = {
    # What is done the first time, the second time without progress in between, and so on; the last again and again.
    "notify": (Answer.NOTIFY,),
    "checkpoint": (Answer.CHECKPOINT,),
    "refresh": (Answer.REFRESH, Answer.STOP),
    "stop": (Answer.STOP,),
    "ask": (Answer.ASK, Answer.REFRESH, Answer.STOP),
}


class Watch:
    """Tells drift once, when it begins, and climbs a policy's ladder as long as no progress is made.

    Progress is what the agent has completed, and the percentage of its task; to go for a whole refresh period without
    drift is progress as well.
    """

    def __init__(self, detector: Detector | None, policy: str | None) -> None:
        if policy is not None and policy not in POLICIES:
            raise InvalidArgument(
                f"{policy!r} is no policy for drift",
                hint=f"Policies are {', '.join(POLICIES)}; with None, nobody looks for drift.",
            )
        self.detector: Detector = DriftDetector() if detector is None else detector
        self.policy = policy
        self._drifting = False
        self._rung = 0  # how often in a row something was done about drift
        self._progress_then = 0.0

    @property
    def drifting(self) -> bool:
        """Whether there was drift at the last event."""
        return self._drifting

    def observe(self, event: Event) -> Drift | None:
        """The drift that began with this event, if one did. A detector that fails is logged, and says nothing."""
        if self.policy is None:
            return None
        try:
            drift = self.detector.observe(event)
        except Exception:
            log.exception("The detector of drift failed")
            return None
        began = drift is not None and not self._drifting
        self._drifting = drift is not None
        return drift if began else None

    def due(self, progress: float) -> Answer:
        """What is to be done about a drift that began."""
        assert self.policy is not None  # noqa: S101 - without one, no drift begins
        ladder = _LADDERS[self.policy]
        return ladder[min(self._rung_at(progress), len(ladder) - 1)]

    def answer(self, progress: float) -> Answer:
        """The same, and the next time it is the rung above."""
        answer = self.due(progress)
        self.answered(progress)
        return answer

    def answered(self, progress: float) -> None:
        """Something was done about a drift."""
        self._rung, self._progress_then = self._rung_at(progress) + 1, progress

    def begin_anew(self) -> None:
        """After a refresh or a nudge: what was before it counts no more."""
        self.detector.restore({})
        self._drifting = False

    def all_is_well(self) -> None:
        """No drift for a whole refresh period, or an end: the ladder begins at its first rung again."""
        self._rung = 0

    def _rung_at(self, progress: float) -> int:
        return 0 if progress > self._progress_then else self._rung

    def state(self) -> dict[str, Any]:
        """What the agent's checkpoints keep of the watch; the detector has a place of its own there."""
        return {"drifting": self._drifting, "rung": self._rung, "progress_then": self._progress_then}

    def restore(self, kept: dict[str, Any], detector: dict[str, Any]) -> None:
        """Goes on from what `state` returned, and from its detector's; empty dicts begin anew."""
        self.detector.restore(detector)
        self._drifting = kept.get("drifting", False)
        self._rung = kept.get("rung", 0)
        self._progress_then = kept.get("progress_then", 0.0)

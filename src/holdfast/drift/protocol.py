"""What is told to a detector of drift, and what it tells. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that an agent did. What is not known stays None."""

    action: str
    arguments: Any = None
    outcome: Any = None
    error: str | None = None
    duration_seconds: float | None = None
    progress: float | None = None  # from 0 to 1, or any number that grows while the agent gets on
    at: float | None = None  # seconds of any clock that goes forward, when it was over


DriftEvent = Event
"""Its name in `holdfast`, where there are events of other kinds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """Why an agent is thought to drift."""

    kind: str
    score: float  # how much of it there is, as a multiple of what is tolerated: 1.0 or more
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    ongoing: bool = False  # it was told before, and is still there: no news


@runtime_checkable
class Detector(Protocol):
    """What tells drift. A checkpoint keeps its state, so it must be plain data."""

    def observe(self, event: Event) -> Drift | None:
        """Takes one more event into account; the drift that there is now, if any.

        A detector may tell the same drift again with every event for as long as it lasts; then it is `ongoing`.
        """

    def state(self) -> dict[str, Any]:
        """Everything that the next observation depends on."""

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what `state` returned; an empty dict begins anew."""

"""The watches over an orchestrator's agents: each is told what its agent does, and goes on after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.standard.handling import handler_of
from holdfast.agents.watch import Watch
from holdfast.drift.detector import DriftDetector
from holdfast.drift.protocol import Event
from holdfast.durable.identity import ByIdentity
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.message import Message
    from holdfast.agents.standard.result import AgentResult
    from holdfast.drift.protocol import Detector, Drift

DETECTOR: Final = "detector"
WATCH: Final = "watch"
"""The keys of a checkpoint's metadata with what is known of drift."""


class Watched:
    """One live agent's watch."""

    __slots__ = ("about", "action", "began", "drift", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.drift: Drift | None = None  # that began, and about which nothing was done yet
        self.about: dict[str, Any] = {}  # what the next checkpoint says of drift
        self.action = ""
        self.began = 0.0


class Watches:
    """A keeper that keeps nothing: it looks at each answer before it is kept by another one."""

    def __init__(self, detector: Callable[[], Detector] | None, policy: str | None) -> None:
        if policy == "ask":
            raise InvalidArgument(
                'on_drift="ask" is not for an orchestrator: its agents are asked by their users, and ask nobody',
                hint='Choose "notify", "checkpoint", "refresh" or "stop".',
            )
        if detector is not None and not callable(detector):
            raise InvalidArgument(
                f"{detector!r} is one detector, and each agent needs its own",
                hint="Pass a function that makes one: detector=lambda: DriftDetector(…).",
            )
        self.policy = policy
        self._make = detector or DriftDetector
        self._watched: ByIdentity[Watched] = ByIdentity()
        Watch(self._make(), policy)  # refuses now what would be refused with the first message

    def of(self, agent: StandardAgent) -> Watched:
        found = self._watched.get(agent)
        if found is None:
            found = Watched(Watch(self._make(), self.policy))
            self._watched.set(agent, found)
        return found

    def restored(self, agent: StandardAgent, metadata: dict[str, Any]) -> None:
        """The agent came from a checkpoint with this metadata."""
        if self.policy is not None and DETECTOR in metadata:
            self.of(agent).watch.restore(metadata.get(WATCH) or {}, metadata[DETECTOR])

    def metadata(self, agent: StandardAgent) -> dict[str, Any]:
        """What the agent's checkpoint keeps. A drift about which nothing was done yet will be news once more."""
        if self.policy is None:
            return {}
        watched = self.of(agent)
        if agent.finished:
            return watched.about
        state = watched.watch.state()
        if watched.drift is not None:
            state["drifting"] = False
        return {DETECTOR: watched.watch.detector.state(), WATCH: state, **watched.about}

    def begins(self, agent: StandardAgent) -> None:
        """The agent begins to handle a message."""
        if self.policy is not None:
            watched = self.of(agent)
            watched.action, watched.began = f"{type(agent).__name__}.{handler_of(agent)}", time.monotonic()

    async def keep(self, agent: StandardAgent, message: Message | None) -> None:
        """Nothing: on the way there is no answer yet."""

    async def done(self, agent: StandardAgent, message: Message | None, result: AgentResult) -> None:
        """The message is handled. When its user takes hours to write the next, that is not the agent's doing."""
        if message is None or self.policy is None:
            return
        watched = self.of(agent)
        event = Event(
            action=watched.action,
            arguments=message.content,
            outcome=f"{result.status}: {result.raw_message}",
            error=result.error,
            duration_seconds=time.monotonic() - watched.began,
            progress=len(agent.collected_fields) if agent.missing_fields else None,
        )
        watched.drift = watched.watch.observe(event)

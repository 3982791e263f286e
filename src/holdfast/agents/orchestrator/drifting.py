"""What an orchestrator does about an agent that drifts, after its answer is durable."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.watch import Answer
from holdfast.durable.calls import call
from holdfast.durable.saving import Purpose
from holdfast.history.checkpoint import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.agents.orchestrator.roster import Seat
    from holdfast.agents.orchestrator.watching import Watched, Watches
    from holdfast.agents.standard.result import AgentResult
    from holdfast.drift.protocol import Drift
    from holdfast.durable.manager import CheckpointManager

log = logging.getLogger("holdfast")


class Drifting:
    """Tells of drift and does what the policy says. Its own failures don't hide the answer, which is handled by now."""

    def __init__(
        self, watches: Watches, manager: CheckpointManager, ours: Callable[[StandardAgent], StandardAgent]
    ) -> None:
        self._watches = watches
        self._manager = manager
        self._ours = ours

    async def answered(self, seat: Seat, agent: StandardAgent, result: AgentResult) -> AgentResult:
        """The answer as its sender gets it; it says so when the agent was stopped."""
        if self._watches.policy is None:
            return result
        watched = self._watches.of(agent)
        drift, watched.drift = watched.drift, None
        if drift is None or agent.finished:
            return result
        try:
            return await self._done(seat, agent, result, watched, drift)
        except Exception:
            log.exception("Nothing was done about the drift of agent %s", agent.agent_id)
            seat.agent = None  # it is loaded again as it was kept
            return result
        finally:
            watched.about = {}

    async def _done(
        self, seat: Seat, agent: StandardAgent, result: AgentResult, watched: Watched, drift: Drift
    ) -> AgentResult:
        answer = watched.watch.answer(len(agent.collected_fields))
        log.warning("Agent %s drifts (%s): %s", agent.agent_id, answer, drift.reason)
        await self._manager.events.tell("drift_detected", drift, agent)
        told = {"kind": drift.kind, "score": drift.score, "reason": drift.reason}
        watched.about = {"why": "drift", "drift": told}
        if answer is Answer.CHECKPOINT:
            await self._save(agent, Kind.RECOVERY)
        elif answer is Answer.REFRESH:
            watched.watch.begin_anew()
            seat.agent = await self._anew(agent)
        elif answer is Answer.STOP:
            await agent.cancel()
            said = f"This was ended, because it got no further: {drift.reason}."
            whole = f"{result.raw_message} {said}" if result.raw_message else said
            return result.evolve(status=AgentStatus.CANCELLED, raw_message=whole, error=f"drift: {drift.reason}")
        return result

    async def _anew(self, agent: StandardAgent) -> StandardAgent:
        """The agent built anew from a recovery checkpoint, and without what its `refresh` drops, if it has one."""
        checkpoint_id = await self._save(agent, Kind.RECOVERY)
        kept = self._watches.metadata(agent)
        fresh: Any = await self._manager.restore(checkpoint_id)
        self._ours(fresh)
        self._watches.restored(fresh, kept)
        if hasattr(fresh, "refresh"):
            await call(fresh.refresh)
            await self._save(fresh, Kind.AUTO)
        return fresh  # type: ignore[no-any-return]

    async def _save(self, agent: StandardAgent, kind: Kind) -> str:
        purpose = Purpose(kind=kind, metadata=self._watches.metadata(agent), only_newest=True)
        [saved] = await self._manager.save_each((agent, purpose))
        return saved.id

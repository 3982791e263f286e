"""Seating: the live agents in the seats of a roster, each loaded anew where what is in memory may be outdated."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.agents.orchestrator.drifting import Drifting
from holdfast.errors import StaleWriter

if TYPE_CHECKING:
    from holdfast.agents.orchestrator.autosave import AutoSave
    from holdfast.agents.orchestrator.loader import Loader
    from holdfast.agents.orchestrator.roster import Roster, Seat
    from holdfast.agents.orchestrator.watching import Watches
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.message import Message
    from holdfast.agents.standard.result import AgentResult
    from holdfast.durable.manager import CheckpointManager


class Outdated(Exception):
    """Somebody else advanced the agent since it was loaded; nothing was begun."""

    def __init__(self, error: StaleWriter) -> None:
        super().__init__(str(error))
        self.error = error


class Seating:
    """Brings agents into their seats, and lets them answer there."""

    def __init__(
        self,
        loader: Loader,
        keeper: AutoSave,
        watches: Watches,
        *,
        manager: CheckpointManager,
        auto_checkpoint: bool,
    ) -> None:
        self._loader = loader
        self._keeper = keeper
        self._manager = manager
        self._auto_checkpoint = auto_checkpoint
        self._watches = watches
        self._drifting = Drifting(watches, manager, self.ours)

    def ours(self, agent: StandardAgent) -> StandardAgent:
        """The agent, told who keeps it."""
        if agent.checkpoint_manager is None:
            agent.checkpoint_manager = self._manager
        agent.kept_by(self._keeper if self._auto_checkpoint else self._watches)
        return agent

    async def live(self, roster: Roster, seat: Seat) -> StandardAgent | None:
        """The agent in memory, loaded anew where that may be outdated; None when it is finished or not there."""
        if seat.gone:
            return None
        if seat.agent is None:
            agent = await self._loader.newest(roster.user_id, seat.agent_id)
            seat.agent = None if agent is None else self.ours(agent)
        if seat.agent is None or seat.agent.finished:
            roster.leave(seat)
            return None
        return seat.agent

    async def reply(self, roster: Roster, seat: Seat, agent: StandardAgent, message: Message) -> AgentResult:
        """One message to a live agent. Whatever goes wrong outside its handlers: what is in memory counts no more."""
        self._watches.begins(agent)
        try:
            result = await agent.reply(message)
        except asyncio.CancelledError:
            self._keeper.cut_off(seat.agent_id)
            seat.agent = None
            raise
        except Exception as error:
            seat.agent = None
            if self._keeper.holds(seat.agent_id):
                error.add_note(f"Message {message.id} was begun: it is handled again before the next one.")
                await self._keeper.give_up(seat.agent_id)
            elif isinstance(error, StaleWriter):
                raise Outdated(error) from error
            raise
        result = await self._drifting.answered(seat, agent, result)
        if agent.finished:
            roster.leave(seat)
        return result

"""A user's roster: the agents that are active for one user, loaded from the store and kept while they live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.agents.orchestrator.autosave import MESSAGE
from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.status import AgentStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.agents.orchestrator.catalog import Catalog
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint


class Seat:
    """One active agent. `agent` is None when what was in memory may not be what the store has: it is loaded again."""

    __slots__ = ("agent", "agent_id", "gone", "lock")

    def __init__(self, agent_id: str, agent: StandardAgent | None) -> None:
        self.agent_id = agent_id
        self.agent = agent
        self.gone = False  # it is finished, or never came to be: whoever waited for it asks for the way again
        self.lock = asyncio.Lock()  # one message at a time


class Roster:
    """One user's seats, the one used last at the end."""

    __slots__ = ("fresh", "guests", "loading", "routing", "seats", "user_id")

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.seats: dict[str, Seat] = {}
        self.routing = asyncio.Lock()  # messages find their agents one after the other
        self.loading = asyncio.Lock()
        self.fresh = False  # filled just now: whoever looks meanwhile need not ask the store again
        self.guests = 0  # messages on their way: it stays while there are some

    def add(self, agent: StandardAgent) -> Seat:
        seat = self.seats[agent.agent_id] = Seat(agent.agent_id, agent)
        return seat

    def used(self, seat: Seat) -> None:
        """It is the one that was used last."""
        if self.seats.pop(seat.agent_id, None) is not None:
            self.seats[seat.agent_id] = seat

    def leave(self, seat: Seat) -> None:
        seat.gone = True
        self.seats.pop(seat.agent_id, None)

    def agents(self) -> Iterator[StandardAgent]:
        """The live agents, the one used last first."""
        return (seat.agent for seat in reversed(self.seats.values()) if seat.agent is not None)


class Loader:
    """Finds a user's active agents in the store and makes them live."""

    def __init__(self, manager: CheckpointManager, catalog: Catalog) -> None:
        self.manager = manager
        self.catalog = catalog

    async def active(self, user_id: str, known: dict[str, Seat]) -> list[StandardAgent]:
        """The user's agents that are not finished and not known yet, the one that was used last at the end."""
        infos = sorted(await self.manager.store.agents(user_id), key=lambda info: info.commit_number)
        found = []
        for info in infos:
            if info.tip is not None and info.agent_id not in known:
                agent = await self._live(info.agent_type, info.tip)
                if agent is not None:
                    found.append(agent)
        return found

    async def newest(self, agent_id: str) -> StandardAgent | None:
        """The agent as its newest checkpoint has it; None when it has none."""
        info = await self.manager.store.agent(agent_id)
        return None if info is None or info.tip is None else await self.restored(info.tip)

    async def restored(self, checkpoint_id: str) -> StandardAgent | None:
        agent = await self.manager.restore(checkpoint_id)
        return agent if isinstance(agent, StandardAgent) and type(agent).__name__ in self.catalog else None

    async def _live(self, agent_type: str, tip: str) -> StandardAgent | None:
        """The agent, if it is active and one of ours: a class that has another name now is known by who saved it."""
        checkpoint = await self.manager.store.position(tip)
        if checkpoint is None or not _is_active(checkpoint):
            return None
        if agent_type in self.catalog or MESSAGE in checkpoint.metadata:
            return await self.restored(tip)
        return None


def _is_active(checkpoint: Checkpoint) -> bool:
    status = AgentStatus.__members__.get(checkpoint.status)
    return status is not None and not status.finished

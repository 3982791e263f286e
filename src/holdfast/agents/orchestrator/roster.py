"""A user's roster: the agents that are active for one user, and who is handling a message now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.agents.standard.agent import StandardAgent


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

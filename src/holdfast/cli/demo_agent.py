"""The agent of `holdfast demo`: it books a trip step by step, and every step is saved before the next begins.

No model is asked and nothing is booked: what is said and found is written here. Everything else really happens.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager

AGENT_ID: Final = "lisbon-trip"
USER_ID: Final = "ada"

STEPS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("ask", {"say": "Two of us, Berlin to Lisbon, 4 to 11 May, at most 1,800 euros."}),
    ("search_flights", {"origin": "BER", "to": "LIS", "found": ["TP 537, 198 euros", "EW 8460, 171 euros"]}),
    ("hold_seats", {"flight": "TP 537", "found": "held as H-4471", "costs": 396}),
    ("search_hotels", {"quarter": "Alfama", "found": ["Casa do Rio, 118 a night", "Solar dos Mouros, 154 a night"]}),
    ("ask", {"say": "Casa do Rio, please, with breakfast."}),
    ("book_hotel", {"hotel": "Casa do Rio", "nights": 7, "found": "booked as C-2093", "costs": 826}),
    ("pay_flight", {"hold": "H-4471", "found": "paid, ticket 047-2210"}),
    ("book_table", {"place": "Taberna do Mercado", "guests": 2, "found": "5 May, 20:00"}),
    ("rent_bikes", {"days": 2, "found": "reserved as B-77", "costs": 60}),
    ("send_itinerary", {"to": "ada@example.org", "found": "sent"}),
)


class TripAgent:
    """What a class needs to be kept: an id, an owner, a status, and its state given and taken."""

    def __init__(self, agent_id: str, user_id: str) -> None:
        self.agent_id = agent_id
        self.user_id = user_id
        self.status = "RUNNING"
        self.step = 0
        self.spent = 0
        self.bookings: dict[str, str] = {}
        self.messages: list[dict[str, Any]] = []

    def checkpoint_state(self) -> dict[str, Any]:
        return {"step": self.step, "spent": self.spent, "bookings": self.bookings, "messages": self.messages}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.step, self.spent = state["step"], state["spent"]
        self.bookings, self.messages = state["bookings"], state["messages"]

    @property
    def next_step(self) -> str:
        return STEPS[self.step][0]

    def take_step(self, **otherwise: Any) -> None:
        """Does the next step; `otherwise` overrides what is written for it."""
        name, arguments = STEPS[self.step]
        arguments = {**arguments, **otherwise}
        found, costs = arguments.pop("found", None), arguments.pop("costs", 0)
        if name == "ask":
            self.messages.append({"role": "user", "content": arguments["say"]})
        else:
            call = {"id": f"call_{self.step + 1}", "name": name, "arguments": arguments}
            self.messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
            if isinstance(found, str):
                self.bookings[name] = found
        self.spent += costs
        self.step += 1
        if self.step == len(STEPS):
            self.status = "COMPLETED"


def opened(path: Path) -> CheckpointManager:
    """The store of the demo, through a manager that can rebuild its agents."""
    from holdfast.cli.opening import sqlite
    from holdfast.durable.manager import CheckpointManager

    manager = CheckpointManager(sqlite(path))
    manager.register(TripAgent)
    return manager


async def work(path: Path) -> None:
    """Books the trip, and tells of every step before it and after it was saved."""
    async with opened(path) as manager:
        agent = TripAgent(AGENT_ID, USER_ID)
        while agent.status == "RUNNING":
            print("begun", agent.step + 1, agent.next_step, flush=True)  # noqa: T201 - to the process that watches
            await asyncio.sleep(0.1)  # the time that a model or a tool takes
            agent.take_step()
            print("saved", agent.step, await manager.save(agent, kind="auto"), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))

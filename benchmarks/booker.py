"""`Booker`: the agent that the benchmark of the orchestrator talks with, and what it is told."""

from __future__ import annotations

from holdfast import AgentResult, AgentStatus, InputField, Message, StandardAgent

SAID = ("book a table", "4", "Friday", "Ada Lovelace", "yes")
"""A whole conversation."""

CHANGES = 6
"""How often a conversation changes the agent: three questions, the approval, RUNNING, COMPLETED."""


class Booker(StandardAgent):
    """Asks for three things and for an approval, then does its work."""

    guests = InputField("How many guests?", validator=int)
    day = InputField("Which day?")
    name = InputField("In which name?")

    def requires_approval(self) -> bool:
        return True

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"Booked for {self.guests} on {self.day}.")


class Looking(Booker):
    """The same, but each of its answers is looked at by code of its own, for which a message must be durable."""

    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        return await super().on_waiting_for_input(msg)

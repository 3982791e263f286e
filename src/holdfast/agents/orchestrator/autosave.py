"""`AutoSave`: the keeper that saves an agent on every change, and each message and answer with the state it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.history.records import AssistantMessage, Record, UserMessage

if TYPE_CHECKING:
    from holdfast.agents.orchestrator.watching import Watches
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.message import Message
    from holdfast.agents.standard.result import AgentResult
    from holdfast.durable.turn import Turn, Turns

MESSAGE = "message"
"""The key of a checkpoint's metadata with the id of the message that led to it."""


class AutoSave:
    """Keeps the agents of one orchestrator."""

    def __init__(self, turns: Turns, watches: Watches) -> None:
        self.turns = turns
        self.watches = watches
        self._held: dict[str, Turn] = {}  # of agents that are held

    async def keep(self, agent: StandardAgent, message: Message | None) -> None:
        metadata = self.watches.metadata(agent) | _metadata(message)
        turn = self._held.get(agent.agent_id)
        if turn is not None:
            await turn.keep(metadata=metadata)
            return
        turn = self.turns.of(agent)
        await turn.keep(*_asked(message), metadata=metadata)
        self._held[agent.agent_id] = turn

    async def done(self, agent: StandardAgent, message: Message | None, result: AgentResult) -> None:
        await self.watches.done(agent, message, result)
        metadata = self.watches.metadata(agent) | _metadata(message)
        turn = self._held.get(agent.agent_id)
        records = [] if turn is not None else _asked(message)
        if message is not None and result.raw_message:
            records.append(AssistantMessage(content=result.raw_message, tool_calls=[]))
        await (turn or self.turns.of(agent)).end(*records, metadata=metadata)
        self._held.pop(agent.agent_id, None)

    def holds(self, agent_id: str) -> bool:
        """Whether a message of the agent is on its way, and durable."""
        return agent_id in self._held

    async def give_up(self, agent_id: str) -> None:
        """The message could not be brought to its end: the agent is given back as it was kept last."""
        turn = self._held.pop(agent_id, None)
        if turn is not None:
            await turn.give_up()

    def cut_off(self, agent_id: str) -> None:
        """The program is ending: the agent stays this process's, so that others see that it was cut off."""
        turn = self._held.pop(agent_id, None)
        if turn is not None:
            turn.leave()


def _metadata(message: Message | None) -> dict[str, Any]:
    if message is None:
        return {}
    return {MESSAGE: message.id} if message.attempt == 1 else {MESSAGE: message.id, "attempt": message.attempt}


def _asked(message: Message | None) -> list[Record]:
    """The record of the message; on a later attempt there is one already."""
    if message is None or message.attempt > 1:
        return []
    return [UserMessage(content=message.content, origin=None if message.role == "user" else message.role)]

"""`Keeper`: what makes the steps of an agent durable while it handles a message; without one, nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.message import Message
    from holdfast.agents.standard.result import AgentResult


class Keeper(Protocol):
    """Called at the points where something must be durable before anything else happens."""

    async def keep(self, agent: StandardAgent, message: Message | None) -> None:
        """The agent as it is now, and that it is handling this message: before code that may have effects runs."""

    async def done(self, agent: StandardAgent, message: Message | None, result: AgentResult) -> None:
        """The agent as it is now; the message is handled, and this is the answer."""


class NoKeeper:
    """Whoever calls the agent saves it, or does not."""

    async def keep(self, agent: StandardAgent, message: Message | None) -> None:
        """Nothing."""

    async def done(self, agent: StandardAgent, message: Message | None, result: AgentResult) -> None:
        """Nothing."""

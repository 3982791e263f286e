"""`Mailbox`: durable messages to one agent, each of which changes its state exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.agents.loop.running import wake
from holdfast.durable.saving import Purpose
from holdfast.history.checkpoint import Kind

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.storage.protocol import AgentInfo, InboxMessage


class Mailbox:
    """The messages that wait for one agent, in the order in which they came.

    Any process may `send`; a message is durable when that returns. A message waits until it is acknowledged, which
    happens in the commit that saves the state it changed: a crash in between leaves both undone, never one of them.
    An agent that has a loop leaves `receive` and `acknowledge` to it.

    A new agent belongs to `user_id`, or to the manager's user, or to "default".
    """

    def __init__(self, manager: CheckpointManager, agent_id: str, *, user_id: str | None = None) -> None:
        self.manager = manager
        self.agent_id = agent_id
        self.user_id = user_id

    def __repr__(self) -> str:
        return f"Mailbox({self.agent_id!r})"

    async def send(self, content: Any, *, sender: str) -> int:
        """Puts a message, any value that a state may hold, behind the others. Returns its number."""
        user_id = self.user_id or self.manager.user_id
        if user_id is None:
            info = await self._info()
            user_id = "default" if info is None else info.user_id
        number = await self.manager.store.send(self.agent_id, user_id, content, sender=sender)
        wake(self.manager.store, self.agent_id)
        return number

    async def receive(self, limit: int = 100) -> list[InboxMessage]:
        """The messages that wait, oldest first. They wait until they are acknowledged."""
        if self.manager.user_id is not None and await self._info() is None:
            return []
        return await self.manager.store.inbox(self.agent_id, limit=limit)

    async def acknowledge(
        self, message: InboxMessage, agent: Any, *, kind: str = Kind.AUTO, metadata: dict[str, Any] | None = None
    ) -> str:
        """Saves the agent, and acknowledges this message and all before it in the same commit.

        Returns the checkpoint's id.
        """
        purpose = Purpose(kind=Kind.of(kind), metadata=metadata, acknowledge=message.number)
        [saved] = await self.manager.save_each((agent, purpose))
        return saved.id

    async def waiting(self) -> int:
        """How many messages wait."""
        info = await self._info()
        return 0 if info is None else info.inbox_last - info.inbox_acknowledged

    async def _info(self) -> AgentInfo | None:
        """What the store knows of the agent; to a scoped manager, another user's is like an unknown one."""
        info = await self.manager.store.agent(self.agent_id)
        return info if info is not None and self.manager.user_id in (None, info.user_id) else None

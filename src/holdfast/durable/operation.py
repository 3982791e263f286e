"""Operations: which of this manager's agents are held now, and by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from holdfast.durable.committed import checkpoint_of

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import Committed, Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A critical operation under way: its name, its checkpoint to go back to, and the epoch that it may write in."""

    name: str = ""  # with the checkpoint, empty when an agent is only held
    agent_id: str
    user_id: str
    checkpoint_id: str = ""
    epoch: int

    @classmethod
    def begun_with(cls, done: list[Committed], name: str) -> Self:
        """The operation whose checkpoint was committed here."""
        [committed] = done
        checkpoint = checkpoint_of(committed)
        return cls(
            name=name,
            agent_id=checkpoint.agent_id,
            user_id=checkpoint.user_id,
            checkpoint_id=checkpoint.id,
            epoch=committed.epoch,
        )


class Operations:
    """The operations under way, the innermost last for each agent, and what is noted with all that is saved of it."""

    def __init__(self) -> None:
        self._held: dict[str, list[Operation]] = {}
        self.notes: dict[str, dict[str, Any]] = {}

    def of(self, agent_id: str | None) -> Operation | None:
        """The innermost operation that holds this agent."""
        held = self._held.get(agent_id or "")
        return held[-1] if held else None

    def is_run(self, agent_id: str | None) -> bool:
        """Whether somebody runs the agent, and holds it for that: its state counts only between two of its steps."""
        return any(not operation.checkpoint_id for operation in self._held.get(agent_id or "", ()))

    def begin(self, operation: Operation) -> None:
        self._held.setdefault(operation.agent_id, []).append(operation)

    def end(self, operation: Operation) -> None:
        held = self._held[operation.agent_id]
        held.remove(operation)
        if not held:
            del self._held[operation.agent_id]


async def interrupted(store: Store, user_id: str | None) -> list[Checkpoint]:
    """The checkpoints of operations that neither completed nor go on in a live process, oldest first."""
    pending = await store.pending("operation", user_id=user_id)
    found = [await store.position(one.name) for one in pending if not one.owner_alive]
    return [checkpoint for checkpoint in found if checkpoint is not None and not checkpoint.deleted]

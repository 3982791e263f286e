"""Operations: which of this manager's agents are held now, and by what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A critical operation under way: its name, its checkpoint to go back to, and the epoch that it may write in."""

    name: str
    agent_id: str
    user_id: str
    checkpoint_id: str
    epoch: int


class Operations:
    """The operations under way, the innermost last for each agent."""

    def __init__(self) -> None:
        self._held: dict[str, list[Operation]] = {}

    def of(self, agent_id: str | None) -> Operation | None:
        """The innermost operation that holds this agent."""
        held = self._held.get(agent_id or "")
        return held[-1] if held else None

    def begin(self, operation: Operation) -> None:
        self._held.setdefault(operation.agent_id, []).append(operation)

    def end(self, operation: Operation) -> None:
        held = self._held[operation.agent_id]
        held.remove(operation)
        if not held:
            del self._held[operation.agent_id]

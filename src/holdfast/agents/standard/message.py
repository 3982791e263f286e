"""`Message`: what somebody says to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from holdfast.storage.ids import new_id


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody says to an agent.

    `id` stays the same however often the message is handled: pass it on as an idempotency key to whatever has an
    effect. `attempt` counts from 1; it is more when a process died while it was handling this message, so that parts
    of it may have happened already. `context` is what the orchestrator prepared; it is not stored.

    >>> message = Message("book a table")
    >>> message.role, message.attempt, message.again().attempt, message.again().id == message.id
    ('user', 1, 2, True)
    """

    content: Any
    role: str = field(default="user", kw_only=True)
    id: str = field(default_factory=lambda: new_id("msg"), kw_only=True)
    attempt: int = field(default=1, kw_only=True)
    metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)
    context: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The content as text, without what surrounds it."""
        return str(self.content if self.content is not None else "").strip()

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def again(self) -> Self:
        """The same message for another attempt."""
        return self.evolve(attempt=self.attempt + 1)

    def to_state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {
            "id": self.id,
            "content": self.content,
            "role": self.role,
            "attempt": self.attempt,
            "metadata": self.metadata,
        }

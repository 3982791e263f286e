"""`AgentResult`: what an agent answers to a message."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from holdfast.agents.standard.status import AgentStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentResult:
    """What an agent answers: the status that it has now, and what it says.

    `data` is whatever the program wants to have with it; `error` says what a handler raised. A result without an
    `agent_id` comes from the orchestrator itself.
    """

    status: AgentStatus
    raw_message: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    message_id: str | None = None

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

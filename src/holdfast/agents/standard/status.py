"""`AgentStatus`: where an agent stands."""

from __future__ import annotations

from enum import StrEnum


class AgentStatus(StrEnum):
    """Where an agent stands; every value is the member's name."""

    INITIALIZING = "INITIALIZING"
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"

    @property
    def finished(self) -> bool:
        """Whether nothing follows any more."""
        return self in (AgentStatus.COMPLETED, AgentStatus.CANCELLED)

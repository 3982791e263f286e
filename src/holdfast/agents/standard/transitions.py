"""The transitions: which status of a `StandardAgent` may follow which, all in one table."""

from __future__ import annotations

from typing import Final

from holdfast.agents.standard.status import AgentStatus
from holdfast.errors import IllegalTransition

_ANY: Final = frozenset(AgentStatus)
_BEGUN: Final = _ANY - {AgentStatus.INITIALIZING}

TRANSITIONS: Final[dict[AgentStatus, frozenset[AgentStatus]]] = {
    AgentStatus.INITIALIZING: _BEGUN,
    AgentStatus.WAITING_FOR_INPUT: _BEGUN,
    AgentStatus.WAITING_FOR_APPROVAL: _BEGUN,
    AgentStatus.RUNNING: _BEGUN,
    AgentStatus.PAUSED: _ANY - {AgentStatus.COMPLETED},  # what goes on must be resumed first
    AgentStatus.ERROR: _ANY - {AgentStatus.PAUSED},  # what failed is tried again, be it the beginning
    AgentStatus.COMPLETED: frozenset(),
    AgentStatus.CANCELLED: frozenset(),
}
"""What may follow each status. To stay in a status that is not the last is no transition."""


def check(before: AgentStatus, after: AgentStatus, *, agent_id: str) -> None:
    """Raises `IllegalTransition`, which names both, unless the one may follow the other."""
    if after in TRANSITIONS[before] or (after is before and not before.finished):
        return
    allowed = ", ".join(sorted(TRANSITIONS[before]))
    raise IllegalTransition(
        f"Agent {agent_id} is {before} and can't become {after}",
        agent_id=agent_id,
        before=before,
        after=after,
        hint=f"After {before} may come: {allowed}." if allowed else f"{before} is the end; begin a new agent.",
    )

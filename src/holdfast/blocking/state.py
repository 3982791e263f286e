"""An agent's state in the four sections that a person finds in its checkpoint file."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

Section = dict[str, Any]
Sections = Mapping[str, Section]

SECTIONS: Final = ("current_task", "mailbox", "operational_context", "memory")
IDLE: Final = ("", "idle", "waiting", "paused", "completed", "done", "cancelled")
"""Statuses of a task on which nobody is working."""


def _task() -> Section:
    return {"id": None, "status": "idle", "progress_percentage": 0, "context": {}}


@dataclass(kw_only=True)
class AgentState:
    """What an agent keeps, as plain dicts; more keys are welcome.

    >>> state = AgentState()
    >>> state.current_task["progress_percentage"], state.memory
    (0, {'short_term': [], 'session': {}})
    """

    current_task: Section = field(default_factory=_task)
    mailbox: Section = field(default_factory=lambda: {"last_processed_id": None, "pending_count": 0})
    operational_context: Section = field(default_factory=lambda: {"goals": [], "constraints": [], "decisions": []})
    memory: Section = field(default_factory=lambda: {"short_term": [], "session": {}})

    def put_back(self, section: str, content: Section) -> None:
        """Gives a section another content; whoever holds the dict sees it, too."""
        here: Section = getattr(self, section)
        content = dict(content)  # it may be the very dict that is cleared next
        here.clear()
        here.update(content)


class Agent:
    """An agent as the manager saves it: the sections as they were read on the caller's thread."""

    def __init__(self, agent_id: str, user_id: str) -> None:
        self.agent_id = agent_id
        self.user_id = user_id
        self.sections: Sections = {}

    @property
    def status(self) -> Any:
        return self.sections["current_task"].get("status") or ""

    def checkpoint_state(self) -> dict[str, Any]:
        return dict(self.sections)

    def restore_state(self, state: dict[str, Any]) -> None:
        self.sections = state


def copied(section: Section) -> Section:
    """A copy that stays as it is; values that can't be copied, and so can't be saved either, are shared."""
    copy: Section = {}
    for key, value in section.items():
        try:
            copy[key] = deepcopy(value)
        except Exception:  # noqa: BLE001 - whatever the user's __deepcopy__ raises
            copy[key] = value
    return copy


def is_idle(task: Section) -> bool:
    """Whether nothing is expected to change: no task under way, or one that is complete."""
    return not task or str(task.get("status") or "").lower() in IDLE or progress_of(task) == 1.0


def progress_of(task: Section) -> float | None:
    """The task's progress from 0 to 1, if it tells any."""
    percentage = task.get("progress_percentage")
    if isinstance(percentage, bool) or not isinstance(percentage, int | float):
        return None
    return min(1.0, max(0.0, percentage / 100))

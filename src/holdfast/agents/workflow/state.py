"""A run of a workflow as it is kept: what was asked, and how far each step is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from holdfast.agents.standard.status import AgentStatus


class StepStatus(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"  # an attempt failed, and there will be another
    WAITING = "waiting"  # for a person
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # its `when` did not hold


@dataclass(kw_only=True, slots=True)
class StepState:
    """How far one step is. `failures` are the attempts that count towards its `max_attempts`."""

    status: StepStatus = StepStatus.PENDING
    attempt: int = 0
    failures: int = 0
    interrupted: bool = False
    output: Any = None
    error: str | None = None
    suspended: dict[str, Any] | None = None  # the agent that waits: its status, what it asks, its state
    answer: str | None = None  # what it was answered, until it has dealt with it

    def plain(self) -> dict[str, Any]:
        """What differs from a step that was not begun, by name."""
        plain: dict[str, Any] = {"status": str(self.status)}
        for one in fields(self)[1:]:
            value = getattr(self, one.name)
            if value is not None if one.name == "output" else value:
                plain[one.name] = value
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StepState:
        return cls(**{**plain, "status": StepStatus(plain["status"])})


class Workflow:
    """The agent whose checkpoints are those of a workflow's run: `{name}/{run_id}`."""

    state_version = 1

    def __init__(self, agent_id: str, user_id: str) -> None:
        self.agent_id = agent_id
        self.user_id = user_id
        self.status = AgentStatus.RUNNING
        self.inputs: dict[str, Any] = {}
        self.digests: dict[str, str] = {}
        self.branch: str | None = None  # the checkpoint at which this way left another one
        self.steps: dict[str, StepState] = {}

    @property
    def name(self) -> str:
        return self.agent_id.partition("/")[0]

    @property
    def run_id(self) -> str:
        return self.agent_id.partition("/")[2]

    @property
    def context_summary(self) -> str:
        settled = sum(state.status in SETTLED for state in self.steps.values())
        return f"{settled} of {len(self.steps)} steps"

    def idempotency_key(self, step: str) -> str:
        """The same for a step in one way through a run. Going back on purpose begins another way."""
        way = self.agent_id if self.branch is None else f"{self.agent_id}@{self.branch}"
        return f"{way}/{step}"

    def checkpoint_state(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "digests": self.digests,
            "branch": self.branch,
            "steps": {name: state.plain() for name, state in self.steps.items()},
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        self.inputs = state["inputs"]
        self.digests = state["digests"]
        self.branch = state["branch"]
        self.steps = {name: StepState.from_plain(plain) for name, plain in state["steps"].items()}


SETTLED: Final = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED})

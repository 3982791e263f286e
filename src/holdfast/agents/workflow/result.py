"""The result of a workflow: where it stands, and what its steps gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.workflow.state import StepStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowResult:
    """Where a workflow stands when `run` returns, and what its steps gave, each by name.

    `status` is COMPLETED, ERROR, or what it waits for: WAITING_FOR_INPUT or WAITING_FOR_APPROVAL.
    """

    workflow: str
    run_id: str
    agent_id: str  # of its checkpoints: {workflow}/{run_id}
    status: AgentStatus
    outputs: dict[str, Any]  # of the steps that are done
    errors: dict[str, str]  # of those that failed, also where the workflow went on, or would have tried again
    skipped: tuple[str, ...]  # those whose `when` did not hold
    waiting: dict[str, str]  # what the steps that wait for a person ask
    steps: dict[str, StepStatus]
    checkpoint_id: str  # the newest
    checkpoint_ids: tuple[str, ...] = field(repr=False)  # those that this call saved, in order

    @property
    def ok(self) -> bool:
        """Whether it came to its end."""
        return self.status is AgentStatus.COMPLETED


@dataclass(frozen=True, kw_only=True, slots=True)
class StepProgress:
    """What just became of a step. It may not be durable yet."""

    step: str
    status: StepStatus
    attempt: int
    error: str | None = None

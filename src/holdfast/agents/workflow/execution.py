"""An execution: one call of `run`, from the checkpoint that it goes on from to its result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.workflow.adapter import Doer
from holdfast.agents.workflow.definition import STOP, Definition, changed
from holdfast.agents.workflow.drive import Drive
from holdfast.agents.workflow.problems import Problem, invalid
from holdfast.agents.workflow.references import missing
from holdfast.agents.workflow.result import StepProgress, WorkflowResult
from holdfast.agents.workflow.runvalues import RunValues
from holdfast.agents.workflow.secrets import Secrets
from holdfast.agents.workflow.state import SETTLED, StepState, StepStatus, Workflow
from holdfast.errors import InvalidArgument, WorkflowChanged
from holdfast.history import codec
from holdfast.history.checkpoint import Kind
from holdfast.storage.protocol import Query

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint


class Execution:
    """Brings a run of a workflow as far as it goes now. The caller holds its agent meanwhile."""

    def __init__(
        self,
        manager: CheckpointManager,
        definition: Definition,
        doers: Mapping[str, Doer],
        *,
        agent_id: str,
        user_id: str,
        progress: Callable[[StepProgress], object],
        sleep: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self.manager = manager
        self.definition = definition
        self.doers = doers
        self.workflow = Workflow(agent_id, user_id)
        self.saved: list[str] = []
        self._progress = progress
        self._sleep = sleep

    async def run(
        self,
        found: Checkpoint | None,
        inputs: Mapping[str, Any],
        answers: Mapping[str, str],
        *,
        allow_changes: bool,
    ) -> WorkflowResult:
        """Goes on from the checkpoint that was found, or begins."""
        given = codec.decode(codec.encode(dict(inputs), path="inputs"))
        if found is None:
            self.workflow.inputs = given
        else:
            await self._continue(found, given, allow_changes=allow_changes)
        self.workflow.digests = dict(self.definition.digests)
        states = self.workflow.steps
        self.workflow.steps = {name: states.get(name) or StepState() for name in self.definition.steps}
        self._answer(answers)
        if found is None or self._unfinished():
            self._check_values()
            drive = Drive(
                self.definition, self.workflow, self.doers, secrets=Secrets(self.definition.environment()),
                keep=self._keep, tell=self._progress, sleep=self._sleep,
            )  # fmt: skip
            await drive.run()
        return self._result(self.saved[-1] if self.saved or found is None else found.id)

    # --- going on

    async def _continue(self, found: Checkpoint, given: dict[str, Any], *, allow_changes: bool) -> None:
        self.workflow.status = AgentStatus(found.status)
        self.workflow.restore_state(found.state or {})
        self.manager.go_on_from(self.workflow, found.id)
        query = Query(agent_id=found.agent_id, user_id=found.user_id, limit=1)
        if [one.id for one in await self.manager.store.list(query)] != [found.id]:
            self.workflow.branch = found.id
        if given and given != self.workflow.inputs:
            raise InvalidArgument(
                f"Run {found.agent_id} began with other inputs", agent_id=found.agent_id, checkpoint_id=found.id,
                hint="Leave the inputs out to go on with it, or begin a new run.",
            )  # fmt: skip
        changes = changed(self.workflow.digests, self.definition.digests)
        if changes and not allow_changes:
            told = ", ".join(f"{name} was {what}" for name, what in changes.items())
            raise WorkflowChanged(
                f"{self.definition.source} is not what run {found.agent_id} began with: step {told}",
                agent_id=found.agent_id, checkpoint_id=found.id, path=self.definition.source, steps=tuple(changes),
            )  # fmt: skip
        for name, state in self.workflow.steps.items():
            step = self.definition.steps.get(name)
            if state.status is StepStatus.FAILED and step is not None and step.on_error == STOP:
                state.status, state.failures, state.error = StepStatus.PENDING, 0, None

    def _answer(self, answers: Mapping[str, str]) -> None:
        for name, answer in answers.items():
            state = self.workflow.steps.get(name)
            if state is None or state.suspended is None:
                waiting = [name for name, state in self.workflow.steps.items() if state.suspended is not None]
                raise InvalidArgument(
                    f"Step {name} of {self.workflow.agent_id} does not wait for an answer",
                    agent_id=self.workflow.agent_id,
                    hint=f"Those that wait: {', '.join(waiting)}." if waiting else "None does.",
                )
            state.answer = answer

    def _unfinished(self) -> bool:
        """Whether there is anything to do: not after the end, nor while all wait for a person."""
        if self.workflow.status is AgentStatus.COMPLETED:
            return any(state.status not in SETTLED for state in self.workflow.steps.values())
        return True

    def _check_values(self) -> None:
        """Every input and variable of the environment that is still needed is there, before anything runs."""
        values = RunValues(self.workflow)
        problems = [
            Problem(line=step.line, column=1, key=step.name, message=sentence)
            for step in self.definition.steps.values()
            if self.workflow.steps[step.name].status not in SETTLED
            for sentence in missing(step.references, values)
        ]
        if problems:
            raise invalid(
                self.definition.source, problems,
                hint="Give the inputs (`--input NAME=TEXT`), and set the variables of the environment.",
            )  # fmt: skip

    # --- what is kept, and told

    async def _keep(self, happened: dict[str, list[str]]) -> None:
        metadata = {what: names for what, names in happened.items() if names}
        self.saved.append(await self.manager.save(self.workflow, kind=Kind.WORKFLOW, metadata=metadata))

    def _result(self, checkpoint_id: str) -> WorkflowResult:
        steps = self.workflow.steps
        return WorkflowResult(
            workflow=self.workflow.name,
            run_id=self.workflow.run_id,
            agent_id=self.workflow.agent_id,
            status=self.workflow.status,
            outputs={name: one.output for name, one in steps.items() if one.status is StepStatus.DONE},
            errors={name: one.error for name, one in steps.items() if one.error is not None},
            skipped=tuple(name for name, one in steps.items() if one.status is StepStatus.SKIPPED),
            waiting={
                name: str(one.suspended["prompt"])
                for name, one in steps.items()
                if one.status is StepStatus.WAITING and one.suspended is not None
            },
            steps={name: one.status for name, one in steps.items()},
            checkpoint_id=checkpoint_id,
            checkpoint_ids=tuple(self.saved),
        )

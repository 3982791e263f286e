"""`WorkflowExecutor`: runs the workflow of a file, or goes on with a run that was interrupted."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.workflow.adapter import Agents, doers
from holdfast.agents.workflow.definition import Definition
from holdfast.agents.workflow.execution import Execution
from holdfast.agents.workflow.reading import load
from holdfast.agents.workflow.result import StepProgress, WorkflowResult
from holdfast.agents.workflow.state import Workflow
from holdfast.durable.holding import holding
from holdfast.errors import InvalidArgument, WrongAgent, WrongOwner
from holdfast.storage.ids import new_id

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint

_RUN_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


class WorkflowExecutor:
    """Runs workflows: every step's beginning and end is durable, and no step that is done is done again.

    `agents` are what steps ask for by name: classes and async functions by their own names, or a mapping that gives
    names to them or to factories. `progress` is told of each step as it begins and ends.
    """

    def __init__(
        self,
        agents: Agents,
        checkpoint_manager: CheckpointManager | None = None,
        *,
        progress: Callable[[StepProgress], object] | None = None,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        if checkpoint_manager is None:
            from holdfast.durable.manager import CheckpointManager

            checkpoint_manager = CheckpointManager()
        self.manager = checkpoint_manager
        self.manager.register(Workflow)
        self._doers = doers(agents)
        self._progress = progress or (lambda _: None)
        self._sleep = sleep

    async def check(self, workflow: str | os.PathLike[str]) -> Definition:
        """The file's definition. `InvalidWorkflow` has everything that is wrong with it; nothing runs."""
        return await asyncio.to_thread(load, workflow, self._doers)

    async def run(
        self,
        workflow: str | os.PathLike[str],
        inputs: Mapping[str, Any] | None = None,
        checkpoint_id: str | None = None,
        *,
        run_id: str | None = None,
        user_id: str | None = None,
        answers: Mapping[str, str] | None = None,
        allow_changes: bool = False,
        take_over: bool = False,
    ) -> WorkflowResult:
        """Runs the file's workflow until it is completed, a step failed, or it waits for a person.

        With `checkpoint_id` it goes on from that checkpoint: what was done then is not done again. From one that is
        not the run's newest, it is another way from there, and what came after is done again. With `run_id` it goes
        on from the newest checkpoint of that run, or begins it: the call to repeat until it is through. `answers` are
        for steps that wait, by name. A file that is not as it was is `WorkflowChanged`, unless `allow_changes`.
        """
        definition = await self.check(workflow)
        found = await self._found(definition, checkpoint_id, run_id, user_id)
        if found is None:
            agent_id = f"{definition.name}/{run_id or new_id('run')}"
            owner = user_id or self.manager.user_id or "default"
        else:
            agent_id, owner = found.agent_id, found.user_id
        async with holding(self.manager, agent_id, owner, take_over=take_over):
            if run_id is not None and checkpoint_id is None:  # who held it until now may have gone on
                found = await self._found(definition, None, run_id, user_id)
            execution = Execution(
                self.manager, definition, self._doers, agent_id=agent_id, user_id=owner, progress=self._progress,
                sleep=self._sleep,
            )  # fmt: skip
            return await execution.run(found, inputs or {}, answers or {}, allow_changes=allow_changes)

    async def _found(
        self, definition: Definition, checkpoint_id: str | None, run_id: str | None, user_id: str | None
    ) -> Checkpoint | None:
        """The checkpoint to go on from, or None where a run begins."""
        if run_id is not None and not _RUN_ID.fullmatch(run_id):
            raise InvalidArgument(f"{run_id!r} is no name for a run", hint="Use letters, digits, `_`, `-`, `.`, `:`.")
        agent_id = f"{definition.name}/{run_id}"
        if checkpoint_id is None:
            found = None if run_id is None else await self.manager.latest(agent_id)
            if found is None:
                return None
            checkpoint_id = found.id
        checkpoint = await self.manager.load(checkpoint_id)
        if checkpoint.agent_type != Workflow.__name__ or not checkpoint.agent_id.startswith(f"{definition.name}/"):
            raise WrongAgent(
                f"Checkpoint {checkpoint_id} is of {checkpoint.agent_id}, and not of a run of workflow "
                f"{definition.name}",
                checkpoint_id=checkpoint_id, agent_id=checkpoint.agent_id,
                hint="`holdfast list --kind workflow` lists those of workflows.",
            )  # fmt: skip
        if run_id is not None and checkpoint.agent_id != agent_id:
            raise WrongAgent(
                f"Checkpoint {checkpoint_id} is of {checkpoint.agent_id}, and not of {agent_id}",
                checkpoint_id=checkpoint_id, agent_id=checkpoint.agent_id, hint="Name one of the two.",
            )  # fmt: skip
        if user_id not in (None, checkpoint.user_id):
            raise WrongOwner(
                f"Run {checkpoint.agent_id} is {checkpoint.user_id}'s, and not {user_id}'s",
                agent_id=checkpoint.agent_id, user_id=user_id, hint="Leave user_id out to go on with a run.",
            )  # fmt: skip
        return checkpoint

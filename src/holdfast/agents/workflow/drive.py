"""The drive of a run: begins each step when what it needs is settled, and keeps every beginning and end.

One task decides everything, so there is nothing to lock: it takes what has ended, begins what can begin, keeps both in
one commit, and only then lets the new attempts go. So a result is durable before anything is built on it, and a step
is known to have begun before it does anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.workflow.adapter import AgentFailed, Doer, Done, Refusal, Task, Waiting
from holdfast.agents.workflow.context import StepContext
from holdfast.agents.workflow.definition import STOP, Definition, Step
from holdfast.agents.workflow.references import filled
from holdfast.agents.workflow.result import StepProgress
from holdfast.agents.workflow.runvalues import RunValues
from holdfast.agents.workflow.secrets import Secrets
from holdfast.agents.workflow.state import SETTLED, StepState, StepStatus, Workflow
from holdfast.errors import HoldfastError, Unstorable
from holdfast.history.preview import fit

log = logging.getLogger("holdfast")

ERROR_LENGTH_MAX: Final = 2_000

Keep = Callable[[dict[str, list[str]]], Awaitable[None]]
"""Saves the workflow as it is now; gets the names of the steps that ended and began since."""


class Drive:
    """One execution of a run, from wherever it stands to where nothing more can begin."""

    def __init__(
        self,
        definition: Definition,
        workflow: Workflow,
        doers: Mapping[str, Doer],
        *,
        secrets: Secrets,
        keep: Keep,
        tell: Callable[[StepProgress], object],
        sleep: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self.definition = definition
        self.workflow = workflow
        self.doers = doers
        self.values = RunValues(workflow)
        self.secrets = secrets
        self._keep = keep
        self._tell = tell
        self._sleep = sleep
        self._under_way: dict[asyncio.Task[Any], str] = {}
        self._resting: dict[asyncio.Task[None], str] = {}  # until their next attempt
        self._began: dict[str, StepState] = {}  # what is to be kept, with how the steps were before
        self._ended: list[str] = []
        self._first_kept = False  # with it, how this execution differs from the checkpoint that it goes on from

    async def run(self) -> None:
        """Goes on until the workflow is completed, failed, or waits for a person."""
        try:
            while True:
                tasks = self._begin()
                if not (tasks or self._under_way or self._resting):
                    break
                self.workflow.status = AgentStatus.RUNNING
                if self._due() and not await self._kept():
                    continue  # something failed by it
                for name, task in tasks:
                    self._under_way[asyncio.ensure_future(self._attempt(self.definition.steps[name], task))] = name
                await self._wait()
        finally:
            await self._cancel((*self._under_way, *self._resting))
        while (outcome := self._outcome()) is not self.workflow.status or self._began or self._ended:
            self.workflow.status = outcome
            await self._kept()

    def _due(self) -> bool:
        """Whether something happened that may not be lost. All else goes with the next commit that must be."""
        happened = (*self._began, *self._ended)
        return not self._first_kept or any(self.definition.steps[name].checkpoint for name in happened)

    async def _kept(self) -> bool:
        """Keeps the workflow as it is. If that can't be, what just ended has failed, and nothing begins: False."""
        self._first_kept = True
        began, self._began = self._began, {}
        ended, self._ended = self._ended, []
        try:
            await self._keep({"ended": ended, "began": list(began)})
        except Unstorable as error:
            if not self._given_up(ended, began, error):
                raise
            await self._keep({"ended": ended, "began": []})
            return False
        return True

    def _given_up(self, ended: list[str], began: dict[str, StepState], error: Unstorable) -> bool:
        """Fails the steps whose outputs make the state too large, and takes back what was to be built on them."""
        done = [name for name in ended if self._state(name).status is StepStatus.DONE]
        for name in done:
            state = self._state(name)
            state.output, state.status, state.error = None, StepStatus.FAILED, self._told(error)
            self._say(name)
        if done:
            busy = self._under_way.values()
            self.workflow.steps.update({name: before for name, before in began.items() if name not in busy})
        return bool(done)

    # --- beginning

    def _begin(self) -> list[tuple[str, Task]]:
        """Marks all that can begin as begun, and settles what needs no agent for it, until nothing changes."""
        tasks = []
        while step := self._next():
            task = self._prepared(step)
            if task is not None:
                tasks.append((step.name, task))
        return tasks

    def _next(self) -> Step | None:
        if self._stopped:
            return None
        busy = {*self._under_way.values(), *self._resting.values(), *self._began}
        return next((step for step in self.definition.steps.values() if self._ready(step, busy)), None)

    def _ready(self, step: Step, busy: set[str]) -> bool:
        state = self._state(step.name)
        if step.name in busy or state.status in SETTLED:
            return False
        if state.status is StepStatus.WAITING and state.answer is None:
            return False
        return all(self._state(needed).status in SETTLED for needed in step.needs)

    def _prepared(self, step: Step) -> Task | None:
        """The attempt that begins now; None when the step was skipped, or failed before it could begin."""
        state = self._state(step.name)
        try:
            if state.attempt == 0 and step.when is not None and not step.when.holds(self.values):
                self._settle(step.name, StepStatus.SKIPPED)
                return None
            inputs = filled(step.inputs, self.values)
        except HoldfastError as error:  # the values that there are will not be others at the next attempt
            self._settle(step.name, StepStatus.FAILED, error=self._told(error))
            return None
        self._began[step.name] = replace(state)
        state.interrupted = state.interrupted or state.status is StepStatus.RUNNING
        state.status = StepStatus.RUNNING
        state.attempt += 1
        self._say(step.name)
        return Task(
            inputs=inputs,
            context=self._context(step, state),
            suspended=None if state.suspended is None else state.suspended["agent"],
            answer=state.answer,
        )

    def _context(self, step: Step, state: StepState) -> StepContext:
        return StepContext(
            workflow=self.workflow.name, run_id=self.workflow.run_id, step=step.name, user_id=self.workflow.user_id,
            attempt=state.attempt, interrupted=state.interrupted,
            idempotency_key=self.workflow.idempotency_key(step.name),
        )  # fmt: skip

    async def _attempt(self, step: Step, task: Task) -> Done | Waiting:
        limit = asyncio.timeout(step.timeout_seconds)
        try:
            async with limit:
                return await self.doers[step.agent](task)
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"it took longer than {step.timeout_seconds:g} s") from None
            raise

    # --- ending

    async def _wait(self) -> None:
        """Until something ended; then takes in all that has."""
        await asyncio.wait((*self._under_way, *self._resting), return_when=asyncio.FIRST_COMPLETED)
        for rest in [task for task in self._resting if task.done()]:
            del self._resting[rest]
        for attempt in [task for task in self._under_way if task.done()]:  # in the order in which they began
            self._take(self.definition.steps[self._under_way.pop(attempt)], attempt)
        if self._stopped and self._resting:
            await self._cancel(tuple(self._resting))
            self._resting.clear()

    def _take(self, step: Step, task: asyncio.Task[Done | Waiting]) -> None:
        error = asyncio.CancelledError("the step cancelled itself") if task.cancelled() else task.exception()
        if isinstance(error, Exception | asyncio.CancelledError):
            self._failed(step, self._told(error), again=not isinstance(error, Refusal))
        elif error is not None:
            raise error  # the program is to end
        else:
            try:
                self._came_back(step, task.result())
            except HoldfastError as unkept:  # the next attempt would only have its effects again
                self._failed(step, self._told(unkept), again=False)

    def _came_back(self, step: Step, result: Done | Waiting) -> None:
        state = self._state(step.name)
        if isinstance(result, Done):
            state.output = self.secrets.kept(result.output, "output")
            state.suspended = state.answer = None
            self._settle(step.name, StepStatus.DONE)
            return
        suspended = {"status": str(result.status), "prompt": result.prompt, "agent": result.agent}
        state.suspended = self.secrets.kept(suspended, "agent")
        state.answer = None
        self._settle(step.name, StepStatus.WAITING)

    def _failed(self, step: Step, error: str, *, again: bool) -> None:
        state = self._state(step.name)
        state.failures += 1
        if not again or state.failures >= step.max_attempts:
            self._settle(step.name, StepStatus.FAILED, error=error)
            return
        self._settle(step.name, StepStatus.RETRYING, error=error)
        if step.delay_seconds:
            self._resting[asyncio.ensure_future(self._sleep(step.delay_seconds))] = step.name

    def _settle(self, name: str, status: StepStatus, error: str | None = None) -> None:
        state = self._state(name)
        state.status, state.error = status, error
        self._began.pop(name, None)
        self._ended.append(name)
        self._say(name)

    # --- what is known

    def _state(self, name: str) -> StepState:
        return self.workflow.steps[name]

    @property
    def _stopped(self) -> bool:
        """Whether a step failed whose failure ends the workflow."""
        return any(
            step.on_error == STOP and self._state(name).status is StepStatus.FAILED
            for name, step in self.definition.steps.items()
        )

    def _outcome(self) -> AgentStatus:
        if self._stopped:
            return AgentStatus.ERROR
        asked = [state.suspended for state in self.workflow.steps.values() if state.status is StepStatus.WAITING]
        return next((AgentStatus(one["status"]) for one in asked if one is not None), AgentStatus.COMPLETED)

    def _told(self, error: BaseException) -> str:
        words = error.message if isinstance(error, HoldfastError) else str(error)
        told = words if isinstance(error, AgentFailed | Refusal) else f"{type(error).__name__}: {words}"
        return fit(self.secrets.text(told), ERROR_LENGTH_MAX)

    def _say(self, name: str) -> None:
        state = self._state(name)
        try:
            self._tell(StepProgress(step=name, status=state.status, attempt=state.attempt, error=state.error))
        except Exception:
            log.exception("What watches step %s failed", name)

    async def _cancel(self, tasks: tuple[asyncio.Task[Any], ...]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

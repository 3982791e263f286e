"""Steps: an agent's work on one thing, and the commit that makes it durable, or the way back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.agents.loop.turn import Turn
from holdfast.drift.protocol import Drift, Event
from holdfast.errors import DiskFull, OwnedElsewhere, StaleWriter, StorageFailed
from holdfast.history.checkpoint import Kind

if TYPE_CHECKING:
    from holdfast.agents.loop.clock import Clock
    from holdfast.agents.loop.place import Place
    from holdfast.agents.loop.tasks import Task
    from holdfast.agents.watch import Watch

log = logging.getLogger("holdfast")

within: ContextVar[Place | None] = ContextVar("holdfast_place", default=None)
"""The place of the agent in whose step this task works, if any."""

FATAL = (StaleWriter, OwnedElsewhere, StorageFailed)
"""What no agent is to blame for, and the next step would meet as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What is to be done in one step."""

    action: str
    work: Callable[[Turn], Awaitable[Any]]
    key: object  # what it works on: the same again after a failure is another attempt
    arguments: Any = None
    task: Task | None = None
    is_task: bool = False  # a slice of the task itself
    acknowledge: int | None = None
    settles: str | None = None  # the checkpoint of an interrupted operation


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What became of a step."""

    turn: Turn
    failure: Exception | None = None
    drift: Drift | None = None
    interrupted: bool = False


class Steps:
    """Takes an agent from one place to the next. Who holds `between` finds the agent at its place."""

    def __init__(self, place: Place, watch: Watch, clock: Clock, turn: Callable[[Task | None, int], Turn]) -> None:
        self.place = place
        self.watch = watch
        self.clock = clock
        self.turn = turn
        self.between = asyncio.Lock()
        self.percentage = 0.0  # of the task that the agent works on
        self._failed: tuple[str, object] | None = None
        self._attempts = 0
        self._work: asyncio.Future[Any] | None = None
        self._interrupted = False

    def begin(self) -> None:
        """A run begins."""
        self._failed, self._interrupted = None, False
        if not self.between.locked():
            self.between = asyncio.Lock()  # it belongs to the event loop in which somebody waited for it

    @property
    def progress(self) -> float:
        """A number that grows while the agent gets on: the tasks that it ever completed, and how far the current is."""
        return self.place.completed + self.percentage / 100

    def interrupt(self) -> None:
        """Takes the step back that the agent is at, if any."""
        if self._work is not None and not self._work.done():
            self._interrupted = True
            self._work.cancel()

    async def take(self, step: Step) -> Done:
        """One step. Raises what can't be survived."""
        self._attempts = self._attempts + 1 if self._failed == (step.action, step.key) else 1
        turn = self.turn(step.task, self._attempts)
        began, outcome, failure = self.clock.now(), None, None
        async with self.between:
            try:
                outcome = await self._worked(step, turn)
            except Exception as error:  # noqa: BLE001 - whatever an agent raises, it goes on
                failure = error
            if self._interrupted:
                return Done(turn=turn, interrupted=True)
            event = self._event(step, turn, outcome, failure, self.clock.now() - began)
            drifts = [self.watch.observe(one) for one in (*turn.events, event)]
            if failure is None:
                failure = await self._committed(step, turn)
            if failure is not None:
                await self.take_back(failure, step.action)
        self._failed = None if failure is None else (step.action, step.key)
        drift = next((one for one in reversed(drifts) if one is not None), None)
        return Done(turn=turn, failure=failure, drift=drift)

    async def take_back(self, failure: Exception, action: str) -> None:
        """The way back after an error, and the checkpoint that tells of it. Only who holds `between`."""
        log.warning("Agent %s failed (%s): %s", self.place.agent_id, action, _told(failure))
        await self.place.back()
        try:
            await self.place.save(Kind.RECOVERY, {"why": "error", "while": action, "error": _told(failure)})
        except DiskFull as error:
            log.warning("The error of agent %s is in no checkpoint: %s", self.place.agent_id, error)

    async def _worked(self, step: Step, turn: Turn) -> Any:
        """The agent's own work, in a task that can be interrupted alone."""
        token = within.set(self.place)
        self._work = asyncio.ensure_future(step.work(turn))
        within.reset(token)
        try:
            with self.place.within():
                return await self._work
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if here is not None and here.cancelling():
                raise
            if not self._interrupted:
                raise RuntimeError("What the agent waited for was cancelled") from None
            await self.place.back()
        finally:
            self._work = None

    def _event(self, step: Step, turn: Turn, outcome: Any, failure: Exception | None, seconds: float) -> Event:
        percentage = 0.0 if turn.task is None else turn.task.progress_percentage
        progress = self.place.completed + len(turn.completed) + percentage / 100
        if step.is_task and outcome is None and failure is None:  # slices that get on must not look the same
            outcome = "completed" if turn.task is None else f"{percentage:g} %"
        return Event(
            action=step.action,
            arguments=step.arguments,
            outcome=outcome,
            error=None if failure is None else _told(failure),
            duration_seconds=seconds,
            progress=progress if step.is_task else None,
            at=self.clock.now(),
        )

    async def _committed(self, step: Step, turn: Turn) -> Exception | None:
        """Makes the step durable, or says why it is not."""
        try:
            await self.place.save(
                Kind.AUTO,
                {"why": step.action},
                acknowledge=step.acknowledge,
                send=turn.outgoing,
                completed=len(turn.completed),
                settles=step.settles,
            )
        except DiskFull as error:
            failure: Exception = error
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - a state that can't be kept, a recipient that is another user's
            failure = error
        else:
            self.percentage = 0.0 if turn.task is None else turn.task.progress_percentage
            return None
        self.watch.observe(Event(action=step.action, error=_told(failure), at=self.clock.now()))
        return failure


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""`AgentLoop`: keeps an agent at work for days, and brings it back when it fails, drifts or dies.

An agent for a loop is one for a `CheckpointManager` (`agent_id`, `user_id`, `status`, `checkpoint_state`,
`restore_state`) with one of the first two of these methods at least; each may be plain or async:

- `on_message(message, turn)`: a message came (`message.content`, `.sender`, `.at`).
- `on_task(task, turn)`: a slice of the task that the agent has claimed (`task.name`, `.content`). It is called again
  and again until `turn.complete()`.
- `refresh()`, optional: drop what need not be kept (a conversation, caches), to go on with a clean context.
- `recover()`, optional: take up what a dead process left; called before anything else.
- `on_interrupted(checkpoint, turn)`, optional: a process died within the operation `checkpoint.operation`. Find out
  what became of it.

What a method changes in the agent, what it does through its `Turn`, and that its message is dealt with are one commit,
when it returns. When it raises, all of that is as if it had not been, and it is called again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from holdfast.agents.loop.clock import Clock, SystemClock
from holdfast.agents.loop.ended import Ended
from holdfast.agents.loop.mailbox import Mailbox
from holdfast.agents.loop.place import Place
from holdfast.agents.loop.reopening import reopened
from holdfast.agents.loop.running import running, wake
from holdfast.agents.loop.signals import stopped_by_signals
from holdfast.agents.loop.tasklist import TaskList
from holdfast.agents.loop.turn import Turn
from holdfast.agents.loop.watch import Answer, Watch
from holdfast.drift.protocol import Event
from holdfast.durable.calls import call
from holdfast.errors import (
    Closed,
    DiskFull,
    InvalidArgument,
    MissingMethod,
    OwnedElsewhere,
    ReadOnly,
    StaleWriter,
    StorageFailed,
    Unopenable,
)
from holdfast.history.checkpoint import Kind
from holdfast.storage.adapter import StorageAdapter
from holdfast.storage.protocol import Outgoing

if TYPE_CHECKING:
    from holdfast.agents.loop.tasks import Task
    from holdfast.drift.protocol import Detector, Drift
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import InboxMessage

log = logging.getLogger("holdfast")

within: ContextVar[AgentLoop | None] = ContextVar("holdfast_loop", default=None)
"""The loop in whose step this task works, if any."""

Work = Callable[[Turn], Awaitable[Any]]


class AgentLoop:
    """Processes an agent's mailbox, checks its tasks, does the current one, and again, until it is stopped.

    - A `routine` checkpoint every `routine_seconds`; a `recovery` checkpoint at every error, and before a refresh.
    - Every `refresh_seconds` a refresh: the agent is built anew from its checkpoint, with a clean context.
    - An error is survived: the agent is brought back to where it was before, and tries again after a delay that grows
      from `delay_seconds` to `delay_seconds_max`.
    - `detector` is told all that the agent does. `on_drift` says what is done when it finds drift: "notify" (the event
      `drift_detected` alone), "checkpoint", "refresh" (the default), "stop", or "ask" (first a message to the agent).
      When the second refresh in a row is due without progress in between, the agent is stopped instead.
    - SIGTERM and SIGINT (the loop must run on the main thread for that) or `stop()` end it after the current step
      and a final checkpoint; a second signal or `interrupt()` takes the current step back.

    The loop holds its agent: another process that wants to advance it is `OwnedElsewhere` for as long as this one
    lives. Agents without work look for some every `idle_seconds`, and at once when this process sends them any.
    """

    def __init__(  # noqa: PLR0913 - options, all with defaults
        self,
        agent: Any,
        manager: CheckpointManager,
        routine_seconds: float = 1800,
        refresh_seconds: float = 7200,
        *,
        tasks: TaskList | None = None,
        detector: Detector | None = None,
        on_drift: str = "refresh",
        idle_seconds: float = 1.0,
        delay_seconds: float = 1.0,
        delay_seconds_max: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        _check(agent, manager, on_drift)
        if min(routine_seconds, refresh_seconds, idle_seconds, delay_seconds) <= 0 or delay_seconds_max < delay_seconds:
            raise InvalidArgument("A loop's seconds must be more than 0, and delay_seconds_max the longest delay")
        self.manager = manager
        self.agent_id: str = agent.agent_id
        self.user_id: str = agent.user_id
        self.mailbox = Mailbox(manager, self.agent_id, user_id=self.user_id)
        self.tasks = tasks or TaskList(manager, f"{self.agent_id}/tasks", user_id=self.user_id)
        self.routine_seconds = routine_seconds
        self.refresh_seconds = refresh_seconds
        self.idle_seconds = idle_seconds
        self.delay_seconds = delay_seconds
        self.delay_seconds_max = delay_seconds_max
        self.clock: Clock = clock or SystemClock()
        self.watch = Watch(detector, on_drift)
        self.place = Place(manager, agent, self.watch)
        self.between_steps = asyncio.Lock()  # who holds it finds the agent at its place
        self._ended: Ended | None = None
        self._over = False  # whether the last run has ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._work: asyncio.Future[Any] | None = None
        self._interrupted = False
        self._failures = 0  # in a row
        self._failed_at: object = None  # the step that failed last
        self._first: list[Callable[[], Awaitable[bool]]] = []  # steps that come before all others
        self._waits_until = 0.0
        self._percentage = 0.0
        self._routine_at = self._refreshed_at = self._drifted_at = 0.0

    def __repr__(self) -> str:
        return f"AgentLoop({self.agent_id!r})"

    @property
    def agent(self) -> Any:
        """The agent as it is now; a refresh may have built a new object."""
        return self.place.agent

    @property
    def listens_to(self) -> tuple[str, ...]:
        return self.agent_id, self.tasks.agent_id

    # --- running and stopping

    async def run(self, *, take_over: bool = False) -> Ended:
        """Goes on from where the agent is, until something ends it. Says what that was.

        Raises what can't be survived: `OwnedElsewhere`, `StaleWriter`, `Corrupt`, a store that was closed.
        """
        self._begin_run()
        try:
            ended = await self._run_again(take_over=take_over)
        finally:
            self._over = True
        await self.manager.events.tell("agent_stopped", ended, self.agent)
        return ended

    def _begin_run(self) -> None:
        """Who was told to stop before it ran still is; who ended and runs again is not."""
        if self._over:
            self._ended = None
        self._loop = asyncio.get_running_loop()
        self._woken, self._stopped = asyncio.Event(), asyncio.Event()  # they belong to the event loop that runs now
        if self._ended is not None:
            self._stopped.set()
        self._over = self._interrupted = False
        self._failures, self._failed_at = 0, None
        self._routine_at = self._refreshed_at = self.clock.now()
        self._drifted_at = float("-inf")

    async def _run_again(self, *, take_over: bool) -> Ended:
        """Holds the agent and runs it; and again, from its newest place, when the disk has failed."""
        anew = last_time = False
        with running(self.manager.store, self), stopped_by_signals(self):
            while True:
                try:
                    return await self._run_held(anew=anew, take_over=take_over)
                except StorageFailed as error:
                    if last_time or isinstance(error, Closed | ReadOnly | Unopenable):
                        raise
                    last_time, anew, take_over = self._ended is not None, True, False
                    await self._pause(error)
                    await reopened(self.manager.store)

    def stop(self) -> None:
        """Ends the loop after the current step and a final checkpoint. Idempotent; any thread may."""
        self._end(Ended(why="stopped"))

    def interrupt(self) -> None:
        """Ends it as `stop` does, but takes the current step back: its message will come again."""
        self.stop()
        self._soon(self._cancel_step)

    def signalled(self, name: str) -> None:
        """The first stop signal ends the loop, the second interrupts the step that it is at."""
        if self._ended is None:
            self._end(Ended(why="signal", detail=name))
        else:
            self.interrupt()

    def wake(self) -> None:
        """Looks for work at once. Any thread may."""
        self._soon(self._woken.set)

    def _end(self, ended: Ended) -> None:
        if not self._over:
            self._ended = self._ended or ended
            self._soon(self._stopped.set)
            self.wake()

    def _soon(self, do: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(do)

    def _cancel_step(self) -> None:
        if self._work is not None and not self._work.done():
            self._interrupted = True
            self._work.cancel()

    # --- the loop

    async def _run_held(self, *, anew: bool, take_over: bool) -> Ended:
        async with self.manager.hold(self.agent_id, self.user_id, take_over=take_over):
            await self._find_place(anew=anew)
            self._first = [self._recover, self._settle_interrupted]
            while self._ended is None:
                self._woken.clear()
                try:
                    worked = await self._cycle()
                except DiskFull as error:  # nothing was written; what was acknowledged is kept
                    await self._pause(error)
                else:
                    await (asyncio.sleep(0) if worked else self._idle())
            return await self._finally(self._ended)

    async def _find_place(self, *, anew: bool) -> None:
        while True:
            try:
                async with self.between_steps:
                    return await self.place.begin(anew=anew)
            except DiskFull as error:
                if self._ended is not None:
                    raise
                await self._pause(error)

    async def find_place(self) -> None:
        """Brings the agent of a loop that has not run yet to where it would begin. Only who holds `between_steps`."""
        if self.place.checkpoint_id is None:
            async with self.manager.hold(self.agent_id, self.user_id):
                await self.place.begin(anew=False)

    async def _cycle(self) -> bool:
        """Everything that there is to do now, step by step; whether there was anything."""
        while self._first:
            step = self._first[0]
            if not await step() or self._ended:
                return True
            if self._first[0] is step:  # a refresh meanwhile may have put another one before it
                self._first.pop(0)
        await self._do_what_is_due()
        if self._first:
            return True
        worked = False
        for message in await self.mailbox.receive() if hasattr(self.agent, "on_message") else ():
            if self._ended or not await self._on_message(message) or self._first:
                return True
            await self._do_what_is_due()
            worked = True
        if self._ended is None and hasattr(self.agent, "on_task") and self.clock.now() >= self._waits_until:
            task = await self.tasks.claim(self.agent_id)
            if task is not None:
                await self._on_task(task)
                worked = True
        return worked

    async def _do_what_is_due(self) -> None:
        if self._ended is not None:
            return
        now = self.clock.now()
        if now - self._routine_at >= self.routine_seconds:
            async with self.between_steps:
                await self.place.save(Kind.ROUTINE, {"why": "routine"})
            self._routine_at = now
        if now - self._refreshed_at >= self.refresh_seconds:
            if now - self._drifted_at >= self.refresh_seconds:
                self.watch.all_is_well()
            await self._refresh({"why": "refresh"})

    async def _idle(self) -> None:
        now = self.clock.now()
        due = [self._routine_at + self.routine_seconds, self._refreshed_at + self.refresh_seconds]
        if self._waits_until > now:
            due.append(self._waits_until)
        await self._sleep(max(0.0, min(self.idle_seconds, min(due) - now)), self._woken)

    async def _finally(self, ended: Ended) -> Ended:
        """The final checkpoint. An agent that is started again after it drifted begins with a clean detector."""
        if ended.why == "drift":
            self.watch.begin_anew()
        self.watch.all_is_well()
        kind = Kind.RECOVERY if ended.why == "drift" else Kind.ROUTINE
        async with self.between_steps:
            try:
                await self.place.save(kind, {"why": ended.why, "detail": ended.detail})
            except DiskFull as error:  # its last step is on the disk, which says nearly as much
                log.warning("Agent %s ends without a final checkpoint: %s", self.agent_id, error)
        return ended.evolve(checkpoint_id=self.place.checkpoint_id)

    # --- steps

    async def _on_message(self, message: InboxMessage) -> bool:
        def work(turn: Turn) -> Awaitable[Any]:
            return call(self.agent.on_message, message, turn)

        task = await self.tasks.current(self.agent_id) if hasattr(self.agent, "on_task") else None
        arguments = {"sender": message.sender, "content": message.content}
        self._waits_until = 0.0
        return await self._step("message", arguments, work, key=message.original, task=task, acknowledge=message.number)

    async def _on_task(self, task: Task) -> bool:
        def work(turn: Turn) -> Awaitable[Any]:
            return call(self.agent.on_task, task, turn)

        self._percentage = task.progress_percentage
        return await self._step(f"task {task.name}", task.content, work, key=task.id, task=task, is_task=True)

    async def _recover(self) -> bool:
        """What a dead process left is taken up before anything new."""

        def work(_: Turn) -> Awaitable[Any]:
            return call(self.agent.recover)

        return not hasattr(self.agent, "recover") or await self._step("recover", None, work, key="recover")

    async def _settle_interrupted(self) -> bool:
        """Asks the agent about each operation that a dead process left, once."""
        for pending in await self.manager.store.pending("operation", agent_id=self.agent_id):
            checkpoint = await self.manager.store.position(pending.name)
            if checkpoint is None or checkpoint.deleted:
                continue
            if not hasattr(self.agent, "on_interrupted"):
                log.warning("Operation %s of agent %s was interrupted", checkpoint.operation, self.agent_id)
            elif not await self._interrupted_operation(checkpoint):
                return False
        return True

    async def _interrupted_operation(self, checkpoint: Checkpoint) -> bool:
        def work(turn: Turn) -> Awaitable[Any]:
            return call(self.agent.on_interrupted, checkpoint, turn)

        name = f"interrupted {checkpoint.operation}"
        return await self._step(name, None, work, key=checkpoint.id, gone=checkpoint.id)

    async def _step(
        self,
        action: str,
        arguments: Any,
        work: Work,
        *,
        key: object,
        task: Task | None = None,
        is_task: bool = False,
        acknowledge: int | None = None,
        gone: str | None = None,
    ) -> bool:
        """One step: the agent's work and the commit that makes it durable, or the way back. Whether it succeeded."""
        attempt = self._failures + 1 if self._failed_at == (action, key) else 1
        turn = self.turn(task, attempt=attempt)
        began, outcome = self.clock.now(), None
        async with self.between_steps:
            try:
                outcome = await self._worked(work, turn)
            except Exception as error:  # noqa: BLE001 - whatever an agent raises, it goes on
                failure: Exception | None = error
            else:
                failure = None
            if self._interrupted:
                return False
            event = Event(
                action=action,
                arguments=arguments,
                outcome=_progress_of(turn) if outcome is None and is_task and failure is None else outcome,
                error=None if failure is None else _told(failure),
                duration_seconds=self.clock.now() - began,
                progress=self._progress(turn) if is_task else None,
                at=self.clock.now(),
            )
            drifts = [self.watch.observe(one) for one in (*turn.events, event)]
            if failure is None:
                failure = await self._committed(turn, action, acknowledge=acknowledge, gone=gone)
            if failure is not None:
                await self._take_back(failure, action)
        if failure is None:
            self._failures, self._failed_at = 0, None
            self._waits_until = self.clock.now() + turn.waits if turn.waits is not None and turn.task else 0.0
            wake(self.manager.store, *(message.to for message in turn.outgoing))
        drift = next((one for one in reversed(drifts) if one is not None), None)
        if drift is not None:
            await self._answer(drift)
        if failure is not None:
            self._failed_at = (action, key)
            await self._pause(failure)
        return failure is None

    def turn(self, task: Task | None, *, attempt: int) -> Turn:
        """What the agent is given for a step."""
        return Turn(self.place, self.tasks, task, attempt=attempt)

    async def _worked(self, work: Work, turn: Turn) -> Any:
        """The agent's own work, in a task that can be interrupted alone."""
        token = within.set(self)
        self._work = asyncio.ensure_future(work(turn))
        within.reset(token)
        try:
            with self.place.within():
                return await self._work
        except asyncio.CancelledError:
            here = asyncio.current_task()
            ours = here is None or not here.cancelling()
            if ours and not self._interrupted:
                raise RuntimeError("What the agent waited for was cancelled") from None
            await asyncio.shield(self.place.back())
            if not ours:
                raise
        finally:
            self._work = None

    async def _committed(
        self, turn: Turn, action: str, *, acknowledge: int | None, gone: str | None
    ) -> Exception | None:
        """Makes the step durable, or says why it is not. What can't be survived is raised."""
        before = self.place.completed
        self.place.completed += len(turn.completed)
        try:
            if gone is not None:
                self.place.gone.append(gone)
            await self.place.save(Kind.AUTO, {"why": action}, acknowledge=acknowledge, send=turn.outgoing)
        except DiskFull as error:
            failure: Exception = error
        except (StaleWriter, OwnedElsewhere, StorageFailed):
            raise
        except Exception as error:  # noqa: BLE001 - a state that can't be kept, a recipient that is another user's
            failure = error
        else:
            self._percentage = 0.0 if turn.task is None else turn.task.progress_percentage
            return None
        self.place.completed = before
        if gone is not None:
            self.place.gone.remove(gone)
        self.watch.observe(Event(action=action, error=_told(failure), at=self.clock.now()))
        return failure

    async def _take_back(self, failure: Exception, action: str) -> None:
        """The way back after an error, and the checkpoint that tells of it."""
        log.warning("Agent %s failed (%s): %s", self.agent_id, action, _told(failure))
        await self.place.back()
        try:
            await self.place.save(Kind.RECOVERY, {"why": "error", "while": action, "error": _told(failure)})
        except DiskFull as error:
            log.warning("The error of agent %s is in no checkpoint: %s", self.agent_id, error)

    async def _pause(self, failure: Exception) -> None:
        """The delay after an error, twice as long after each in a row."""
        self._failures += 1
        seconds = min(self.delay_seconds * 2 ** min(self._failures - 1, 60), self.delay_seconds_max)
        log.info("Agent %s goes on in %g seconds, after: %s", self.agent_id, seconds, _told(failure))
        await self._sleep(seconds, self._stopped)

    async def _sleep(self, seconds: float, until: asyncio.Event) -> None:
        """So many seconds, or until this happens."""
        if until.is_set() or self._stopped.is_set():
            return
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        waiting = asyncio.ensure_future(until.wait())
        try:
            await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
            await asyncio.gather(sleeping, waiting, return_exceptions=True)

    # --- drift and refresh

    def _progress(self, turn: Turn) -> float:
        percentage = 0.0 if turn.task is None else turn.task.progress_percentage
        return self.place.completed + len(turn.completed) + percentage / 100

    async def _answer(self, drift: Drift) -> None:
        """Tells of a drift, and does what the policy says."""
        self._drifted_at = self.clock.now()
        answer = self.watch.answer(self.place.completed + self._percentage / 100)
        log.warning("Agent %s drifts (%s): %s", self.agent_id, answer, drift.reason)
        await self.manager.events.tell("drift_detected", drift, self.agent)
        about = {"why": "drift", "drift": {"kind": drift.kind, "score": drift.score, "reason": drift.reason}}
        if answer == Answer.REFRESH:
            await self._refresh(about)
        elif answer == Answer.STOP:
            self._end(Ended(why="drift", detail=drift.reason))
        elif answer == Answer.CHECKPOINT:
            async with self.between_steps:
                await self.place.save(Kind.RECOVERY, about)
        elif answer == Answer.ASK:
            self.watch.begin_anew()
            nudge = f"You seem to be stuck: {drift.reason}. Do something else, or say what keeps you."
            to_itself = Outgoing(to=self.agent_id, user_id=self.user_id, content=nudge, sender="holdfast")
            async with self.between_steps:
                await self.place.save(Kind.RECOVERY, about, send=(to_itself,))

    async def _refresh(self, about: dict[str, Any]) -> None:
        """A recovery checkpoint, and the controlled restart from it with a clean context."""
        self._refreshed_at = self.clock.now()
        self.watch.begin_anew()
        async with self.between_steps:
            await self.place.save(Kind.RECOVERY, about)
            try:
                await self.place.anew()
                if hasattr(self.agent, "refresh"):
                    await call(self.agent.refresh)
                    await self.place.save(Kind.AUTO, {"why": "refreshed"})
            except (StaleWriter, OwnedElsewhere, StorageFailed):
                raise
            except Exception as error:  # noqa: BLE001 - an agent that can't be refreshed goes on as it was
                await self._take_back(error, "refresh")
        self._first = [self._recover, *(step for step in self._first if step != self._recover)]


def _check(agent: Any, manager: CheckpointManager, on_drift: str) -> None:
    name = type(agent).__name__
    if not hasattr(agent, "on_message") and not hasattr(agent, "on_task"):
        raise MissingMethod(
            f"{name} has neither on_message nor on_task, so a loop has nothing to call",
            method="on_message",
            hint="Give it on_message(message, turn), on_task(task, turn) or both.",
        )
    if on_drift == "ask" and not hasattr(agent, "on_message"):
        raise MissingMethod(
            f"{name} has no on_message, by which it could be asked about its drift", method="on_message"
        )
    if isinstance(manager.store, StorageAdapter):
        raise MissingMethod(
            f"{manager.storage!r} keeps checkpoints only; a loop's mailbox needs a full store",
            hint="Use SQLiteCheckpointStorage or InMemoryCheckpointStorage.",
        )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _progress_of(turn: Turn) -> str:
    """What came of a slice of work that returned nothing: slices that get on must not look the same."""
    return "completed" if turn.task is None else f"{turn.task.progress_percentage:g} %"

"""`AgentLoop`: keeps an agent at work for days, and brings it back when it fails, drifts or dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from holdfast.agents.loop import needs
from holdfast.agents.loop.clock import Clock, SystemClock
from holdfast.agents.loop.ended import Ended
from holdfast.agents.loop.mailbox import Mailbox
from holdfast.agents.loop.pace import Pace
from holdfast.agents.loop.place import Place
from holdfast.agents.loop.reopening import reopened
from holdfast.agents.loop.running import running, wake
from holdfast.agents.loop.signals import stopped_by_signals
from holdfast.agents.loop.steps import FATAL, Step, Steps
from holdfast.agents.loop.tasklist import TaskList
from holdfast.agents.loop.turn import Turn
from holdfast.agents.watch import Answer, Watch
from holdfast.durable.calls import call
from holdfast.errors import Closed, DiskFull, InvalidArgument, ReadOnly, StorageFailed, Unopenable
from holdfast.history.checkpoint import Kind
from holdfast.storage.protocol import Outgoing

if TYPE_CHECKING:
    from holdfast.agents.loop.tasks import Task
    from holdfast.drift.protocol import Detector, Drift
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import InboxMessage

log = logging.getLogger("holdfast")


class AgentLoop:
    """Processes an agent's mailbox, checks its tasks, does the current one, and again, until it is stopped.

    - A `routine` checkpoint every `routine_seconds`; a `recovery` checkpoint at every error, and before a refresh.
    - Every `refresh_seconds` a refresh: the agent is built anew from its checkpoint, with a clean context.
    - An error is survived: the agent is brought back to where it was before, and tries again after a delay that grows
      from `delay_seconds` to `delay_seconds_max`.
    - `detector` is told all that the agent does. `on_drift` says what is done when it finds drift: "notify" (the event
      `drift_detected` alone), "checkpoint", "refresh" (the default), "stop", or "ask" (first a message to the agent);
      with None, nobody looks for drift.
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
        on_drift: str | None = "refresh",
        idle_seconds: float = 1.0,
        delay_seconds: float = 1.0,
        delay_seconds_max: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        needs.check(agent, manager, on_drift)
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
        self.clock: Clock = clock or SystemClock()
        self.watch = Watch(detector, on_drift)
        self.place = Place(manager, agent, self.watch)
        self.steps = Steps(self.place, self.watch, self.clock, self._turn)
        self._pace = Pace(self.clock, delay_seconds=delay_seconds, delay_seconds_max=delay_seconds_max)
        self._first: list[Callable[[], Awaitable[bool]]] = []  # steps that come before all others
        self._waits_until = 0.0
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
        self._pace.begin()
        self.steps.begin()
        self._routine_at = self._refreshed_at = self.clock.now()
        self._drifted_at = float("-inf")
        try:
            with running(self.manager.store, self), stopped_by_signals(self):
                ended = await self._run_again(take_over=take_over)
        finally:
            self._pace.is_over()
        await self.manager.events.tell("agent_stopped", ended, self.agent)
        return ended

    def stop(self) -> None:
        """Ends the loop after the current step and a final checkpoint. Idempotent; any thread may."""
        self._pace.end(Ended(why="stopped"))

    def interrupt(self) -> None:
        """Ends it as `stop` does, but takes the current step back: its message will come again."""
        self.stop()
        self._pace.soon(self.steps.interrupt)

    def signalled(self, name: str) -> None:
        """The first stop signal ends the loop, the second interrupts the step that it is at."""
        if self._pace.ended is None:
            self._pace.end(Ended(why="signal", detail=name))
        else:
            self.interrupt()

    def wake(self) -> None:
        """Looks for work at once. Any thread may."""
        self._pace.wake()

    # --- the loop

    async def _run_again(self, *, take_over: bool) -> Ended:
        """Holds the agent and runs it; and again, from its newest place, when the disk has failed."""
        anew = last_time = False
        while True:
            try:
                return await self._run_held(anew=anew, take_over=take_over)
            except StorageFailed as error:
                if last_time or isinstance(error, Closed | ReadOnly | Unopenable):
                    raise
                last_time, anew, take_over = self._pace.ended is not None, True, False
                await self._pace.pause(error)
                await reopened(self.manager.store)

    async def _run_held(self, *, anew: bool, take_over: bool) -> Ended:
        async with self.manager.hold(self.agent_id, self.user_id, take_over=take_over):
            try:
                await self._find_place(anew=anew)
                self._first = [self._recover, self._settle_interrupted]
                while self._pace.ended is None:
                    self._pace.look()
                    try:
                        worked = await self._cycle()
                    except DiskFull as error:  # nothing was written; what was acknowledged is kept
                        await self._pace.pause(error)
                    else:
                        await (asyncio.sleep(0) if worked else self._rest())
                return await self._finally(self._pace.ended)
            except BaseException:
                await self._leave()
                raise

    async def _leave(self) -> None:
        """Leaves the agent at its place, whatever ended the loop: somebody may go on with the object."""
        try:
            await asyncio.shield(self.place.back())
        except Exception as error:  # noqa: BLE001 - what ended the loop matters more
            log.warning("Agent %s could not be brought back to its place: %s", self.agent_id, error)

    async def _find_place(self, *, anew: bool) -> None:
        while True:
            try:
                async with self.steps.between:
                    return await self.place.begin(anew=anew)
            except DiskFull as error:
                if self._pace.ended is not None:
                    raise
                await self._pace.pause(error)

    async def find_place(self) -> None:
        """Brings the agent of a loop that has not run yet to where it would begin. Only who holds `steps.between`."""
        if self.place.checkpoint_id is None:
            async with self.manager.hold(self.agent_id, self.user_id):
                await self.place.begin(anew=False)

    async def _cycle(self) -> bool:
        """Everything that there is to do now, step by step; whether there was anything."""
        while self._first:
            step = self._first[0]
            if not await step() or self._pace.ended:
                return True
            if self._first[0] is step:  # a refresh meanwhile may have put another one before it
                self._first.pop(0)
        await self._do_what_is_due()
        if self._first:
            return True
        worked = False
        for message in await self.mailbox.receive() if hasattr(self.agent, "on_message") else ():
            if self._pace.ended or not await self._on_message(message) or self._first:
                return True
            await self._do_what_is_due()
            worked = True
        if self._pace.ended is None and hasattr(self.agent, "on_task") and self.clock.now() >= self._waits_until:
            task = await self.tasks.claim(self.agent_id)
            if task is not None:
                await self._on_task(task)
                worked = True
        return worked

    async def _do_what_is_due(self) -> None:
        if self._pace.ended is not None:
            return
        now = self.clock.now()
        if now - self._routine_at >= self.routine_seconds:
            await self._save(Kind.ROUTINE, {"why": "routine"})
            self._routine_at = now
        if now - self._refreshed_at >= self.refresh_seconds:
            if now - self._drifted_at >= self.refresh_seconds:
                self.watch.all_is_well()
            await self._refresh({"why": "refresh"})

    async def _rest(self) -> None:
        now = self.clock.now()
        due = [self._routine_at + self.routine_seconds, self._refreshed_at + self.refresh_seconds]
        if self._waits_until > now:
            due.append(self._waits_until)
        await self._pace.rest(max(0.0, min(self.idle_seconds, min(due) - now)))

    async def _finally(self, ended: Ended) -> Ended:
        """The final checkpoint. An agent that is started again after it drifted begins with a clean detector."""
        if ended.why == "drift":
            self.watch.begin_anew()
        self.watch.all_is_well()
        kind = Kind.RECOVERY if ended.why == "drift" else Kind.ROUTINE
        try:
            await self._save(kind, {"why": ended.why, "detail": ended.detail})
        except DiskFull as error:  # its last step is on the disk, which says nearly as much
            log.warning("Agent %s ends without a final checkpoint: %s", self.agent_id, error)
        return ended.evolve(checkpoint_id=self.place.checkpoint_id)

    async def _save(self, kind: Kind, about: dict[str, Any], send: tuple[Outgoing, ...] = ()) -> None:
        async with self.steps.between:
            await self.place.save(kind, about, send=send)

    # --- steps

    def _turn(self, task: Task | None, attempt: int) -> Turn:
        """What the agent is given for a step."""
        return Turn(self.place, self.tasks, task, attempt=attempt)

    async def _on_message(self, message: InboxMessage) -> bool:
        return await self._take(
            Step(
                action="message",
                arguments={"sender": message.sender, "content": message.content},
                work=lambda turn: call(self.agent.on_message, message, turn),
                key=message.original,
                task=await self.tasks.current(self.agent_id) if hasattr(self.agent, "on_task") else None,
                acknowledge=message.number,
            )
        )

    async def _on_task(self, task: Task) -> bool:
        self.steps.percentage = task.progress_percentage
        return await self._take(
            Step(
                action=f"task {task.name}",
                arguments=task.content,
                work=lambda turn: call(self.agent.on_task, task, turn),
                key=task.id,
                task=task,
                is_task=True,
            )
        )

    async def _recover(self) -> bool:
        """What a dead process left is taken up before anything new."""
        if not hasattr(self.agent, "recover"):
            return True
        return await self._take(Step(action="recover", work=lambda _: call(self.agent.recover), key="recover"))

    async def _settle_interrupted(self) -> bool:
        """Asks the agent about each operation that a dead process left, once."""
        for pending in await self.manager.store.pending("operation", agent_id=self.agent_id):
            checkpoint = await self.manager.store.position(pending.name)
            if checkpoint is None or checkpoint.deleted:
                continue
            if not hasattr(self.agent, "on_interrupted"):
                log.warning("Operation %s of agent %s was interrupted", checkpoint.operation, self.agent_id)
            elif not await self._take(self._interrupted(checkpoint)):
                return False
        return True

    def _interrupted(self, checkpoint: Checkpoint) -> Step:
        return Step(
            action=f"interrupted {checkpoint.operation}",
            work=lambda turn: call(self.agent.on_interrupted, checkpoint, turn),
            key=checkpoint.id,
            settles=checkpoint.id,
        )

    async def _take(self, step: Step) -> bool:
        """Takes one step, and does what follows from it. Whether it succeeded."""
        done = await self.steps.take(step)
        if done.interrupted:
            return False
        if done.failure is None:
            self._pace.failures = 0
            waits = done.turn.waits if done.turn.task is not None else None
            self._waits_until = 0.0 if waits is None else self.clock.now() + waits
            wake(self.manager.store, *(message.to for message in done.turn.outgoing))
        if done.drift is not None:
            await self._answer(done.drift)
        if done.failure is not None:
            await self._pace.pause(done.failure)
        return done.failure is None

    # --- drift and refresh

    async def _answer(self, drift: Drift) -> None:
        """Tells of a drift, and does what the policy says."""
        self._drifted_at = self.clock.now()
        answer = self.watch.answer(self.steps.progress)
        log.warning("Agent %s drifts (%s): %s", self.agent_id, answer, drift.reason)
        await self.manager.events.tell("drift_detected", drift, self.agent)
        about = {"why": "drift", "drift": {"kind": drift.kind, "score": drift.score, "reason": drift.reason}}
        if answer == Answer.REFRESH:
            await self._refresh(about)
        elif answer == Answer.STOP:
            self._pace.end(Ended(why="drift", detail=drift.reason))
        elif answer == Answer.CHECKPOINT:
            await self._save(Kind.RECOVERY, about)
        elif answer == Answer.ASK:
            self.watch.begin_anew()
            nudge = f"You seem to be stuck: {drift.reason}. Do something else, or say what keeps you."
            to_itself = Outgoing(to=self.agent_id, user_id=self.user_id, content=nudge, sender="holdfast")
            await self._save(Kind.RECOVERY, about, send=(to_itself,))

    async def _refresh(self, about: dict[str, Any]) -> None:
        """A recovery checkpoint, and the controlled restart from it with a clean context."""
        self._refreshed_at = self.clock.now()
        self.watch.begin_anew()
        async with self.steps.between:
            await self.place.save(Kind.RECOVERY, about)
            try:
                await self.place.anew()
                if hasattr(self.agent, "refresh"):
                    await call(self.agent.refresh)
                    await self.place.save(Kind.AUTO, {"why": "refreshed"})
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - an agent that can't be refreshed goes on as it was
                await self.steps.take_back(error, "refresh")
        self._first = [self._recover, *(step for step in self._first if step != self._recover)]

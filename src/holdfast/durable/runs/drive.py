"""The drive: a program from one question to the next, each recorded before it is asked and answered once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from holdfast.durable.runs import values
from holdfast.durable.runs.caller import Caller
from holdfast.durable.runs.execution import Answer, Execution
from holdfast.durable.runs.interpreter import (
    SLEEP,
    SLEEPS,
    Asked,
    Called,
    Ended,
    Event,
    Interpreter,
    SandboxLost,
    SnapshotRefused,
    Waiting,
    started,
)
from holdfast.durable.runs.log import answer_of
from holdfast.durable.runs.plain import described
from holdfast.durable.runs.world import Diverged
from holdfast.errors import Corrupt, DiskFull
from holdfast.history.records import Record, RlmToolCall, RlmToolResult

log = logging.getLogger("holdfast")

_TIMER_SECONDS_MIN: Final = 0.05  # a shorter sleep is not worth a record


class Drive:
    """Drives one program to its end.

    It has one way for everything: an answer that is recorded is delivered, in the order of the records; a call that
    is recorded without one gets its tool's choice after a restart; every other call is recorded, and then made. So a
    normal run, a recovery, a replay from the beginning and a fork differ only in what the log holds already.
    """

    def __init__(self, execution: Execution) -> None:
        self.run = execution
        self.journal = execution.journal
        self.log = self.journal.log
        self._tasks: dict[int, asyncio.Task[Answer]] = {}
        self._asked: dict[int, Asked] = {}  # awaitable calls that were created and have not begun
        self._interpreter = self._fresh()
        self._unasked: set[int] = set()  # recorded calls that the program has yet to repeat
        self._old = frozenset(self.log.calls)  # calls that an earlier process may have made
        self.count = sum(call.tool_name not in SLEEPS for call in self.log.order)
        self._crashes = 0
        self._caller = Caller(execution, lambda: self.printed)

    async def go(self) -> Ended:
        """The program's end. Raises Diverged when it does not repeat what is recorded of it."""
        try:
            event = await self._enter()
            while not isinstance(event, Ended):
                try:
                    event = await self._next(event)
                except SandboxLost as lost:
                    event = await self._entered_again(lost)
            self._check_repeated("its end")
        except DiskFull:
            await self._keep_results()
            raise
        else:
            return event
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Leaves the sandbox."""
        await self._interpreter.close()

    async def state(self) -> bytes | None:
        """The interpreter's state after the end, for the next program of its session."""
        return await self._interpreter.dump()

    @property
    def printed(self) -> str:
        return self._interpreter.printed

    def take_answers(self) -> list[Any] | None:
        return self._interpreter.world.take()

    # --- entering

    async def _enter(self) -> Event:
        """The first question: from the newest snapshot that loads, or from the beginning."""
        for call in self.log.snapshots():
            try:
                snapshot = await self.journal.store.snapshot(self.journal.agent_id, call.seq)
                if snapshot is None:
                    continue
                self._interpreter = self._fresh(after=call.seq)
                self._unasked = {int(one.call_id) for one in self.log.order if one.seq >= call.seq}
                self._interpreter.recorded(tuple(self.log.calls))
                return await self._interpreter.restore(snapshot, self.log.printed_at(int(call.call_id)))
            except (Corrupt, SandboxLost, SnapshotRefused) as error:
                log.warning("A snapshot of run %s can't be used, an earlier one is tried: %s", self.run.run, error)
                await self._interpreter.close()
        self._unasked = set(self.log.calls)
        states = None if self.run.base is None else self.run.base.states()
        self._interpreter, event = await started(self._fresh, states)
        return event

    async def _entered_again(self, lost: SandboxLost) -> Event:
        """After the sandbox's process died under a live host: results that are known are delivered, tools go on."""
        while True:
            self._crashes += 1
            await self._interpreter.close()
            if self._crashes >= self.run.program.limits.crashes_max:
                self._unasked.clear()  # it could not repeat them
                return Ended(
                    printed=self._interpreter.printed,
                    error=f"The sandbox crashed {self._crashes} times: {lost.message}",
                    sound=False,
                )
            log.warning("Run %s goes on in another sandbox: %s", self.run.run, lost)
            self._asked.clear()
            try:
                return await self._enter()
            except SandboxLost as again:
                lost = again

    def _fresh(self, after: int = 0) -> Interpreter:
        """One for the program, as it stood when the call at this position was recorded."""
        world = self.run.world(self.log.answers_after(after), self.log.moment_at(after))
        return Interpreter(
            self.run.program, self.run.seats, world, self.journal.policy, recorded=self.log.calls.get
        )  # fmt: skip

    # --- one question

    async def _next(self, event: Event) -> Event:
        for asked in event.created:
            self._asked[asked.call_id] = asked
        if isinstance(event, Waiting):
            return await self._at_await(event)
        assert isinstance(event, Called)  # noqa: S101 - the one kind that is left
        return await self._interpreter.answer(await self._at_call(event))

    async def _at_call(self, event: Called) -> Answer:
        call = event.call
        self._unasked.discard(call.call_id)
        if call.name == SLEEP and call.arguments["seconds"] < _TIMER_SECONDS_MIN:
            if call.call_id > self.log.last_call:  # what was recorded after it shows that it is over
                await asyncio.sleep(max(0.0, call.arguments["seconds"]))
            return {"value": None}
        if call.call_id in self.log.calls:
            self._compare(event, call)
        if (result := self.log.results.get(call.call_id)) is not None:
            return answer_of(result)
        task = self._tasks.get(call.call_id)
        if task is None:
            [task] = await self._begin(event, [call])
        answer = await self._outcome(task, call.call_id)
        del self._tasks[call.call_id]
        return answer

    async def _at_await(self, event: Waiting) -> Event:
        """Begins what has not begun, then delivers one result: the one that was, or comes to be, recorded first."""
        self._unasked.difference_update(event.pending)
        for call_id in event.pending:
            if call_id in self.log.calls and call_id in self._asked:
                self._compare(event, self._asked[call_id])
        result = self.log.first_among(event.pending)
        if result is None:
            new = [call_id for call_id in event.pending if call_id not in self._tasks]
            if new:
                await self._begin(event, [self._known(call_id) for call_id in new])
            result = await self._first_of(event.pending)
        call_id = int(result.call_id)
        self._tasks.pop(call_id, None)
        self._asked.pop(call_id, None)
        return await self._interpreter.settle(call_id, answer_of(result))

    async def _keep_results(self) -> None:
        """No room for another step; but what was called has room for its result, and is waited for."""
        await self.journal.settle()
        called = {id_: task for id_, task in self._tasks.items() if self.log.calls[id_].tool_name not in SLEEPS}
        if called:
            await asyncio.wait(called.values())
        for call_id, task in called.items():
            if not task.cancelled() and task.exception() is None:
                await self._outcome(task, call_id)

    def _known(self, call_id: int) -> Asked:
        """An awaitable call: as it was made in this execution, or as it is recorded when a snapshot only has its id."""
        asked = self._asked.get(call_id)
        if asked is None:
            record = self.log.calls[call_id]
            asked = Asked(call_id=call_id, name=record.tool_name, arguments=dict(record.tool_args))
        return asked

    async def _first_of(self, pending: tuple[int, ...]) -> RlmToolResult:
        while True:
            await self._patiently({self._tasks[call_id] for call_id in pending if call_id in self._tasks})
            for call_id in pending:  # each is recorded in turn, so that a replay delivers them alike
                task = self._tasks.get(call_id)
                if task is not None and task.done():
                    await self._outcome(task, call_id)
            if (result := self.log.first_among(pending)) is not None:
                return result

    # --- calls

    async def _begin(self, event: Called | Waiting, calls: list[Asked]) -> list[asyncio.Task[Answer]]:
        """Records the calls that are new, in one commit, and starts them; those of a dead process get their choice."""
        new = [call for call in calls if call.call_id not in self.log.calls]
        if new:
            await self._record(event, new)
        tasks = []
        for call in calls:
            old = call.call_id in self._old
            task = asyncio.ensure_future(self._caller.again(call) if old else self._caller.made(call, attempt=1))
            self._tasks[call.call_id] = task
            tasks.append(task)
        return tasks

    async def _record(self, event: Called | Waiting, calls: list[Asked]) -> None:
        if self._unasked:
            self._check_repeated(f"{calls[0].name}({_shown(calls[0].arguments)})")
        records: list[Record] = []
        batch = calls[0].call_id if isinstance(event, Waiting) else None
        for place, call in enumerate(calls):
            self.count += call.name not in SLEEPS
            snapshot = event.snapshot if place == 0 else None
            arguments, redacted = self.run.redact(self._timed(call), "toolArgs")
            records.append(
                RlmToolCall(
                    tool_call_id=self.run.run,
                    call_id=call.call_id,
                    snapshot=snapshot,
                    print_output=event.printed[len(self.log.printed) :] if place == 0 else "",
                    tool_call_count=self.count,
                    tool_name=call.name,
                    tool_args=arguments,
                    snapshot_seq=None if snapshot is not None else self.log.snapshot_seq,
                    os_answers=self._interpreter.world.take() if place == 0 else None,
                    session=self.log.start.session,
                    batch=batch,
                    line=call.line,
                    redacted=redacted or None,
                )
            )
        await self.journal.commit(*records)
        self._interpreter.recorded(tuple(call.call_id for call in calls))

    def _timed(self, call: Asked) -> dict[str, Any]:
        """The arguments as they are recorded; a sleep's with the moment at which it ends, whoever waits for it."""
        if call.name in SLEEPS:
            return {**call.arguments, "until": self.run.now() + call.arguments["seconds"]}
        return call.arguments

    # --- answers

    async def _outcome(self, task: asyncio.Task[Answer], call_id: int) -> Answer:
        """The task's answer, recorded."""
        await self._patiently({task})
        answer = await task
        if call_id not in self.log.results:
            record = self.log.calls[call_id]
            self.journal.add(
                RlmToolResult(
                    tool_call_id=self.run.run,
                    call_id=call_id,
                    tool_name=record.tool_name,
                    tool_result=answer["error"] if "error" in answer else answer["value"],
                    tool_is_error="error" in answer,
                    attempt=record.attempt,
                    session=record.session,
                )
            )
            if "value" in answer:
                self._crashes = 0
            self._caller.tell("answered", call_id, answer)
        return answer

    async def _patiently(self, tasks: set[asyncio.Task[Answer]]) -> None:
        """Waits until one of them is done; meanwhile the seat is others', if they want it."""
        if any(task.done() for task in tasks):
            return
        seats, loop = self.run.seats, asyncio.get_running_loop()
        stirred = loop.create_future()

        def stir(*_: object) -> None:
            if not stirred.done():
                stirred.set_result(None)

        end = seats.when_wanted(lambda: loop.call_soon_threadsafe(stir))
        for task in tasks:
            task.add_done_callback(stir)
        try:
            if not seats.wanted:
                await stirred
        finally:
            end()
            for task in tasks:
                task.remove_done_callback(stir)
        if not any(task.done() for task in tasks):
            await self._interpreter.park()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    # --- replay

    def _check_repeated(self, instead: str) -> None:
        """Before anything new: a program that left out what is recorded of it went another way, and stops here."""
        if self._unasked:
            record = self.log.calls[min(self._unasked)]
            raise Diverged(
                f"Run {self.run.run} does not repeat call {record.call_id}",
                recorded=f"{record.tool_name}({_shown(dict(record.tool_args))})", replayed=instead,
            )  # fmt: skip

    def _compare(self, event: Called | Waiting, call: Asked) -> None:
        """Holds a call against its record: what is not the same was not repeated, and nobody may guess."""
        record = self.log.calls[call.call_id]
        recorded = dict(record.tool_args)
        if call.name in SLEEPS:
            recorded.pop("until", None)
        replayed, _ = self.run.redact(call.arguments, "toolArgs")
        if record.tool_name != call.name or not values.masked_equal(recorded, replayed):
            raise Diverged(
                f"Run {self.run.run} does not repeat call {call.call_id}",
                recorded=f"{record.tool_name}({_shown(recorded)})",
                replayed=f"{call.name}({_shown(replayed)})",
            )
        printed, before = values.masked_text(event.printed), values.masked_text(self.log.printed_at(call.call_id))
        if isinstance(event, Called) and printed != before:
            raise Diverged(
                f"Run {self.run.run} printed something else before call {call.call_id}",
                recorded=before[-500:], replayed=printed[-500:],
            )  # fmt: skip


def _shown(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_said(value):.200}" for name, value in arguments.items())


def _said(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # a number of more digits than Python writes out
        return described(value)

"""The executor: begins runs, goes on with those that a dead process left, and writes their ends."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from holdfast.durable.redaction import Redact
from holdfast.durable.runs.bases import Base, Bases
from holdfast.durable.runs.drive import Drive
from holdfast.durable.runs.execution import Execution, nothing_taken_out
from holdfast.durable.runs.fork import NoRecordedAnswer, Original, StandIn
from holdfast.durable.runs.interpreter import Ended, Program
from holdfast.durable.runs.journal import Journal
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.observing import OnCall
from holdfast.durable.runs.outer import belongs, completing
from holdfast.durable.runs.result import RunResult
from holdfast.durable.runs.seats import Seats
from holdfast.durable.runs.tool import Tools
from holdfast.durable.runs.world import Diverged, World
from holdfast.durable.users import Users
from holdfast.errors import HoldfastError
from holdfast.history.fold import live_path
from holdfast.history.records import RlmComplete, RlmRestart, RlmStart, RlmToolResult

if TYPE_CHECKING:
    from pydantic_monty import MountDir

    from holdfast.storage.protocol import RunPlace, Store

log = logging.getLogger("holdfast")

TOO_EARLY: Final = "Process was restarted before any tool call"
_DECLARED: Final = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)


@dataclass(kw_only=True)
class Executor:
    """Everything that executions of one runner share."""

    store: Store
    users: Users
    tools: Tools
    limits: Limits
    seats: Seats
    now: Callable[[], float]
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[MountDir, ...] = ()
    type_check: bool = True
    on_call: OnCall | None = None
    redact: Redact | None = None

    # --- ways in

    async def begin(
        self, agent_id: str, user_id: str, start: RlmStart, *, after: int, take_over: bool = False
    ) -> RunResult:
        """A run that is new: its start is durable before the program is.

        `after` is where the agent stood before it was seen to have no such run; `Moved` if it went on since.
        """
        with self.users.executing(agent_id, start.tool_call_id):
            outer = await belongs(self.store, agent_id, start.tool_call_id, after + 1)
            base = await self.bases.newest(agent_id, start.session)
            if start.session is not None:
                start = start.evolve(feed=0 if base is None else base.feed)
            log = RunLog(start=start)
            journal = self._journal(agent_id, user_id, log)
            [begun] = await journal.begin(start, after=after, take_over=take_over)
            log.start = begun  # type: ignore[assignment]
            preamble = start.preamble if self.type_check and base is None else None
            execution = self._execution(journal, base, preamble=preamble)
            return await self._to_its_end(execution, outer=outer, recovered=False)

    async def go_on(self, place: RunPlace, *, again: bool = False, take_over: bool = False) -> RunResult:
        """A run that was left behind: from its newest snapshot, with all that is recorded.

        `again` takes up one that was parked. Raises `Moved` if its agent went on while it was read.
        """
        with self.users.executing(place.agent_id, place.name):
            return await self._gone_on(place, again=again, take_over=take_over)

    async def _gone_on(self, place: RunPlace, *, again: bool, take_over: bool) -> RunResult:
        history = await self.store.read(place.agent_id, after=place.start - 1, snapshots=False)
        log = RunLog.of(live_path(history))
        if log.complete is not None:  # another process was quicker
            return RunResult.of(place.agent_id, log.complete)
        info = await self.store.agent(place.agent_id)
        released = info is not None and info.owner is None  # nobody died: whoever ran it last let go of it
        waits = self._why_not(place, log, again=again, released=released)
        if waits is not None:
            return waits
        journal = self._journal(place.agent_id, place.user_id, log)
        restart = RlmRestart(
            tool_call_id=place.name, attempt=log.restarts + 1, released=released or None, session=log.start.session
        )
        await journal.begin(restart, after=history[-1].seq, take_over=take_over)
        outer = await belongs(self.store, place.agent_id, place.name, place.start)
        if not log.calls:
            complete = _complete(log, Ended(printed="", error=TOO_EARLY), 0)
            return await self._finished(journal, complete, outer=outer, recovered=True)
        execution = self._execution(journal, await self.bases.of(place, log.start))
        if log.start.forked_from is not None and log.start.forked_from.get("tools") != "live":
            execution.stand_in = await self._stand_in(log)
        return await self._to_its_end(execution, outer=outer, recovered=True)

    async def fork(
        self, original: Original, at: int, answer: dict[str, Any], *, agent_id: str, live: bool
    ) -> RunResult:
        """Another agent's run that shares the original's calls up to the n-th, which has this answer instead."""
        with self.users.executing(agent_id, original.place.name):
            return await self._forked(original, at, answer, agent_id=agent_id, live=live)

    async def _forked(
        self, original: Original, at: int, answer: dict[str, Any], *, agent_id: str, live: bool
    ) -> RunResult:
        call = original.call(at)
        records = await original.up_to(self.store, call, at, live=live)
        records.append(
            RlmToolResult(
                tool_call_id=original.place.name, call_id=call.call_id, tool_name=call.tool_name,
                tool_result=answer.get("error", answer.get("value")), tool_is_error="error" in answer,
            )
        )  # fmt: skip
        start = records[0]
        assert isinstance(start, RlmStart)  # noqa: S101 - a run begins with it
        log = RunLog(start=start)
        journal = self._journal(agent_id, original.place.user_id, log)
        begun = await journal.begin(*records, after=0)
        log.start = begun[0]  # type: ignore[assignment]
        execution = self._execution(journal, await self.bases.of(original.place, original.log.start))
        execution.stand_in = None if live else await self._stand_in(log)
        return await self._to_its_end(execution, outer=False, recovered=False)

    # --- parts

    @property
    def bases(self) -> Bases:
        return Bases(store=self.store, seats=self.seats, mounts=self.mounts)

    def _journal(self, agent_id: str, user_id: str, log: RunLog) -> Journal:
        return Journal(self.store, agent_id, user_id, log=log, result_bytes_max=self.limits.result_bytes_max)

    async def _stand_in(self, fork: RunLog) -> StandIn:
        """What answers the calls of a fork that calls no real tool, also when it goes on after a restart."""
        place = await self.bases.original(fork.start)
        original = None if place is None else await Original.read(self.store, place)
        assert fork.start.forked_from is not None  # noqa: S101 - it is a fork
        return StandIn(original, fork.start.forked_from["at"], fork, self.redact or nothing_taken_out)

    def _execution(self, journal: Journal, base: Base | None, *, preamble: str | None = None) -> Execution:
        start = journal.log.start
        program = Program(
            code=start.code, tools=self.tools, limits=self.limits, feed=start.feed or 0, mounts=self.mounts,
            preamble=preamble,
        )  # fmt: skip
        return Execution(
            journal=journal,
            program=program,
            seats=self.seats,
            base=base,
            now=self.now,
            world=lambda recorded, latest: World(
                now=self.now, environment=self.environment, recorded=recorded, latest=latest
            ),
            on_call=self.on_call,
            redact=self.redact or nothing_taken_out,
        )

    async def _to_its_end(self, execution: Execution, *, outer: bool, recovered: bool) -> RunResult:
        drive, journal = Drive(execution), execution.journal
        try:
            ended = await drive.go()
            leaves = execution.journal.log.start.session is not None and ended.sound
            complete = _complete(execution.journal.log, ended, drive.count).evolve(
                snapshot=await drive.state() if leaves else None,
                feed=execution.journal.log.start.feed if leaves else None,  # says that the session goes on from here
                os_answers=drive.take_answers(),
            )
            return await self._finished(journal, complete, outer=outer, recovered=recovered)
        except Diverged as diverged:
            return await self._parked(execution, diverged)
        except NoRecordedAnswer as stopped:
            ended = Ended(printed=drive.printed, error=stopped.message)
            return await self._finished(journal, _complete(execution.journal.log, ended, drive.count), outer=outer,
                                        recovered=recovered)  # fmt: skip
        except BaseException:
            with suppress(HoldfastError):  # what went wrong first matters more
                await journal.release()
            raise
        finally:
            await drive.close()

    async def _finished(self, journal: Journal, complete: RlmComplete, *, outer: bool, recovered: bool) -> RunResult:
        result = RunResult.of(journal.agent_id, complete, recovered=recovered)
        await journal.end(*completing(complete, result, outer=outer, recovered=recovered))
        return result

    async def _parked(self, execution: Execution, diverged: Diverged) -> RunResult:
        """The run stays as it is, for a person to look at: both sides are shown, and nothing was guessed."""
        reason = f"{diverged.message}: recorded {diverged.recorded!r}, replayed {diverged.replayed!r}"
        log = execution.journal.log
        restart = RlmRestart(
            tool_call_id=execution.run, attempt=max(1, log.restarts), reason=reason, session=log.start.session
        )
        await execution.journal.end(restart)
        return _waiting(execution.journal.agent_id, execution.run, "parked", reason)

    def _why_not(self, place: RunPlace, log: RunLog, *, again: bool, released: bool) -> RunResult | None:
        """Why this run is not taken up by this host, or not now."""
        missing = self._missing_tools(log)
        if missing:
            return _waiting(
                place.agent_id,
                place.name,
                "left",
                f"This host has no tool {', '.join(missing)}, which the run may call",
            )
        if again:
            return None
        if log.parked is not None:
            return _waiting(place.agent_id, place.name, "parked", log.parked)
        deaths = log.fruitless + (not released)
        if deaths >= self.limits.crashes_max:
            reason = f"Its host died {deaths} times while it ran, without a tool's success between"
            return _waiting(place.agent_id, place.name, "parked", reason)
        return None

    def _missing_tools(self, log: RunLog) -> list[str]:
        """The tools that the program may call, that it was offered when it began, and that are not here."""
        start = log.start
        offered = set(_DECLARED.findall(start.preamble))
        used = offered
        if start.session is None:  # else it may call functions of earlier programs, which call whatever they do
            with suppress(SyntaxError, ValueError, RecursionError):
                used = {node.id for node in ast.walk(ast.parse(start.code)) if isinstance(node, ast.Name)}
        return sorted(name for name in offered & used if name not in self.tools)


def _complete(log: RunLog, ended: Ended, count: int) -> RlmComplete:
    return RlmComplete(
        tool_call_id=log.start.tool_call_id,
        output=ended.output,
        print_output=ended.printed,
        tool_call_count=count,
        is_error=ended.error is not None,
        error=ended.error,
        session=log.start.session,
    )


def _waiting(agent_id: str, name: str, status: Any, reason: str) -> RunResult:
    return RunResult(agent_id=agent_id, tool_call_id=name, is_error=True, error=reason, status=status)

"""`PythonRunner`: runs Python that a model wrote, so that the process can die anywhere and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from holdfast.durable.redaction import Redact, Redactor
from holdfast.durable.runs.executor import Executor
from holdfast.durable.runs.failures import recorded
from holdfast.durable.runs.fork import Original
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.mounts import Mount, mount_dirs
from holdfast.durable.runs.observing import OnCall
from holdfast.durable.runs.offer import Offer, offer
from holdfast.durable.runs.result import RunResult
from holdfast.durable.runs.seats import Seats, check_installed, closed
from holdfast.durable.runs.sessions import Sessions
from holdfast.durable.runs.shared import Shared
from holdfast.durable.runs.tool import Tool, Tools
from holdfast.durable.runs.values import to_program
from holdfast.durable.users import users_of
from holdfast.errors import (
    DuplicateId,
    HoldfastError,
    InvalidArgument,
    Moved,
    OwnedElsewhere,
    RunMismatch,
    UnknownRun,
    WrongOwner,
)
from holdfast.history.records import RlmComplete, RlmStart
from holdfast.storage.adapter import as_store
from holdfast.storage.ids import new_id
from holdfast.storage.memory import InMemoryCheckpointStorage

if TYPE_CHECKING:
    from holdfast.storage.protocol import CheckpointStorage, Pending, RunPlace

log = logging.getLogger("holdfast")

_RECOVERED_AT_ONCE: Final = 1000  # most of them wait: their sandboxes are lent to others meanwhile
_NONE: Final = object()


class PythonRunner:
    """Runs programs in a sandbox in which they can call these tools, and records each step before it has effects.

    `recover()` goes on with what dead processes left. `environment` and `mounts` are all that a program sees of the
    host; without them, nothing. `workers` is how many programs compute at a time; any number may wait for tools.
    `on_call` is told of every call that is begun and answered, on the event loop.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and none is needed
        self,
        storage: CheckpointStorage | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        user_id: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        environment: Mapping[str, str] | None = None,
        mounts: Mapping[str, str | Path | Mount] | None = None,
        type_check: bool = True,
        redact_arguments: Redact | None = Redactor(),  # noqa: B008 - frozen
        on_call: OnCall | None = None,
        workers: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.storage = storage if storage is not None else InMemoryCheckpointStorage()
        self.store = as_store(self.storage)
        self.user_id = user_id
        self.tools = Tools.of(tools)
        self._users = users_of(self.storage)
        self._users.join(self)
        self._executor = Executor(
            store=self.store, users=self._users, tools=self.tools, limits=limits, seats=Seats(workers), now=now,
            environment=dict(environment or {}), mounts=mount_dirs(mounts or {}), type_check=type_check,
            on_call=on_call,
            redact=redact_arguments,
        )  # fmt: skip
        self._sessions = Sessions()
        self._running: dict[tuple[str, str, str], Shared[RunResult]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"PythonRunner({self.storage!r}, tools=[{', '.join(tool.name for tool in self.tools)}])"

    @property
    def tool(self) -> Offer:
        """What an agent framework shows a model so that it can call `run_python`."""
        return offer(self.tools)

    async def run(
        self,
        agent_id: str,
        code: str,
        tool_call_id: str,
        *,
        user_id: str | None = None,
        session: str | None = None,
        take_over: bool = False,
    ) -> RunResult:
        """Runs the code under a name, once: a run that is finished gives its recorded result, one that was left
        behind goes on, one of this name with other code is `RunMismatch`.

        One that a live process executes is `OwnedElsewhere`. With `take_over` it goes on here, as after a crash of that
        process, which calls no more tools for it: for a process that hangs.
        """
        self._check_ready(agent_id=agent_id, code=code, tool_call_id=tool_call_id)
        if self.user_id is not None and user_id not in (None, self.user_id):
            raise WrongOwner(f"This runner is {self.user_id}'s, not {user_id}'s", agent_id=agent_id, user_id=user_id)
        user = user_id or self.user_id or "default"
        name = (user, agent_id, tool_call_id)
        running = self._running.get(name)
        if running is not None:
            result = await self._awaited(running)
            await self._check_code(agent_id, tool_call_id, code)
            return result
        start = RlmStart(tool_call_id=tool_call_id, code=code, preamble=self.tools.preamble, session=session)
        running = self._running[name] = Shared(self._run(agent_id, user, start, take_over=take_over))
        running.task.add_done_callback(lambda _: self._running.pop(name, None))
        return await self._awaited(running)

    async def recover(
        self,
        agent_id: str | None = None,
        user_id: str | None = None,
        *,
        tool_call_id: str | None = None,
        again: bool = False,
    ) -> list[RunResult]:
        """Goes on with the runs that dead processes left, each to its end; every outcome is returned.

        One that can't be taken up says why: its `status` is `parked` or `left`. With `again`, parked ones are tried.
        """
        self._check_ready()
        if self.user_id is not None and user_id not in (None, self.user_id):
            return []  # of other users it knows nothing
        found = await self.store.pending("run", agent_id=agent_id, user_id=user_id or self.user_id)
        dead = [one for one in found if not one.owner_alive and tool_call_id in (None, one.name)]
        turns = asyncio.Semaphore(_RECOVERED_AT_ONCE)

        async def recovered(one: Pending) -> RunResult:
            async with turns:
                return await self._recovered(one.agent_id, one.name, again=again)

        return list(await asyncio.gather(*(recovered(one) for one in dead)))

    async def go_on(self, agent_id: str, tool_call_id: str, *, again: bool = False) -> RunResult:
        """Goes on with one run that was left behind, for whoever owns its agent now: `recover` leaves owned ones alone.

        With `again`, also with one that is parked.
        """
        self._check_ready(agent_id=agent_id, tool_call_id=tool_call_id)
        return await self._gone_on(agent_id, tool_call_id, again=again)

    async def fork(
        self,
        tool_call_id: str,
        *,
        at: int,
        result: Any = _NONE,
        exception: BaseException | None = None,
        agent_id: str | None = None,
        source_agent_id: str | None = None,
        tools: Literal["recorded", "live"] = "recorded",
    ) -> RunResult:
        """Another run from the n-th tool call of this one, with another answer, in a history of its own (`agent_id`).

        It calls no real tool: a call is answered as it was in the original, and the fork stops at the first that has
        no recorded answer, unless the tool is `read_only`. With tools="live" the real ones are called from there on.
        """
        self._check_ready()
        if (result is _NONE) == (exception is None):
            raise InvalidArgument("A fork needs another answer: a result or an exception")
        if tools not in ("recorded", "live"):
            raise InvalidArgument(f"tools is 'recorded' or 'live', not {tools!r}")
        original = await Original.read(self.store, await self._one_run(tool_call_id, source_agent_id))
        name = agent_id or f"{original.place.agent_id}-{new_id('fork')[-6:]}"
        if await self.store.agent(name) is not None:
            raise DuplicateId(f"There is an agent {name} already", agent_id=name)
        answer = {"value": to_program(result)} if exception is None else {"error": recorded(exception)}
        return await self._executor.fork(original, at, answer, agent_id=name, live=tools == "live")

    async def close(self) -> None:
        """Ends the sandboxes and lets go of the storage. Idempotent."""
        if self._closed:
            return
        self._closed = True
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._executor.seats.close()
        if self._users.leave(self):
            await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- parts

    def _check_ready(self, **texts: object) -> None:
        """Before anything is recorded: a run that can't begin must not use up its name."""
        if self._closed:
            raise closed()
        check_installed()
        for name, value in texts.items():
            if not isinstance(value, str) or (not value and name != "code"):
                raise InvalidArgument(f"{name}={value!r:.100} is no {'text' if value != '' else 'name'}")

    async def _awaited(self, running: Shared[RunResult]) -> RunResult:
        try:
            return await running.wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise closed() from None
            raise

    async def _run(self, agent_id: str, user_id: str, start: RlmStart, *, take_over: bool) -> RunResult:
        async with self._sessions.turn(agent_id, start.session):
            while True:
                with suppress(Moved):  # somebody wrote to this agent between the look at it and the first commit
                    return await self._run_as_it_stands(agent_id, user_id, start, take_over=take_over)

    async def _run_as_it_stands(self, agent_id: str, user_id: str, start: RlmStart, *, take_over: bool) -> RunResult:
        name = start.tool_call_id
        info = await self.store.agent(agent_id)
        if info is not None and info.user_id != user_id:
            raise WrongOwner(
                f"Agent {agent_id} belongs to another user than {user_id}", agent_id=agent_id, user_id=user_id
            )
        found = await self.store.runs(agent_id=agent_id, name=name, limit=1)
        if not found:
            await self._settle(agent_id, start.session)
            info = await self.store.agent(agent_id) if start.session is not None else info
            after = 0 if info is None else info.last_seq
            return await self._executor.begin(agent_id, user_id, start, after=after, take_over=take_over)
        [place] = found
        await self._check_code(agent_id, name, start.code)
        if place.end is not None:
            return await self._finished(place)
        if place.owner_alive and not take_over:
            raise OwnedElsewhere(f"Run {name} of agent {agent_id} is running in a live process",
                                 agent_id=agent_id, tool_call_id=name)  # fmt: skip
        return await self._executor.go_on(place, take_over=take_over)

    async def _settle(self, agent_id: str, session: str | None) -> None:
        """Brings a program of this session to its end that a dead process left: the next begins with what it leaves."""
        if session is None:
            return
        found = await self.store.runs(agent_id=agent_id, session=session)
        newest = {place.name: place for place in reversed(found)}  # a name that a rewind freed may be there twice
        for place in newest.values():
            if place.end is None:
                result = await self._executor.go_on(place)
                if result.status != "complete":
                    raise InvalidArgument(
                        f"Session {session} of agent {agent_id} waits for its run {place.name}: {result.error}",
                        agent_id=agent_id, tool_call_id=place.name,
                        hint="recover(again=True) tries it once more; or use another session.",
                    )  # fmt: skip

    async def _gone_on(self, agent_id: str, name: str, *, again: bool) -> RunResult:
        while True:
            found = await self.store.runs(agent_id=agent_id, name=name, user_id=self.user_id, limit=1)
            if not found:
                raise UnknownRun(f"Agent {agent_id} has no run {name}", agent_id=agent_id, tool_call_id=name)
            [place] = found
            if place.end is not None:
                return await self._finished(place)
            async with self._sessions.turn(agent_id, place.session):
                with suppress(Moved):
                    return await self._executor.go_on(place, again=again)

    async def _recovered(self, agent_id: str, name: str, *, again: bool) -> RunResult:
        try:
            return await self._gone_on(agent_id, name, again=again)
        except OwnedElsewhere as error:  # another process was quicker
            return RunResult(
                agent_id=agent_id, tool_call_id=name, is_error=True, error=error.message, status="elsewhere"
            )
        except asyncio.CancelledError:
            raise
        except Exception as error:  # one bad run must not keep the others from being recovered
            reason = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, HoldfastError):
                log.exception("Run %s of agent %s can't be recovered", name, agent_id)
            return RunResult(agent_id=agent_id, tool_call_id=name, is_error=True, error=reason, status="parked")

    async def _one_run(self, name: str, agent_id: str | None) -> RunPlace:
        """The run of this name; one that several agents have must be named with its agent."""
        found = await self.store.runs(name=name, agent_id=agent_id, user_id=self.user_id)
        agents = sorted({place.agent_id for place in found})
        if not found:
            raise UnknownRun(f"There is no run {name}", tool_call_id=name, agent_id=agent_id)
        if len(agents) > 1:
            raise InvalidArgument(
                f"Several agents have a run {name}: {', '.join(agents)}", tool_call_id=name,
                hint="Name one of them as source_agent_id.",
            )  # fmt: skip
        return found[0]

    async def _check_code(self, agent_id: str, name: str, code: str) -> None:
        [place] = await self.store.runs(agent_id=agent_id, name=name, limit=1)
        [start] = await self.store.read(agent_id, after=place.start - 1, limit=1, snapshots=False)
        if isinstance(start, RlmStart) and start.code != code:
            raise RunMismatch(
                f"Run {name} of agent {agent_id} exists with other code", agent_id=agent_id, tool_call_id=name
            )

    async def _finished(self, place: RunPlace) -> RunResult:
        assert place.end is not None  # noqa: S101 - asked before
        [complete] = await self.store.read(place.agent_id, after=place.end - 1, limit=1, snapshots=False)
        assert isinstance(complete, RlmComplete)  # noqa: S101 - the index was checked against the records
        return RunResult.of(place.agent_id, complete)

"""One program in the sandbox, turn by turn: from where it was asked something to where it asks again."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.durable.runs import failures, values
from holdfast.durable.runs.checking import checked_against
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.seats import Seat, Seats
from holdfast.durable.runs.snapshotting import SnapshotPolicy
from holdfast.durable.runs.source import Source
from holdfast.durable.runs.tool import Tools
from holdfast.durable.runs.world import NOT_OURS, Diverged, World
from holdfast.errors import Corrupt, HoldfastError
from holdfast.history import codec
from holdfast.history.records import RlmToolCall

if TYPE_CHECKING:
    from pydantic_monty import (
        FunctionSnapshot,
        FutureSnapshot,
        MontyComplete,
        MontySession,
        MountDir,
        NameLookupSnapshot,
    )

log = logging.getLogger("holdfast")

SLEEP: Final = "time.sleep"
ASYNC_SLEEP: Final = "asyncio.sleep"
SLEEPS: Final = frozenset({SLEEP, ASYNC_SLEEP})
_LIMIT_ERRORS: Final = (
    "MemoryError",
    "TimeoutError: turn time limit",
    "TimeoutError: feed",
    "RuntimeError: suspension",
)


class SandboxLost(HoldfastError):
    """The sandbox's process died or was ended; the program can go on in another from a snapshot or by a replay."""


class SnapshotRefused(HoldfastError):
    """The sandbox does not take a snapshot: another version wrote it, or a state that this one can't have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A call of the program's."""

    call_id: int
    name: str
    arguments: dict[str, Any]
    line: int | None = None  # of the program's own text


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Where a turn ended. `created` are the awaitable calls that were made on the way; none of them has begun."""

    printed: str
    created: tuple[Asked, ...] = ()
    snapshot: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Called(Event):
    """The program waits for the result of one call."""

    call: Asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting(Event):
    """The program waits for any of these calls that it awaits."""

    pending: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended(Event):
    """The program came to its end. `sound` says whether what it leaves behind can be gone on with in a session."""

    output: Any = None
    error: str | None = None
    sound: bool = True


@dataclass(kw_only=True)
class Program:
    """What an interpreter must know of what it runs."""

    code: str
    tools: Tools
    limits: Limits
    feed: int = 0  # which program of its session it is
    mounts: tuple[MountDir, ...] = ()
    preamble: str | None = None  # checked against before the program starts


class Interpreter:
    """Runs one program, on a seat that it gives back while it waits for something if others want it."""

    def __init__(
        self,
        program: Program,
        seats: Seats,
        world: World,
        policy: SnapshotPolicy,
        *,
        recorded: Callable[[int], RlmToolCall | None] = lambda _: None,
    ) -> None:
        """`recorded` knows the calls that the history has already: what was good enough then is not refused now."""
        self.program = program
        self.world = world
        self._recorded = recorded
        self._seats = seats
        self._policy = policy
        self._seat: Seat | None = None
        self._here: Any = None  # the snapshot object that the next answer goes to
        self._parked: bytes | None = None
        self._prints: list[str] = []
        self._print_bytes = 0
        self._source: Source | None = None
        self._loose: set[int] = set()  # calls that were created and are in no record yet

    # --- turns

    async def start(self, session: bytes | None = None) -> Event:
        """Begins the program, in the state that an earlier one of its session left."""
        return await self._turn(lambda seat: self._begin(seat, session))

    async def restore(self, snapshot: bytes, printed: str) -> Event:
        """The program where a snapshot was taken; it asks again what it had asked there."""
        self._print(printed)
        return await self._turn(lambda seat: self._load(seat, snapshot))

    async def answer(self, answer: Mapping[str, Any]) -> Event:
        """Goes on with the result of the call that it waits for."""
        return await self._turn(lambda _: self._here.resume(_delivered(answer)))

    async def settle(self, call_id: int, answer: Mapping[str, Any]) -> Event:
        """Goes on with the result of one of the calls that it awaits."""
        return await self._turn(lambda _: self._here.resume({call_id: _delivered(answer)}))

    def recorded(self, call_ids: tuple[int, ...]) -> None:
        """These calls are in the history now: a snapshot may rely on them."""
        self._loose.difference_update(call_ids)

    async def dump(self) -> bytes | None:
        """The state between two programs of a session."""
        seat = self._seat
        if seat is None or seat.session is None:
            return None
        return await seat.do(seat.session.dump)

    # --- seats

    async def park(self) -> None:
        """Gives the seat to others; the next turn takes one again."""
        seat = self._seat
        if seat is None or seat.session is None:
            return
        self._parked = await seat.do(lambda: _dumped(seat))
        self._here, self._seat = None, None
        self._seats.give_back(seat)

    async def close(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            try:
                await seat.do(seat.leave)
            finally:
                self._seats.give_back(seat)

    async def _turn(self, step: Callable[[Seat], Any]) -> Event:
        if self._seat is None:
            self._seat = await self._seats.take()
        seat = self._seat
        return await seat.do(lambda: self._advance(seat, step))

    # --- on the seat's thread

    def _begin(self, seat: Seat, state: bytes | None) -> Any:
        session = self._opened(seat, type_check=state is None)
        if state is not None:
            try:
                session.load_session(state)
            except Exception as error:
                seat.leave()
                raise SnapshotRefused(f"The sandbox refused the state of a session: {error}") from error
        return session.feed_start(
            self.program.code, print_callback=self._printed, mount=list(self.program.mounts) or None,
            skip_type_check=state is not None,
        )  # fmt: skip

    def _load(self, seat: Seat, snapshot: bytes) -> Any:
        session = self._opened(seat, type_check=False)
        try:
            return session.load_snapshot(
                snapshot, print_callback=self._printed, mount=list(self.program.mounts) or None
            )
        except Exception as error:
            seat.leave()
            raise SnapshotRefused(f"The sandbox refused a snapshot: {error}") from error

    def _opened(self, seat: Seat, *, type_check: bool) -> MontySession:
        limits = self.program.limits
        options: dict[str, Any] = {
            "limits": {
                "max_turn_duration_secs": limits.turn_seconds_max,
                "max_memory": limits.memory_bytes_max,
                "max_recursion_depth": limits.recursion_depth_max,
                "max_suspensions": limits.suspensions_max,
            },
            "os_policy": {"datetime": "call_host", "sleep": "call_host", "random_start": "call_host"},
        }
        if type_check and self.program.preamble is not None:
            stubs = checked_against(self.program.preamble)
            options |= {"type_check": True, "type_check_stubs": stubs, "type_check_format": "concise"}
        return seat.open(self._seats.pool(), options)

    def _advance(self, seat: Seat, step: Callable[[Seat], Any]) -> Event:
        """Takes the step, then answers all that needs no one else, until the program asks something or ends."""
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError, MontyTypingError

        started = time.perf_counter()
        created: list[Asked] = []
        try:
            if self._parked is not None:
                parked, self._parked = self._parked, None
                self._here = self._load(seat, parked)
            event = self._until_asked(step(seat), created)
        except MontyRuntimeError as error:
            return Ended(
                printed=self.printed, created=tuple(created), error=error.display("traceback"), sound=_is_sound(error)
            )
        except (MontySyntaxError, MontyTypingError) as error:
            return Ended(printed=self.printed, error=error.display(), sound=False)
        except MontyCrashedError as error:
            seat.leave()
            if error.timed_out:
                return Ended(printed=self.printed, error=f"TimeoutError: {error}", sound=False)
            raise SandboxLost(f"The sandbox ended: {error}") from error
        return self._with_snapshot(seat, event, time.perf_counter() - started)

    def _until_asked(self, here: Any, created: list[Asked]) -> Event:
        from pydantic_monty import FutureSnapshot, MontyComplete, NameLookupSnapshot

        while True:
            self._here = here
            if isinstance(here, MontyComplete):
                return self._ended(here, created)
            if isinstance(here, FutureSnapshot):
                return self._waiting(here, created)
            if isinstance(here, NameLookupSnapshot):
                here = self._looked_up(here)
                continue
            call = self._call_of(here)
            if isinstance(call, BaseException):
                here = here.resume({"exception": call})
            elif not isinstance(call, Asked):
                here = call
            elif call.name == ASYNC_SLEEP or (call.name != SLEEP and self._is_awaited(here, call.name)):
                created.append(call)
                self._loose.add(call.call_id)
                here = here.resume({"future": ...})
            else:
                return Called(printed=self.printed, created=tuple(created), call=call)

    def _ended(self, here: MontyComplete, created: list[Asked]) -> Ended:
        output = values.from_program(here.output)
        try:
            self._check_size("the program's value", output)
        except ValueError as error:
            return Ended(printed=self.printed, created=tuple(created), error=f"ValueError: {error}")
        return Ended(printed=self.printed, created=tuple(created), output=output)

    def _check_size(self, what: str, value: Any) -> None:
        size, most = len(codec.encode(value, path="value")), self.program.limits.value_bytes_max
        if size > most:
            raise ValueError(f"{what} would take {size:,} bytes, more than the {most:,} that are kept")

    def _waiting(self, here: FutureSnapshot, created: list[Asked]) -> Waiting:
        return Waiting(printed=self.printed, created=tuple(created), pending=tuple(sorted(here.pending_call_ids)))

    def _looked_up(self, here: NameLookupSnapshot) -> Any:
        name = here.variable_name
        if here.object_id is None and name in self.program.tools:
            return here.resume(value=_function_named(name))
        return here.resume()

    def _call_of(self, here: FunctionSnapshot) -> Any:
        """A call for somebody else, an exception for the program, or where it is after it was answered here."""
        name = str(here.function_name)
        if here.is_os_function:
            if name in (SLEEP, ASYNC_SLEEP):
                seconds = {"seconds": float(here.args[0])}
                return Asked(call_id=here.call_id, name=name, arguments=seconds, line=self._line(here))
            if name == "os.urandom" and here.args[0] > self.program.limits.value_bytes_max:
                return ValueError(f"os.urandom() gives at most {self.program.limits.value_bytes_max} bytes at a time")
            told = self.world.answer(name, here.args)
            if told is not NOT_OURS:
                return here.resume({"return_value": told})
            return here.resume_auto() if self.program.mounts else here.resume_not_handled()
        tool, record = self.program.tools.get(name), self._recorded(here.call_id)
        if tool is None or here.object_id is not None:
            return NameError(f"name '{name}' is not defined")
        try:
            args = tuple(values.from_program(value) for value in here.args)
            arguments = tool.bind(args, {key: values.from_program(value) for key, value in here.kwargs.items()})
            if record is None:
                tool.prepare(arguments)
                self._check_size(f"the arguments of {name}()", arguments)
        except (TypeError, ValueError) as error:
            if record is not None:
                raise Diverged(
                    f"The tool {name} does not take any more what call {here.call_id} was made with",
                    recorded=f"{record.tool_name}({', '.join(record.tool_args)})", replayed=str(error),
                ) from error  # fmt: skip
            return failures.revived(failures.recorded(error))
        return Asked(call_id=here.call_id, name=name, arguments=arguments, line=self._line(here))

    def _is_awaited(self, here: FunctionSnapshot, name: str) -> bool:
        tool, source = self.program.tools.get(name), self._own_source(here)
        awaited = source is not None and source.awaits(here.position.start, here.position.end)
        return awaited or (tool is not None and tool.is_async)

    def _line(self, here: FunctionSnapshot) -> int | None:
        source = self._own_source(here)
        return None if source is None else source.line(here.position.start)

    def _own_source(self, here: FunctionSnapshot) -> Source | None:
        """The program's text, if the call stands in it and not in a function of an earlier program."""
        if here.position.filename != f"<python-input-{self.program.feed}>":
            return None
        if self._source is None:
            self._source = Source(self.program.code)
        return self._source

    def _with_snapshot(self, seat: Seat, event: Event, seconds: float) -> Event:
        """The event with a snapshot, if one is due and nothing in it would be unknown to the history."""
        loose = self._loose.difference(event.pending) if isinstance(event, Waiting) else self._loose
        if isinstance(event, Ended) or not self._policy.wants(seconds) or loose or seat.session is None:
            return event
        started = time.perf_counter()
        data = seat.session.dump()
        self._policy.taken(time.perf_counter() - started)
        if isinstance(event, Called):
            return Called(printed=event.printed, created=event.created, snapshot=data, call=event.call)
        assert isinstance(event, Waiting)  # noqa: S101 - the one kind that is left
        return Waiting(printed=event.printed, created=event.created, snapshot=data, pending=event.pending)

    # --- prints

    @property
    def printed(self) -> str:
        """Everything that the program printed so far."""
        if len(self._prints) > 1:
            self._prints[:] = ["".join(self._prints)]
        return self._prints[0] if self._prints else ""

    def _printed(self, _stream: str, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        most = self.program.limits.print_bytes_max
        self._print_bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._print_bytes > most:
            raise MemoryError(f"The program printed more than the {most} bytes that it may")
        self._prints.append(text)


async def started(fresh: Callable[[], Interpreter], states: AsyncIterator[bytes] | None) -> tuple[Interpreter, Event]:
    """A program's first event, and the interpreter that it runs in: in the first of these states that is taken."""
    if states is None:
        interpreter = fresh()
        return interpreter, await interpreter.start()
    async for state in states:
        interpreter = fresh()
        try:
            return interpreter, await interpreter.start(state)
        except SnapshotRefused as error:
            log.warning("The state that a session's program left can't be used, it is made again: %s", error)
            await interpreter.close()
    raise Corrupt("The sandbox takes no state of the session", hint="Begin another session.")


def _dumped(seat: Seat) -> bytes:
    """What the session holds; ends it. On the seat's thread."""
    assert seat.session is not None  # noqa: S101 - who parks sits
    data = seat.session.dump()
    seat.leave()
    return data


def _delivered(answer: Mapping[str, Any]) -> Any:
    """An answer as the sandbox takes it: a value, or the recorded form of an error as an exception."""
    if "error" in answer:
        return {"exception": failures.revived(answer["error"])}
    return {"return_value": values.deliverable(answer["value"])}


def _function_named(name: str) -> Callable[..., None]:
    def function() -> None:
        """Never called: the sandbox calls by name."""

    function.__name__ = function.__qualname__ = name
    return function


def _is_sound(error: Any) -> bool:
    """Whether a session can go on after this: a limit stops the program anywhere, so its state may be half changed."""
    return not str(error.display("type-msg")).startswith(_LIMIT_ERRORS)

"""Snapshots that no store kept, made again: runs are replayed with what is recorded of them, and nothing is called."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.durable.runs.interpreter import (
    SLEEPS,
    Called,
    Ended,
    Event,
    Interpreter,
    Program,
    SandboxLost,
    Waiting,
    started,
)
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.log import RunLog, answer_of
from holdfast.durable.runs.seats import Seats
from holdfast.durable.runs.snapshotting import SnapshotPolicy
from holdfast.durable.runs.standins import standins
from holdfast.durable.runs.tool import Tools
from holdfast.durable.runs.world import Diverged, World
from holdfast.history.records import Record, RlmStart

if TYPE_CHECKING:
    from pydantic_monty import MountDir

log = logging.getLogger("holdfast")

_SLEPT: Final = {"value": None}


async def with_snapshots(records: Sequence[Record]) -> list[Record]:
    """The records of a history, with a snapshot at every call that has none, as far as a replay comes.

    A program that does not repeat itself, or that read files which are not here, keeps what it had.
    """
    seats = Seats(1)
    made: dict[int, bytes] = {}
    sessions: dict[str, bytes | None] = {}
    try:
        for place, record in enumerate(records):
            if not isinstance(record, RlmStart):
                continue
            try:
                run = RunLog.of(records[place:])
                state = sessions.get(record.session or "")
                replay = Replay(run, seats, None if state is None else _only(state))
                made |= await replay.snapshots()
                if record.session is not None and run.complete is not None and run.complete.feed is not None:
                    sessions[record.session] = run.complete.snapshot or replay.state
            except Exception as error:  # noqa: BLE001 - records that were imported may say anything
                log.warning("Run %s can't be replayed: %s: %s", record.tool_call_id, type(error).__name__, error)
    finally:
        await seats.close()
    return [record.evolve(snapshot=made[record.seq], snapshot_seq=None) if record.seq in made else record
            for record in records]  # fmt: skip


class _Always(SnapshotPolicy):
    def wants(self, turn_seconds: float) -> bool:
        return True


async def _only(state: bytes) -> AsyncIterator[bytes]:
    yield state


class Replay:
    """One run, from its beginning. `states` are what its program may begin with, the first that the sandbox takes."""

    def __init__(
        self, run: RunLog, seats: Seats, states: AsyncIterator[bytes] | None, *, mounts: tuple[MountDir, ...] = ()
    ) -> None:
        self.run = run
        self.state: bytes | None = None  # what the program left behind at its end
        self._states = states
        self._made: dict[int, bytes] = {}
        self._seen: set[int] = set()
        self._program = Program(
            code=run.start.code, tools=Tools.of(standins(run.start.preamble)), limits=Limits(),
            feed=run.start.feed or 0, mounts=mounts,
        )  # fmt: skip
        self._seats = seats
        self._interpreter = self._fresh()

    async def snapshots(self) -> dict[int, bytes]:
        """By the position of the call's record."""
        if all(call.snapshot is not None for call in self.run.order) and self.run.start.session is None:
            return {}
        try:
            self._interpreter, begun = await started(self._fresh, self._states)
            event: Event | None = begun
            while event is not None and not isinstance(event, Ended):
                event = await self._next(event)
            if event is not None:
                self.state = await self._interpreter.dump()
        except (Diverged, SandboxLost) as error:
            log.warning("Run %s can't be replayed to its end: %s", self.run.start.tool_call_id, error)
        finally:
            await self._interpreter.close()
        return self._made

    def _fresh(self) -> Interpreter:
        world = World(recorded=self.run.answers_after(0))
        return Interpreter(self._program, self._seats, world, _Always(), recorded=self.run.calls.get)

    async def _next(self, event: Event) -> Event | None:
        """The next question, or None where the records end or say something else."""
        if isinstance(event, Waiting):
            self._keep(event.pending, event.snapshot)
            result = self.run.first_among(event.pending)
            return None if result is None else await self._interpreter.settle(int(result.call_id), answer_of(result))
        assert isinstance(event, Called)  # noqa: S101 - the one kind that is left
        call_id = event.call.call_id
        record, result = self.run.calls.get(call_id), self.run.results.get(call_id)
        if record is None and event.call.name in SLEEPS:  # one too short for a record
            return await self._interpreter.answer(_SLEPT)
        if record is None or record.tool_name != event.call.name:
            return None
        self._keep((call_id,), event.snapshot)
        return None if result is None else await self._interpreter.answer(answer_of(result))

    def _keep(self, pending: tuple[int, ...], snapshot: bytes | None) -> None:
        """A snapshot belongs to the first of the calls that were recorded with it."""
        new = [call for call in self.run.order if int(call.call_id) in pending and int(call.call_id) not in self._seen]
        self._seen.update(pending)
        if snapshot is not None and new and new[0].snapshot is None:
            self._made[new[0].seq] = snapshot
        self._interpreter.recorded(pending)

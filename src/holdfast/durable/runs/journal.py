"""The journal of one run: what must be durable before something else happens, in as few commits as that allows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.durable.runs.interpreter import SLEEPS
from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.snapshotting import SnapshotPolicy
from holdfast.errors import DiskFull, HoldfastError
from holdfast.history.records import Record, RlmToolCall, RlmToolResult
from holdfast.storage.protocol import Change

if TYPE_CHECKING:
    from holdfast.storage.protocol import Committed, Store

RESULT_SECONDS_MAX: Final = 0.005
"""A result may wait this long for the next record that needs a commit: nothing outside saw it before."""


_RECORD_BYTES: Final = 64 << 10  # what a record takes besides its result: names, and the pages that lead to it


class Journal:
    """Appends a run's records to its agent's history, and holds the agent from the first commit to the last."""

    def __init__(self, store: Store, agent_id: str, user_id: str, *, log: RunLog, result_bytes_max: int) -> None:
        self.store = store
        self.agent_id = agent_id
        self.user_id = user_id
        self.log = log
        self.epoch: int | None = None
        self.policy = SnapshotPolicy()  # learns here what commits cost
        self._room_each = result_bytes_max + _RECORD_BYTES
        self._open: frozenset[int] = frozenset()  # calls for whose results room is kept
        self._waiting: list[Record] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._lock = asyncio.Lock()

    async def begin(self, *records: Record, after: int, take_over: bool = False) -> list[Record]:
        """Takes the agent with an execution's first records, unless it is not `after` this position any more (`Moved`).

        Who is cancelled meanwhile does not leave it taken.
        """
        try:
            return await self._commit(records, hold=True, after=after, take_over=take_over)
        except asyncio.CancelledError:
            await self.release()
            raise

    def add(self, record: Record) -> None:
        """A record that need not be durable yet: it goes with the next commit, or soon alone."""
        self._waiting.append(record)
        self.log.add(record)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RESULT_SECONDS_MAX, self._flush)

    async def settle(self) -> None:
        """Writes what waits, if it can be: a run that can't go on has no next record for it to go with."""
        if self._waiting:
            with suppress(HoldfastError):
                await self._commit((), hold=True)

    async def commit(self, *records: Record) -> list[Record]:
        """These records, and what waited, durable when it returns; numbered as they are stored now."""
        return await self._commit(records, hold=True)

    async def end(self, *records: Record) -> list[Record]:
        """The last records of an execution; the agent is given back."""
        return await self._commit(records, hold=False)

    async def release(self) -> None:
        """Gives the agent back without an end: the run stays pending. What waited is still written if it can be."""
        if self.epoch is not None:
            await self._commit((), hold=False)

    async def _commit(
        self, records: tuple[Record, ...], *, hold: bool, after: int | None = None, take_over: bool = False
    ) -> list[Record]:
        async with self._lock:
            self._stop_timer()
            if self._failure is not None and hold:
                raise self._failure
            waited, self._waiting = self._waiting, []
            everything = (*waited, *records)
            still_open = self._open_after(everything) if hold else frozenset()
            change = Change(
                agent_id=self.agent_id, user_id=self.user_id, records=everything, epoch=self.epoch, hold=hold,
                after=after, take_over=take_over,
                room_bytes=self._room_each * (len(still_open) - len(self._open)),
            )  # fmt: skip
            started = time.perf_counter()
            committing = asyncio.ensure_future(self.store.commit(change))
            try:
                [done] = await asyncio.shield(committing)
            except asyncio.CancelledError:
                [done] = await committing  # it lands all the same: nothing of it may be written twice
                self.epoch, self._open = done.epoch if hold else None, still_open
                raise
            except BaseException as error:
                self._waiting = [*waited, *self._waiting]
                if len(still_open) < len(self._open) and not isinstance(error, DiskFull):
                    self._open = still_open  # who is refused gives its room back all the same
                raise
            if after is None:  # the first one does more than others: it takes the agent, and often makes it
                self._measure(everything, time.perf_counter() - started)
            self.epoch, self._open = done.epoch if hold else None, still_open
            return self._numbered(records, done, len(waited))

    def _open_after(self, records: Iterable[Record]) -> frozenset[int]:
        """The calls that may be under way when these records are written: each result must fit on a full disk."""
        calls = {int(one.call_id) for one in records if isinstance(one, RlmToolCall) and one.tool_name not in SLEEPS}
        answered = {int(one.call_id) for one in records if isinstance(one, RlmToolResult)}
        return (self._open | calls) - answered

    def _numbered(self, records: tuple[Record, ...], done: Committed, offset: int) -> list[Record]:
        first = done.first_seq + offset
        numbered = [record.evolve(seq=first + place) for place, record in enumerate(records)]
        for record in numbered:
            has_bytes = isinstance(record, RlmToolCall) and record.snapshot is not None
            self.log.add(record.evolve(snapshot=b"") if has_bytes else record)  # the bytes are in the store now
        return numbered

    def _measure(self, records: tuple[Record, ...], seconds: float) -> None:
        has_one = any(isinstance(record, RlmToolCall) and record.snapshot is not None for record in records)
        self.policy.committed(seconds, snapshot=has_one)

    # --- results that wait

    def _flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.ensure_future(self._flushed())

    async def _flushed(self) -> None:
        try:
            if self._waiting:
                await self._commit((), hold=True)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whoever commits next is told: nothing may be begun after it
            self._failure = error

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

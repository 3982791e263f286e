"""The journal of one operation of an agent: each step's records in one commit, under one ownership."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.history.records import Record
from holdfast.storage.protocol import Change, Committed

if TYPE_CHECKING:
    from holdfast.storage.protocol import Store


class Journal:
    """Takes the agent with its first commit, and holds it until one that says otherwise."""

    def __init__(self, store: Store, agent_id: str, user_id: str, *, agent_type: str, take_over: bool = False) -> None:
        self.store = store
        self.agent_id = agent_id
        self.user_id = user_id
        self.epoch: int | None = None
        self.has_written = False
        self._agent_type = agent_type
        self._take_over = take_over
        self._lock = asyncio.Lock()

    @property
    def holds(self) -> bool:
        return self.epoch is not None

    async def commit(self, *records: Record) -> None:
        """These records, durable when it returns; the agent is held."""
        await self._commit(records, hold=True)

    async def end(self, *records: Record) -> None:
        """The last records of an operation; the agent is given back."""
        if records or self.holds:
            await self._commit(records, hold=False)

    async def _commit(self, records: tuple[Record, ...], *, hold: bool) -> None:
        async with self._lock:
            change = Change(
                agent_id=self.agent_id, user_id=self.user_id, agent_type=self._agent_type, records=records,
                epoch=self.epoch, hold=hold, take_over=self._take_over and not self.holds,
            )  # fmt: skip
            committing = asyncio.ensure_future(self.store.commit(change))
            try:
                [done] = await asyncio.shield(committing)
            except asyncio.CancelledError:
                self._committed((await committing)[0], hold=hold)  # it lands all the same
                raise
            self._committed(done, hold=hold)

    def _committed(self, done: Committed, *, hold: bool) -> None:
        self.epoch = done.epoch if hold else None
        self.has_written = True

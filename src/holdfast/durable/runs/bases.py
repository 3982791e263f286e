"""What a program of a session begins with: the state that the one before it left, as it was kept or made again."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.rebuilding import Replay
from holdfast.errors import Corrupt
from holdfast.history.fold import live_path
from holdfast.history.records import RlmComplete, RlmStart

if TYPE_CHECKING:
    from pydantic_monty import MountDir

    from holdfast.durable.runs.seats import Seats
    from holdfast.storage.protocol import RunPlace, Store

log = logging.getLogger("holdfast")


@dataclass(frozen=True, kw_only=True)
class Bases:
    """Finds what programs begin with."""

    store: Store
    seats: Seats
    mounts: tuple[MountDir, ...] = ()

    async def newest(self, agent_id: str, session: str | None, *, before: int | None = None) -> Base | None:
        """What the session's last program left that ended, before this position; None for the first one."""
        if session is None:
            return None
        for place in await self.store.runs(agent_id=agent_id, session=session):
            if (before is not None and place.start >= before) or place.end is None:
                continue
            [start] = await self.store.read(agent_id, after=place.start - 1, limit=1, snapshots=False)
            [end] = await self.store.read(agent_id, after=place.end - 1, limit=1, snapshots=False)
            assert isinstance(start, RlmStart)  # noqa: S101 - the index was checked against the records
            assert isinstance(end, RlmComplete)  # noqa: S101
            if end.feed is not None:  # else it left nothing sound behind
                return Base(bases=self, place=place, feed=(start.feed or 0) + 1)
        return None

    async def of(self, place: RunPlace, start: RlmStart) -> Base | None:
        """What this run began with. A fork began with what the run did that it was forked from."""
        if start.forked_from is None:
            return await self.newest(place.agent_id, start.session, before=place.start)
        original = await self.original(start)
        if original is None:
            return None
        [begun] = await self.store.read(original.agent_id, after=original.start - 1, limit=1, snapshots=False)
        assert isinstance(begun, RlmStart)  # noqa: S101 - the index was checked against the records
        return await self.of(original, begun)

    async def original(self, fork: RlmStart) -> RunPlace | None:
        """Where the run stands that this one was forked from, if its agent is still there."""
        source = fork.forked_from or {}
        places = await self.store.runs(agent_id=source.get("agentId"), name=source.get("toolCallId"))
        return next((place for place in places if place.start <= source.get("seq", 0)), None)


@dataclass(frozen=True, kw_only=True)
class Base:
    """What one ended program of a session left behind."""

    bases: Bases
    place: RunPlace
    feed: int  # which program of its session comes next

    async def states(self) -> AsyncIterator[bytes]:
        """The state as it was kept, and, should the sandbox not take that, as a replay makes it again."""
        kept = await self._kept()
        if kept is not None:
            yield kept
        yield await self._rebuilt()

    async def _kept(self) -> bytes | None:
        assert self.place.end is not None  # noqa: S101 - it ended
        try:
            return await self.bases.store.snapshot(self.place.agent_id, self.place.end)
        except Corrupt as error:
            log.warning("The state of session %s is damaged, it is made again: %s", self.place.session, error)
            return None

    async def _rebuilt(self) -> bytes:
        store, place = self.bases.store, self.place
        run = RunLog.of(live_path(await store.read(place.agent_id, after=place.start - 1, snapshots=False)))
        base = await self.bases.of(place, run.start)
        replay = Replay(run, self.bases.seats, None if base is None else base.states(), mounts=self.bases.mounts)
        await replay.snapshots()
        if replay.state is None:
            raise Corrupt(
                f"The state of session {place.session} can't be made again: run {place.name} does not repeat itself",
                agent_id=place.agent_id, tool_call_id=place.name, hint="Begin another session.",
            )  # fmt: skip
        return replay.state

"""The store in plain dicts: for tests, for short-lived programs, and as the reference of what a store means."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.errors import Closed
from holdfast.history import codec, fold
from holdfast.history.records import snapshot_of
from holdfast.storage.base import FullStorage
from holdfast.storage.ids import new_id
from holdfast.storage.ledger import Agent, Ledger
from holdfast.storage.protocol import (
    AgentInfo,
    Change,
    Committed,
    InboxMessage,
    Pending,
    Progress,
    Query,
    Report,
    RunPlace,
)

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.history.records import Record


class InMemoryCheckpointStorage(FullStorage):
    """A full store that is gone with its process. Thread-safe, and usable from any number of event loops.

    `max_checkpoints` limits what `save` leaves; as everywhere, the pinned and each agent's newest always stay.
    """

    def __init__(self, max_checkpoints: int | None = 1000) -> None:
        self.max_checkpoints = max_checkpoints
        self.writer = new_id("wrt")
        self._ledger = Ledger(self.writer)
        self._lock = threading.Lock()
        self._closed = False

    def alive(self, writer: str) -> bool:
        """Whether this writer may still write: only this object ever does."""
        return self._ledger.alive(writer)

    async def commit(self, *changes: Change) -> list[Committed]:
        with self._open() as ledger:
            return ledger.commit(changes, datetime.now(UTC))

    async def read(
        self, agent_id: str, *, after: int = 0, limit: int | None = None, snapshots: bool = True
    ) -> list[Record]:
        with self._open() as ledger:
            agent = ledger.agents.get(agent_id)
            records = [] if agent is None else list(islice(agent.history(after), limit))
        return records if snapshots else [_unread(record) for record in records]

    async def snapshot(self, agent_id: str, seq: int) -> bytes | None:
        records = await self.read(agent_id, after=seq - 1, limit=1)
        return snapshot_of(records[0]) if records and records[0].seq == seq else None

    async def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None:
        with self._open() as ledger:
            kept = ledger.live.get(checkpoint_id)
        return None if kept is None or kept.image is None else (kept.checkpoint(), kept.image)

    async def position(self, checkpoint_id: str) -> Checkpoint | None:
        with self._open() as ledger:
            kept = ledger.kept(checkpoint_id)
        return None if kept is None else kept.checkpoint()

    async def agents(self, user_id: str | None = None) -> list[AgentInfo]:
        with self._open() as ledger:
            return [
                self._info(agent_id, agent)
                for agent_id, agent in ledger.agents.items()
                if not agent.erased and user_id in (None, agent.head.user_id)
            ]

    async def agent(self, agent_id: str) -> AgentInfo | None:
        with self._open() as ledger:
            agent = ledger.agents.get(agent_id)
            return None if agent is None or agent.erased else self._info(agent_id, agent)

    async def group(self, group_id: str) -> list[str]:
        with self._open() as ledger:
            return list(ledger.groups.get(group_id, ()))

    async def pending(self, what: str, *, user_id: str | None = None, agent_id: str | None = None) -> list[Pending]:
        with self._open() as ledger:
            return [
                Pending(
                    what=what,
                    name=begun.name,
                    agent_id=id_,
                    user_id=agent.head.user_id,
                    seq=begun.seq,
                    owner_alive=self._owner_alive(agent),
                )
                for id_, agent in ledger.agents.items()
                if agent_id in (None, id_) and user_id in (None, agent.head.user_id)
                for begun in agent.pending
                if begun.what == what
            ]

    async def runs(
        self,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        session: str | None = None,
        user_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunPlace]:
        with self._open() as ledger:
            found = (
                RunPlace(
                    name=run.name,
                    agent_id=id_,
                    user_id=agent.head.user_id,
                    session=run.session,
                    start=run.start,
                    end=run.end,
                    owner_alive=self._owner_alive(agent),
                )
                for id_, agent in reversed(ledger.agents.items())
                if agent_id in (None, id_) and user_id in (None, agent.head.user_id)
                for run in reversed(fold.runs(agent.history()))
                if name in (None, run.name) and session in (None, run.session)
            )
            return list(islice(found, limit))

    async def send(self, agent_id: str, user_id: str, content: Any, *, sender: str) -> int:
        body = codec.encode(content, path="content")
        with self._open() as ledger:
            return ledger.receive(agent_id, user_id, sender, body, datetime.now(UTC))

    async def inbox(self, agent_id: str, *, limit: int = 100) -> list[InboxMessage]:
        with self._open() as ledger:
            agent = ledger.agents.get(agent_id)
            messages = {} if agent is None else agent.inbox
            done = 0 if agent is None else agent.head.inbox_acknowledged
            waiting = list(islice((item for item in messages.items() if item[0] > done), limit))
        return [
            InboxMessage(number=number, original=original, sender=sender, content=codec.decode(body), at=at)
            for number, (sender, body, at, original) in waiting
        ]

    async def verify(self, progress: Progress | None = None) -> Report:
        """Everything is whole: there is nothing under these dicts that could damage it."""
        with self._open() as ledger:
            records = sum(len(agent.records) for agent in ledger.agents.values())
            return Report(damaged=(), whole=tuple(ledger.live), records=records, checkpoints=len(ledger.live))

    async def stats(self) -> dict[str, Any]:
        with self._open() as ledger:
            return {
                "agents": sum(not agent.erased for agent in ledger.agents.values()),
                "records": sum(len(agent.records) for agent in ledger.agents.values()),
                "checkpoints": len(ledger.live),
                "bytes": sum(kept.image.size for kept in ledger.live.values() if kept.image is not None),
            }

    async def collect_garbage(self, progress: Progress | None = None) -> dict[str, int]:
        """There is nothing to do: what is deleted here is gone at once."""
        with self._open():
            return {}

    async def close(self) -> None:
        self._closed = True

    async def list(self, query: Query) -> list[Checkpoint]:
        with self._open() as ledger:
            found = (
                kept
                for kept in (ledger.live.values() if query.oldest_first else reversed(ledger.live.values()))
                if query.user_id in (None, kept.user_id)
                and query.agent_id in (None, kept.agent_id)
                and (not query.kinds or kept.kind in query.kinds)
            )
            end = None if query.limit is None else query.offset + query.limit
            page = [*islice(found, query.offset, end)]
        return [kept.checkpoint() for kept in page]

    @contextmanager
    def _open(self) -> Iterator[Ledger]:
        """What an open store holds, for this thread alone: for a moment, and never across an await."""
        with self._lock:
            if self._closed:
                raise Closed("This in-memory storage was closed")
            yield self._ledger

    def _owner_alive(self, agent: Agent) -> bool:
        return agent.head.owner is not None and self.alive(agent.head.owner)

    def _info(self, agent_id: str, agent: Agent) -> AgentInfo:
        head = agent.head
        return AgentInfo(
            agent_id=agent_id,
            user_id=head.user_id,
            agent_type=head.agent_type,
            last_seq=head.seq,
            commit_number=head.commit_number,
            epoch=head.epoch,
            owner=head.owner,
            owner_alive=self._owner_alive(agent),
            checkpoints=head.live,
            tip=head.tip_id,
            forked_from=head.origin,
            inbox_last=head.inbox_last,
            inbox_acknowledged=head.inbox_acknowledged,
        )


def _unread(record: Record) -> Record:
    """The record without its snapshot, but for whether there is one."""
    return record if snapshot_of(record) is None else record.evolve(snapshot=b"")

"""The read side of a store: every answer is authenticated before it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.history.image import Image
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, Record, snapshot_of
from holdfast.storage.heads import digest_of, unpack_head
from holdfast.storage.ids import stored_id
from holdfast.storage.imagecache import ImageCache
from holdfast.storage.protocol import AgentInfo, InboxMessage, Pending, Query, RunPlace
from holdfast.storage.sqlite.cells import KIND_NUMBERS
from holdfast.storage.sqlite.inbox import Inbox
from holdfast.storage.sqlite.pendinglist import pending_rows
from holdfast.storage.sqlite.rows import Rows, text
from holdfast.storage.sqlite.runplaces import RunPlaces
from holdfast.storage.sqlite.schema import agent_of, key_of, seq_of, span
from holdfast.storage.sqlite.snapshots import Snapshots
from holdfast.storage.sqlite.states import States
from holdfast.storage.sqlite.tally import Scope, Tally

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import AgentRow, Cells
    from holdfast.storage.sqlite.database import Database

_EVERYTHING = Scope("1", (), "c.commit_number", None)
_COLUMNS = "c.key, c.user, c.commit_number, c.kind, c.head"


class Reader:
    """Answers questions through one connection, each inside one read transaction that the caller holds."""

    def __init__(self, db: Database, cells: Cells, alive: Callable[[str], bool]) -> None:
        self.db = db
        self.cells = cells
        self.alive = alive
        self.rows = Rows(db, cells)
        self.snapshots = Snapshots(db, cells)
        self.ends = ImageCache()
        self.tally = Tally(db, self.rows)
        self.run_places = RunPlaces(db, self.rows)

    # --- histories

    def read(self, agent_id: str, after: int, limit: int | None, *, snapshots: bool) -> list[Record]:
        row = self._agent(agent_id)
        if row is None:
            return []
        records = self.rows.records(row, after=after, limit=limit)
        if not snapshots:
            return self.snapshots.marked(row.number, records)
        return [self.snapshots.filled(key_of(row.number, record.seq), record) for record in records]

    def snapshot(self, agent_id: str, seq: int) -> bytes | None:
        row = self._agent(agent_id)
        if row is None or not row.head.floor < seq <= row.head.seq:
            return None
        record, _ = self.rows.record(row, seq)
        return snapshot_of(self.snapshots.filled(key_of(row.number, seq), record))

    def runs(
        self, agent_id: str | None, name: str | None, session: str | None, user_id: str | None, limit: int | None
    ) -> list[RunPlace]:
        found: list[RunPlace] = []
        for row in self._agents_newest_first(agent_id, user_id):
            runs = self.run_places.of(row, name, session, None if limit is None else limit - len(found))
            alive = bool(runs) and row.head.owner is not None and self.alive(row.head.owner)
            found += [
                RunPlace(
                    name=run.name, agent_id=row.agent_id, user_id=row.head.user_id, session=run.session,
                    start=run.start, end=run.end, owner_alive=alive,
                )
                for run in runs
            ]  # fmt: skip
            if len(found) == limit:
                break
        return found

    def _agents_newest_first(self, agent_id: str | None, user_id: str | None) -> list[AgentRow]:
        if agent_id is not None:
            row = self._agent(agent_id)
            return [] if row is None or user_id not in (None, row.head.user_id) else [row]
        return [*self.rows.agents(user_id)][::-1]

    # --- checkpoints

    def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None:
        found = self._find(checkpoint_id)
        if found is None:
            return None
        row, checkpoint, record = found
        if checkpoint.deleted:
            return None
        try:
            image = States(self.db, self.cells, ends=self.ends).load(key_of(row.number, checkpoint.position))
        except (Corrupt, KeyError) as error:
            raise _damaged(checkpoint, str(error)) from error
        if digest_of(checkpoint, image) != record.digest:
            raise _damaged(checkpoint, "its content is not what its record says")
        return checkpoint, image

    def position(self, checkpoint_id: str) -> Checkpoint | None:
        found = self._find(checkpoint_id)
        return None if found is None else found[1]

    def _find(self, checkpoint_id: str) -> tuple[AgentRow, Checkpoint, CheckpointSaved] | None:
        key = self.rows.key(checkpoint_id)
        if key is None:
            self.rows.check_unknown(checkpoint_id)
            return None
        row = self.rows.agent_numbered(agent_of(key))
        record, commit_number = self.rows.saved(row, seq_of(key), checkpoint_id=checkpoint_id)
        found = self.db.execute(f"SELECT {_COLUMNS} FROM checkpoints c WHERE c.key = ?", (key,)).fetchone()
        if found is None or found[4] is None:
            self._check_deleted(row, record)
            return row, self._gap(row, record, commit_number), record
        return row, self.listed(row, found, record, commit_number), record

    def _check_deleted(self, row: AgentRow, record: CheckpointSaved) -> None:
        """That a checkpoint was deleted has a record; without one it was lost."""
        for (key,) in self.db.execute(
            "SELECT key FROM records WHERE key > ? AND key <= ? AND instr(body, ?) > 0 ORDER BY key",
            (key_of(row.number, record.seq), key_of(row.number, row.head.seq), stored_id(record.id)),
        ).fetchall():
            later, _ = self.rows.record(row, seq_of(key))
            if isinstance(later, CheckpointDeleted) and later.id == record.id:
                return
        raise Corrupt(
            f"The row of checkpoint {record.id} is missing",
            checkpoint_id=record.id, agent_id=row.agent_id, seq=record.seq,
        )  # fmt: skip

    def _gap(self, row: AgentRow, record: CheckpointSaved, commit_number: int) -> Checkpoint:
        """What is left of a deleted checkpoint: where it was."""
        return Checkpoint(
            id=record.id, agent_id=row.agent_id, agent_type=row.head.agent_type, user_id=row.head.user_id,
            kind=Kind.of(record.kind), parent_checkpoint_id=record.parent, position=record.seq,
            commit_number=commit_number, timestamp=record.at or datetime.fromtimestamp(0, UTC), deleted=True,
        )  # fmt: skip

    def listed(
        self, row: AgentRow, found: tuple[int, int, int, int, bytes], record: CheckpointSaved, commit_number: int
    ) -> Checkpoint:
        key, user, number, kind, cell = found
        data = self.cells.unpack_checkpoint(key, user, number, kind, cell, agent_id=row.agent_id)
        if number != commit_number or KIND_NUMBERS[Kind.of(record.kind)] != kind or user != row.user:
            raise Corrupt(
                f"The row of checkpoint {record.id} does not belong to its record",
                checkpoint_id=record.id, agent_id=row.agent_id, seq=record.seq,
            )  # fmt: skip
        return unpack_head(
            data, id=record.id, agent_id=row.agent_id, user_id=row.head.user_id, kind=Kind.of(record.kind),
            parent_checkpoint_id=record.parent, position=record.seq, commit_number=commit_number, state=None,
        )  # fmt: skip

    # --- the rest

    def _agent(self, agent_id: str) -> AgentRow | None:
        """The agent's row. That there is none is an answer too, and authenticated like any other."""
        row = self.rows.agent(agent_id)
        if row is None:
            self.rows.check_all()
        return row

    def agents(self, user_id: str | None) -> list[AgentInfo]:
        return [self._info(row) for row in self.rows.agents(user_id) if not row.erased]

    def agent(self, agent_id: str) -> AgentInfo | None:
        row = self._agent(agent_id)
        return None if row is None or row.erased else self._info(row)

    def _info(self, row: AgentRow) -> AgentInfo:
        head = row.head
        return AgentInfo(
            agent_id=row.agent_id, user_id=head.user_id, agent_type=head.agent_type, last_seq=head.seq,
            commit_number=head.commit_number, epoch=head.epoch, owner=head.owner,
            owner_alive=head.owner is not None and self.alive(head.owner), checkpoints=head.live, tip=head.tip_id,
            forked_from=head.origin, inbox_last=head.inbox_last, inbox_acknowledged=head.inbox_acknowledged,
        )  # fmt: skip

    def group(self, group_id: str) -> list[str]:
        ids: dict[int, str] = {}
        for (key,) in self.db.execute(
            "SELECT key FROM groups WHERE id = ? ORDER BY key", (stored_id(group_id),)
        ).fetchall():
            row = self.rows.agent_numbered(agent_of(key))
            ids[key] = self.rows.saved(row, seq_of(key))[0].id
            member = self.position(ids[key])
            if member is None or member.group_id != group_id:
                raise Corrupt(
                    f"The list of groups leads from {group_id} to {ids[key]}, which is not in it",
                    group_id=group_id, checkpoint_id=ids[key],
                )  # fmt: skip
        self._check_group(group_id, ids)
        return [*ids.values()]

    def _check_group(self, group_id: str, ids: Mapping[int, str]) -> None:
        """Makes sure that members which are not there were deleted, and not lost: all were saved in one commit."""
        member = self.position(next(iter(ids.values()))) if ids else None
        if member is None:
            for (message,) in self.db.execute("PRAGMA integrity_check(groups)").fetchall():
                if message != "ok":
                    raise Corrupt(f"The list of groups is damaged: {message}", group_id=group_id)
            among: tuple[str, object] = "instr(head, CAST(? AS BLOB)) > 0", text(group_id)
        elif member.group_place is not None and len(ids) >= member.group_place[1]:
            return
        else:
            among = "commit_number = ?", member.commit_number
        self.tally.check(Query(), _EVERYTHING, "DESC")  # that none of the rows is missing among which is looked
        for (key,) in self.db.execute(
            f"SELECT key FROM checkpoints WHERE {among[0]} AND head IS NOT NULL", (among[1],)
        ).fetchall():
            record, _ = self.rows.saved(self.rows.agent_numbered(agent_of(key)), seq_of(key))
            other = None if key in ids else self.position(record.id)
            if other is not None and other.group_id == group_id:
                raise Corrupt(f"Group {group_id} has lost {other.id}", group_id=group_id, checkpoint_id=other.id)

    def pending(self, what: str, user_id: str | None, agent_id: str | None) -> list[Pending]:
        if agent_id is not None and self._agent(agent_id) is None:
            return []
        result = []
        for key, this, name in pending_rows(self.db, self.rows.store()):
            if this != what:
                continue
            row = self.rows.agent_numbered(agent_of(key))
            if agent_id not in (None, row.agent_id) or user_id not in (None, row.head.user_id):
                continue
            owner = row.head.owner
            result.append(
                Pending(
                    what=what, name=name, agent_id=row.agent_id, user_id=row.head.user_id, seq=seq_of(key),
                    owner_alive=owner is not None and self.alive(owner),
                )
            )  # fmt: skip
        return result

    def inbox(self, agent_id: str, limit: int) -> list[InboxMessage]:
        row = self._agent(agent_id)
        if row is None:
            return []
        after = row.head.inbox_acknowledged
        messages = Inbox(self.db, self.cells).messages(row, after, limit)
        for expected, message in enumerate(messages, start=after + 1):
            if message.number != expected:
                raise _lost_message(agent_id, expected)
        if len(messages) < limit and after + len(messages) < row.head.inbox_last:
            raise _lost_message(agent_id, after + len(messages) + 1)
        return [
            InboxMessage(number=m.number, original=m.original, sender=m.sender, content=m.content, at=m.at)
            for m in messages
        ]

    # --- listings; last, because `list` hides the type of this name from what follows

    def list(self, query: Query) -> list[Checkpoint]:
        """The checkpoints asked for. A listing that lacks one is Corrupt, not short."""
        limit = -1 if query.limit is None else query.limit
        kinds = [KIND_NUMBERS[Kind.of(kind)] for kind in query.kinds]
        among = f" AND c.kind IN ({','.join(map(str, kinds))})" if kinds else ""
        order = "ASC" if query.oldest_first else "DESC"
        scope = self._scope(query)
        if scope is None:
            return []
        self.tally.check(query, scope, order)
        found = self.db.execute(
            f"SELECT {_COLUMNS} FROM checkpoints c WHERE {scope.where} AND c.head IS NOT NULL{among}"
            f" ORDER BY {scope.by} {order}, c.key {order} LIMIT ? OFFSET ?",
            (*scope.bounds, limit, query.offset),
        ).fetchall()
        return [*self._authentic(found)]

    def _scope(self, query: Query) -> Scope | None:
        """The part of the store that is asked about; None when there is nothing in it."""
        if query.agent_id is not None:
            row = self._agent(query.agent_id)
            if row is None or (query.user_id is not None and row.head.user_id != query.user_id):
                return None
            return Scope("c.key BETWEEN ? AND ?", span(row.number), "c.key", [row])
        self.rows.check_all()
        if query.user_id is None:
            return _EVERYTHING
        users = self.rows.users(query.user_id)
        if not users:
            return None
        return Scope("c.user = ?", (users[0],), "c.commit_number", None)

    def _authentic(self, found: Iterable[tuple[int, int, int, int, bytes]]) -> Iterator[Checkpoint]:
        owners: dict[int, AgentRow] = {}
        for item in found:
            number = agent_of(item[0])
            row = owners.get(number) or owners.setdefault(number, self.rows.agent_numbered(number))
            record, commit_number = self.rows.saved(row, seq_of(item[0]))
            yield self.listed(row, item, record, commit_number)


def _lost_message(agent_id: str, number: int) -> Corrupt:
    return Corrupt(f"Message {number} of agent {agent_id} is missing", agent_id=agent_id, seq=number)


def _damaged(checkpoint: Checkpoint, reason: str) -> Corrupt:
    return Corrupt(
        f"Checkpoint {checkpoint.id} of agent {checkpoint.agent_id} is damaged: {reason}",
        checkpoint_id=checkpoint.id, agent_id=checkpoint.agent_id, seq=checkpoint.position,
    )  # fmt: skip

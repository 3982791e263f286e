"""Carries changes out inside one transaction: first every check and plan, then every write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt, DuplicateId, InvalidArgument
from holdfast.history.checkpoint import Kind
from holdfast.history.fold import begins, live_path
from holdfast.history.records import CheckpointSaved, Record, Rewind, RlmStart
from holdfast.storage import rules
from holdfast.storage.heads import digest_of, pack_head, unpack_head
from holdfast.storage.ids import stored_id
from holdfast.storage.ledger import claimed
from holdfast.storage.protocol import Change, Committed, Outgoing
from holdfast.storage.rules import Head, Place
from holdfast.storage.sqlite.cells import KIND_NUMBERS, AgentRow, Cells, StoreRow
from holdfast.storage.sqlite.foundagain import FoundAgain
from holdfast.storage.sqlite.inbox import Inbox, Message
from holdfast.storage.sqlite.knownrows import KnownRows
from holdfast.storage.sqlite.pendinglist import PendingList
from holdfast.storage.sqlite.runlist import RunList
from holdfast.storage.sqlite.schema import agent_of, key_of, listing_share, span
from holdfast.storage.sqlite.snapshots import Snapshots
from holdfast.storage.sqlite.states import SEGMENT_STATES, States

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.storage.sqlite.database import Database

log = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True)
class Content:
    """A checkpoint that a change saves, and the delta of its state."""

    checkpoint: Checkpoint
    image: Image
    state: bytes


@dataclass(slots=True)
class Plan:
    """What one change will write. Making it writes nothing but a number for a new user, so it can still be refused."""

    change: Change
    row: AgentRow  # after the change
    is_new: bool
    records: list[Record] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)  # keys of checkpoints
    content: Content | None = None
    operations: int = 0  # how many of this writer hold the agent afterwards


class Ledger:
    """The write side of a store, on one connection, in one transaction at a time."""

    def __init__(
        self,
        db: Database,
        cells: Cells,
        *,
        writer: str,
        alive: Callable[[str], bool],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.db = db
        self.cells = cells
        self.rows = KnownRows(db, cells)
        self.found_again = FoundAgain(self.rows)
        self.states = States(db, cells)
        self.snapshots = Snapshots(db, cells)
        self.inbox = Inbox(db, cells)
        self.pending = PendingList(db)
        self.runs = RunList(db)
        self.writer = writer
        self.alive = alive
        self.now = now
        self.holds: dict[str, int] = {}  # how many operations of this writer hold an agent
        self.overfull: set[int] = set()  # agents with segments that are half dead
        self.freed = False  # whether something was deleted since free space was last looked at

    # --- one commit

    def apply(self, changes: tuple[Change, ...]) -> list[Committed]:
        """Plans every change, then writes them all. Raises before the first write, or an error of SQLite's."""
        rules.check_distinct(changes)
        _check_new_ids(changes)
        self.pending.begin()
        store = self.rows.store()
        commit_number = store.commit_number + 1
        plans: list[Plan] = []
        new_agents = 0
        for change in changes:
            plan = self._plan(change, commit_number, others=new_agents)
            new_agents += plan.is_new
            plans.append(plan)
        if any(change.send for change in changes):
            rules.check_recipients(changes, self._head)
        store = store.evolve(commit_number=commit_number)
        done = []
        for plan in plans:
            result, store = self._write(plan, store)
            done.append(result)
        for change in changes:
            for message in change.send:
                self.rows.put_store(store)  # whoever it goes to is held against what was written by now
                _, store = self._receive(message, store)
        self.rows.put_store(self.pending.settled(store))
        for plan in plans:
            if plan.operations:
                self.holds[plan.change.agent_id] = plan.operations
            else:
                self.holds.pop(plan.change.agent_id, None)
        return done

    # --- plan

    def _plan(self, change: Change, commit_number: int, *, others: int) -> Plan:
        """What the change will write; `others` are the agents that the same commit makes before it."""
        found = self.rows.agent(change.agent_id)
        rules.check_owner(change, found.head if found else None)
        row = found or self._new_row(change, self.rows.next_agent_number() + others)
        if change.erase:
            if change.advances:
                raise InvalidArgument(
                    f"A change can't erase agent {change.agent_id} and advance it", agent_id=change.agent_id
                )
            return Plan(change=change, row=row, is_new=found is None)
        operations, head = claimed(change, row.head, self.holds.get(change.agent_id, 0), self.writer, self.alive)
        rules.check_position(change, row.head)
        row = self._begun(change, row, head)
        plan = Plan(change=change, row=row, is_new=found is None, operations=operations)
        deleted = self._live_keys(row.number, change.delete)
        plan.deleted = list(deleted.values())
        digest = self._plan_checkpoint(plan, commit_number, deleted)
        plan.records = rules.records_of(
            change, head, place_of=self._place_for(change.user_id), deleted=tuple(deleted), digest=digest
        )
        return plan

    def _new_row(self, change: Change, number: int) -> AgentRow:
        self.rows.check_all()  # one that is hidden, or was taken out, must not be made a second time
        return AgentRow(
            number=number,
            user=self.rows.user_number(change.user_id),
            agent_id=change.agent_id,
            head=Head(user_id=change.user_id),
            chain=self.cells.first_chain(change.agent_id, change.user_id),
        )

    def _begun(self, change: Change, row: AgentRow, head: Head) -> AgentRow:
        """The row with this head, and what a change that advances the agent says of it: its type, a fork's origin."""
        named = change.agent_type or (change.checkpoint.agent_type if change.checkpoint else "")
        origin = rules.origin_of(change, self._place_for(change.user_id))
        if origin is not None and head.seq > head.floor:
            raise DuplicateId(
                f"Agent {change.agent_id} has a history already, only a new agent can be a fork",
                agent_id=change.agent_id,
            )
        if (named and named != head.agent_type) or origin is not None:
            head = head.evolve(agent_type=named or head.agent_type, origin=origin or head.origin)
        if head is row.head and not row.erased:
            return row  # as nearly always: a copy would only take time
        return row.evolve(head=head, erased=row.erased and not change.advances)

    def _place_for(self, user_id: str) -> Callable[[str], Place | None]:
        """Where checkpoints stand, as far as this user may know."""

        def place(checkpoint_id: str) -> Place | None:
            found = self.rows.place(checkpoint_id)
            if found is None:
                return None
            owner = self.rows.agent(found.agent_id)
            return found if owner is not None and owner.head.user_id == user_id else None

        return place

    def _live_keys(self, number: int, ids: tuple[str, ...]) -> dict[str, int]:
        """Those of the ids that are live checkpoints of this agent, with their keys."""
        keys = {}
        for id_ in ids:
            key = self.rows.key(id_)
            if key is not None and agent_of(key) == number and self.rows.is_live(key):
                keys[id_] = key
        return keys

    def _plan_checkpoint(self, plan: Plan, commit_number: int, deleted: dict[str, int]) -> bytes:
        change, row = plan.change, plan.row
        if change.checkpoint is None or change.image is None:
            return b""
        id_ = change.checkpoint.id
        if not change.id_is_new and id_ not in deleted and self._is_taken(id_, row.number):
            raise DuplicateId(f"There is a checkpoint {id_} already", checkpoint_id=id_, agent_id=change.agent_id)
        newest = key_of(row.number, row.state_seq) if row.state_seq else None
        if change.fork_of is not None:
            newest = self.rows.key(change.fork_of)
        checkpoint = rules.completed(
            change,
            rules.with_inbox(change.checkpoint, row.head),
            parent=rules.parent_of(change, row.head),
            seq=0,
            commit_number=commit_number,
        )
        plan.content = Content(checkpoint, change.image, self.states.encode(newest, change.image))
        return digest_of(change.checkpoint, change.image)

    def _is_taken(self, id_: str, number: int) -> bool:
        """Whether a checkpoint has this id: a live one, or the position that a deleted one left in another agent."""
        key = self.rows.key(id_)
        return key is not None and (agent_of(key) != number or self.rows.is_live(key))

    # --- write

    def _write(self, plan: Plan, store: StoreRow) -> tuple[Committed, StoreRow]:
        change, row = plan.change, plan.row
        first = row.head.seq + 1
        if plan.is_new and not change.advances:  # nothing to delete, pin or erase: the agent stays unknown
            return _nothing(change, row, store.commit_number), store
        row = self._write_records(plan, row, store.commit_number)
        deleted, listing = self._delete(plan.deleted)
        row = row.evolve(listing=row.listing - listing)
        for id_, pinned in change.pin.items():
            self._pin(row, id_, pinned=pinned)
        checkpoint = None
        if plan.content is not None:
            row, checkpoint = self._write_checkpoint(plan, plan.content, row)
        if change.acknowledge is not None:
            acknowledged = min(max(change.acknowledge, row.head.inbox_acknowledged), row.head.inbox_last)
            row = row.evolve(head=row.head.evolve(inbox_acknowledged=acknowledged))
            self.inbox.forget(row)
        if change.receive_again is not None:
            row = row.evolve(head=self.inbox.receive_again(row, change.receive_again))
            self.inbox.forget(row)
        if change.erase:
            deleted = row.head.live
            row = self._erase(row)
        store = self.rows.put_agent(row, store, is_new=plan.is_new)
        self.found_again.check(row, checkpoint)
        done = Committed(
            agent_id=change.agent_id,
            commit_number=store.commit_number,
            first_seq=first,
            last_seq=row.head.seq,
            epoch=row.head.epoch,
            checkpoint=checkpoint,
            deleted=deleted,
        )
        return done, store

    def _write_records(self, plan: Plan, row: AgentRow, commit_number: int) -> AgentRow:
        """Appends the records; the row then ends with them, and counts the checkpoints as they are after the change."""
        chain, now = row.chain, self.now()
        rows: list[tuple[int, bytes]] = []
        runs = row.head.runs
        rewound = False
        for record in plan.records:
            key = key_of(row.number, record.seq)
            kept = self.snapshots.put(key, record)
            cell, chain = self.cells.pack_record(key, chain, kept, commit_number=commit_number, at=record.at or now)
            rows.append((key, cell))
            runs += isinstance(record, RlmStart)
            rewound = rewound or isinstance(record, Rewind)
        live = row.head.live - len(plan.deleted) + (plan.content is not None)
        if not rows:
            return row.evolve(head=row.head.evolve(commit_number=commit_number, live=live))
        self.db.executemany("INSERT INTO records (key, body) VALUES (?, ?)", rows)
        tip_seq, tip_id = _newest(plan.records) or (row.head.tip_seq, row.head.tip_id)
        head = row.head.evolve(
            commit_number=commit_number, seq=plan.records[-1].seq, runs=runs, live=live, tip_seq=tip_seq, tip_id=tip_id
        )
        row = row.evolve(chain=chain, head=head)
        if rewound:
            return self._rewound(plan.records, row)
        self.pending.follow(row.number, plan.records)
        return self.runs.follow(row, plan.records)

    def _rewound(self, records: list[Record], row: AgentRow) -> AgentRow:
        """The row after a rewind: what counts now is a fold over the live path, read when nothing was saved since."""
        row = self._listed_again(records, row)
        if _newest(records) is not None:
            return row
        saved = [record for record in live_path(self.rows.records(row)) if isinstance(record, CheckpointSaved)]
        tip_seq, tip_id = (saved[-1].seq, saved[-1].id) if saved else (0, None)
        return row.evolve(head=row.head.evolve(tip_seq=tip_seq, tip_id=tip_id))

    def _listed_again(self, records: list[Record], row: AgentRow) -> AgentRow:
        """After a rewind: what is pending and which runs count are folds over the live path, read only if need be."""
        if row.head.runs or self.pending.any(row.number) or any(begins(record) for record in records):
            history = self.rows.records(row)
            self.pending.replace(row.number, history)
            if row.head.runs:
                return self.runs.replace(row, history)
        return row

    def _write_checkpoint(self, plan: Plan, content: Content, row: AgentRow) -> tuple[AgentRow, Checkpoint]:
        seq = next(r.seq for r in reversed(plan.records) if isinstance(r, CheckpointSaved))
        checkpoint = content.checkpoint
        checkpoint.position = seq  # it is our own copy, made by the plan
        key = key_of(row.number, seq)
        kind = KIND_NUMBERS[Kind.of(checkpoint.kind)]
        head = self.cells.pack_checkpoint(key, row.user, checkpoint.commit_number, kind, pack_head(checkpoint))
        self.db.execute(
            "INSERT INTO checkpoints (key, user, commit_number, kind, head, state) VALUES (?, ?, ?, ?, ?, ?)",
            (
                key,
                row.user,
                checkpoint.commit_number,
                kind,
                head,
                self.cells.pack_bytes(b"state", key, None, content.state),
            ),
        )
        verb = "INSERT" if plan.change.id_is_new else "REPLACE"
        self.db.execute(f"{verb} INTO ids (id, key) VALUES (?, ?)", (stored_id(checkpoint.id), key))
        if checkpoint.group_id is not None:
            self.db.execute("INSERT INTO groups (id, key) VALUES (?, ?)", (stored_id(checkpoint.group_id), key))
        if plan.change.fork_of is not None:
            base = self.rows.key(plan.change.fork_of)
            self.db.execute("INSERT INTO forks (key, base) VALUES (?, ?)", (row.number, base))
        self.states.newest.put(key, content.image)
        if row.state_seq:
            self.states.newest.drop(key_of(row.number, row.state_seq))
        listing = row.listing + listing_share(key, checkpoint.commit_number, kind)
        row = row.evolve(state_seq=seq, open_states=row.open_states + 1, listing=listing)
        if row.open_states >= SEGMENT_STATES:
            row = self._seal(row)
        return row, checkpoint

    def _seal(self, row: AgentRow) -> AgentRow:
        """Moves the open states into a segment. A damaged one among them must not keep the agent from being saved."""
        try:
            self.states.seal_open(row.number)
        except Corrupt as error:
            log.warning("The states of agent %s can't be sealed: %s", row.agent_id, error)
        return row.evolve(open_states=0)

    # --- deletions

    def _delete(self, keys: list[int]) -> tuple[int, int]:
        """How many were deleted, and what their rows had added to the listing's sum."""
        listing = 0
        for key in keys:
            [(commit_number, kind)] = self.db.execute(
                "SELECT commit_number, kind FROM checkpoints WHERE key = ?", (key,)
            ).fetchall()
            listing += listing_share(key, commit_number, kind)
            if self.states.delete(key):
                self.overfull.add(agent_of(key))
            self.db.execute("DELETE FROM groups WHERE key = ?", (key,))
            self.freed = True
        return len(keys), listing

    def _pin(self, row: AgentRow, id_: str, *, pinned: bool) -> None:
        key = self._live_keys(row.number, (id_,)).get(id_)
        if key is None:
            return
        user, commit_number, kind, cell = self.db.execute(
            "SELECT user, commit_number, kind, head FROM checkpoints WHERE key = ?", (key,)
        ).fetchone()
        data = self.cells.unpack_checkpoint(key, user, commit_number, kind, cell, agent_id=row.agent_id)
        known = unpack_head(data, id=id_, agent_id=row.agent_id)
        head = pack_head(known.evolve(pinned=pinned))
        sealed = self.cells.pack_checkpoint(key, user, commit_number, kind, head)
        self.db.execute("UPDATE checkpoints SET head = ? WHERE key = ?", (sealed, key))

    def _erase(self, row: AgentRow) -> AgentRow:
        """Removes everything of an agent but its row, which stays as the signed tombstone: id, user and numbers."""
        self.states.release(row.number)
        self.pending.forget(row.number)
        bounds = span(row.number)
        for table in ("records", "checkpoints", "segments", "snapshots", "runs", "inbox"):
            self.db.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", bounds)
        self.db.execute("DELETE FROM ids WHERE key BETWEEN ? AND ?", bounds)
        self.db.execute("DELETE FROM groups WHERE key BETWEEN ? AND ?", bounds)
        head = row.head.evolve(
            agent_type="", floor=row.head.seq, live=0, runs=0, tip_seq=0, tip_id=None, owner=None, origin=None,
            inbox_acknowledged=row.head.inbox_last,
        )  # fmt: skip
        return row.evolve(
            head=head, floor_chain=row.chain, open_states=0, state_seq=0, listing=0, origin_number=0, erased=True,
            run_listing=0,
        )  # fmt: skip

    # --- inbox

    def send(self, agent_id: str, user_id: str, content: object, *, sender: str) -> int:
        """Puts a message into an agent's inbox. It advances nobody, so it needs no ownership."""
        rules.check_owner(Change(agent_id=agent_id, user_id=user_id), self._head(agent_id))
        store = self.rows.store()
        number, store = self._receive(
            Outgoing(to=agent_id, user_id=user_id, content=content, sender=sender),
            store.evolve(commit_number=store.commit_number + 1),
        )
        self.rows.put_store(store)
        return number

    def _receive(self, message: Outgoing, store: StoreRow) -> tuple[int, StoreRow]:
        """Writes a message into an inbox, its agent's first write maybe; its number, and the store's row after it."""
        found = self.rows.agent(message.to)
        change = Change(agent_id=message.to, user_id=message.user_id)
        row = found or self._new_row(change, self.rows.next_agent_number())
        number = row.head.inbox_last + 1
        self.inbox.put(row, Message(number, number, message.sender, message.content, self.now()))
        row = row.evolve(head=row.head.evolve(inbox_last=number), erased=False)
        return number, self.rows.put_agent(row, store, is_new=found is None)

    def _head(self, agent_id: str) -> Head | None:
        found = self.rows.agent(agent_id)
        return None if found is None else found.head

    # --- housekeeping

    def compact(self, number: int) -> None:
        """Erases what deleted checkpoints of this agent left behind."""
        row = self.rows.agent_numbered(number)
        open_states, state_seq = self.states.compact(number)
        row = row.evolve(open_states=open_states, state_seq=state_seq)
        self.rows.put_store(self.rows.put_agent(row, self.rows.store(), is_new=False))
        self.overfull.discard(number)
        self.freed = True

    def compact_one(self) -> None:
        self.compact(next(iter(self.overfull)))

    def with_leftovers(self) -> list[int]:
        """The numbers of the agents in whose segments or open states something deleted remains."""
        found = self.db.execute(
            "SELECT key FROM segments WHERE dead > 0 UNION ALL SELECT key FROM checkpoints WHERE head IS NULL"
        ).fetchall()
        return sorted({agent_of(key) for (key,) in found})


def _check_new_ids(changes: tuple[Change, ...]) -> None:
    """Two changes of one commit can't both make a checkpoint of the same id."""
    ids = [change.checkpoint.id for change in changes if change.checkpoint is not None]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise DuplicateId(f"Two changes of one commit make a checkpoint {id_}", checkpoint_id=id_)


def _newest(records: list[Record]) -> tuple[int, str] | None:
    """The newest checkpoint that these records save and leave ahead. A deleted one counts: its position stays."""
    for record in reversed(records):
        if isinstance(record, CheckpointSaved):
            return record.seq, record.id
        if isinstance(record, Rewind):
            break
    return None


def _nothing(change: Change, row: AgentRow, commit_number: int) -> Committed:
    head = row.head
    return Committed(
        agent_id=change.agent_id, commit_number=commit_number, first_seq=head.seq + 1, last_seq=head.seq,
        epoch=head.epoch,
    )  # fmt: skip

"""What an in-memory store holds, and what a change does to it: planned first, then carried out without fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from holdfast.errors import DuplicateId, InvalidArgument
from holdfast.history import codec, fold
from holdfast.history.checkpoint import Kind
from holdfast.history.records import CheckpointSaved, Record, Rewind, RlmStart, from_row, to_row
from holdfast.storage import rules
from holdfast.storage.heads import digest_of, pack_head, unpack_head
from holdfast.storage.protocol import Change, Committed, ReceiveAgain
from holdfast.storage.rules import Head, Place

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A checkpoint as it is kept. When it was deleted, its head and image are gone and its position is left."""

    id: str
    agent_id: str
    user_id: str
    kind: str
    parent: str | None
    position: int
    commit_number: int
    at: datetime
    pinned: bool
    group_id: str | None
    head: bytes | None
    image: Image | None

    def checkpoint(self) -> Checkpoint:
        """The checkpoint as it is listed; a new one each time, so that nobody shares it."""
        deleted = self.head is None
        return unpack_head(
            codec.pack([self.at]) if self.head is None else self.head,
            id=self.id,
            agent_id=self.agent_id,
            user_id=self.user_id,
            kind=self.kind,
            parent_checkpoint_id=self.parent,
            position=self.position,
            commit_number=self.commit_number,
            pinned=self.pinned,
            deleted=deleted,
        )


@dataclass(kw_only=True, slots=True)
class Agent:
    """Everything of one agent but its checkpoints. Records are kept encoded, so that nobody shares them."""

    head: Head
    records: list[tuple[datetime, bytes]] = field(default_factory=list)  # numbered from head.floor + 1
    pending: list[fold.Begun] = field(default_factory=list)
    inbox: dict[int, tuple[str, bytes, datetime, int]] = field(default_factory=dict)  # with the original number
    operations: int = 0  # how many of this store hold the agent now
    erased: bool = False  # only the head is left, which remembers the user and the numbers, until it is used again

    def history(self, after: int = 0) -> Iterator[Record]:
        start = max(after - self.head.floor, 0)
        for seq, (at, row) in enumerate(islice(self.records, start, None), start=self.head.floor + start + 1):
            yield from_row(codec.decode(row), seq=seq, at=at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What a change will do, worked out before any change of its commit is carried out."""

    change: Change
    head: Head
    operations: int
    deleted: tuple[str, ...]
    records: tuple[Record, ...] = ()
    rows: tuple[bytes, ...] = ()
    kept: Kept | None = None
    committed: Committed


class Ledger:
    """The dicts of an in-memory store and the two halves of a commit. Not thread-safe by itself."""

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.agents: dict[str, Agent] = {}
        self.live: dict[str, Kept] = {}  # in the order of their commits
        self.gone: dict[str, Kept] = {}  # deleted: only the positions
        self.groups: dict[str, list[str]] = {}
        self.commits = 0

    def alive(self, writer: str) -> bool:
        """Nobody else can write here, so every other writer is a dead one."""
        return writer == self.writer

    def kept(self, checkpoint_id: str) -> Kept | None:
        return self.live.get(checkpoint_id) or self.gone.get(checkpoint_id)

    def commit(self, changes: tuple[Change, ...], now: datetime) -> list[Committed]:
        """Everything or nothing: what can be refused is refused by a plan, before the first step is carried out."""
        rules.check_distinct(changes)
        number = self.commits + 1
        steps = [self._plan(change, number, now) for change in changes]
        _check_new_ids(steps)
        rules.check_recipients(changes, self._head)
        messages = [(message, codec.encode(message.content, path="content")) for c in changes for message in c.send]
        for step in steps:
            self._carry_out(step, now)
        for message, body in messages:
            self.receive(message.to, message.user_id, message.sender, body, now)
        self.commits = number
        return [step.committed for step in steps]

    def receive(self, agent_id: str, user_id: str, sender: str, body: bytes, now: datetime) -> int:
        """Puts an encoded message into the agent's inbox, the agent's first write maybe."""
        agent = self.agents.get(agent_id)
        rules.check_owner(Change(agent_id=agent_id, user_id=user_id), agent.head if agent else None)
        if agent is None:
            agent = self.agents[agent_id] = Agent(head=Head(user_id=user_id))
        agent.erased = False
        number = agent.head.inbox_last + 1
        agent.inbox[number] = (sender, body, now, number)
        agent.head = agent.head.evolve(inbox_last=number)
        return number

    def _head(self, agent_id: str) -> Head | None:
        agent = self.agents.get(agent_id)
        return None if agent is None else agent.head

    def _plan(self, change: Change, number: int, now: datetime) -> Step:
        agent = self.agents.get(change.agent_id)
        rules.check_owner(change, agent.head if agent else None)
        before = agent.head if agent else Head(user_id=change.user_id)
        if change.erase:
            return self._plan_erasure(change, before, number)
        operations, head = claimed(change, before, agent.operations if agent else 0, self.writer, self.alive)
        rules.check_position(change, before)
        deleted = self._to_delete(change)
        digest = self._digest(change)
        records = rules.records_of(change, head, place_of=self._place_of(change), deleted=deleted, digest=digest)
        rows = tuple(codec.pack(to_row(record)) for record in records)
        kept = _keep(change, head, records[-1].seq, number, now) if change.checkpoint else None
        head = self._advance(change, head, records, len(deleted), number)
        return Step(
            change=change,
            head=head,
            operations=operations,
            deleted=deleted,
            records=tuple(records),
            rows=rows,
            kept=kept,
            committed=Committed(
                agent_id=change.agent_id,
                commit_number=number,
                first_seq=before.seq + 1,
                last_seq=head.seq,
                epoch=head.epoch,
                checkpoint=kept.checkpoint() if kept else None,
                deleted=len(deleted),
            ),
        )

    def _plan_erasure(self, change: Change, head: Head, number: int) -> Step:
        """The head that stays as the tombstone: the user, and the numbers that nothing may be given again."""
        if change.advances:
            raise InvalidArgument(
                f"A change can't erase agent {change.agent_id} and advance it", agent_id=change.agent_id
            )
        deleted = tuple(kept.id for kept in self.live.values() if kept.agent_id == change.agent_id)
        tombstone = Head(
            user_id=head.user_id,
            seq=head.seq,
            floor=head.seq,
            commit_number=number,
            epoch=head.epoch,
            inbox_last=head.inbox_last,
            inbox_acknowledged=head.inbox_last,
        )
        committed = Committed(
            agent_id=change.agent_id,
            commit_number=number,
            first_seq=head.seq + 1,
            last_seq=head.seq,
            epoch=head.epoch,
            deleted=len(deleted),
        )
        return Step(change=change, head=tombstone, operations=0, deleted=deleted, committed=committed)

    def _to_delete(self, change: Change) -> tuple[str, ...]:
        """The ids that are there to delete: live, and this agent's."""
        found = (self.live.get(id_) for id_ in dict.fromkeys(change.delete))
        return tuple(kept.id for kept in found if kept is not None and kept.agent_id == change.agent_id)

    def _digest(self, change: Change) -> bytes:
        """The digest of the change's checkpoint, whose id must be new, or replaced by this very change."""
        checkpoint = change.checkpoint
        if checkpoint is None:
            return b""
        if change.image is None:
            raise InvalidArgument(f"Checkpoint {checkpoint.id} comes without its image", checkpoint_id=checkpoint.id)
        there = self.kept(checkpoint.id)
        if there is not None and (
            there.agent_id != change.agent_id or (there.head is not None and there.id not in change.delete)
        ):
            raise _duplicate(checkpoint.id)
        return digest_of(checkpoint, change.image)

    def _place_of(self, change: Change) -> Callable[[str], Place | None]:
        """Where checkpoints stand, as far as the change's user may know."""

        def place_of(checkpoint_id: str) -> Place | None:
            kept = self.kept(checkpoint_id)
            known = kept is not None and kept.user_id == change.user_id
            return Place(kept.agent_id, kept.position) if kept is not None and known else None

        return place_of

    def _advance(self, change: Change, head: Head, records: list[Record], deleted: int, number: int) -> Head:
        origin = rules.origin_of(change, self._place_of(change))
        if origin is not None and head.seq > head.floor:
            raise DuplicateId(
                f"Agent {change.agent_id} has a history already, only a new agent can be a fork",
                agent_id=change.agent_id,
            )
        tip_seq, tip_id = self._tip(change.agent_id, head, records)
        named = change.agent_type or (change.checkpoint.agent_type if change.checkpoint else "")
        return head.evolve(
            agent_type=named or head.agent_type,
            seq=head.seq + len(records),
            commit_number=number,
            tip_seq=tip_seq,
            tip_id=tip_id,
            live=head.live + (change.checkpoint is not None) - deleted,
            runs=head.runs + sum(isinstance(record, RlmStart) for record in records),
            origin=origin or head.origin,
            inbox_acknowledged=max(head.inbox_acknowledged, min(change.acknowledge or 0, head.inbox_last)),
        )

    def _tip(self, agent_id: str, head: Head, records: list[Record]) -> tuple[int, str | None]:
        """The newest checkpoint of the live path. One that was deleted still is: its position stays."""
        if not any(isinstance(record, CheckpointSaved | Rewind) for record in records):
            return head.tip_seq, head.tip_id
        agent = self.agents.get(agent_id)
        path = records
        if any(isinstance(record, Rewind) for record in records) and agent is not None:
            path = fold.live_path([*agent.history(), *records])
        saved = [(record.seq, record.id) for record in path if isinstance(record, CheckpointSaved)]
        return saved[-1] if saved else (0, None)

    def _carry_out(self, step: Step, now: datetime) -> None:
        agent_id = step.change.agent_id
        agent = self.agents.get(agent_id) or Agent(head=step.head)
        for checkpoint_id in step.deleted:
            self._delete_checkpoint(checkpoint_id)
        if step.change.erase:
            agent = Agent(head=step.head, erased=True)
            self.gone = {id_: kept for id_, kept in self.gone.items() if kept.agent_id != agent_id}
        if step.kept is not None:
            self._keep_checkpoint(step.kept)
        for checkpoint_id, pinned in step.change.pin.items():
            kept = self.live.get(checkpoint_id)
            if kept is not None and kept.agent_id == agent_id:
                self.live[checkpoint_id] = replace(kept, pinned=pinned)
        agent.head = step.head
        agent.operations = step.operations
        agent.records.extend(zip((record.at or now for record in step.records), step.rows, strict=True))
        if step.change.receive_again is not None:
            self._receive_again(agent, step.change.receive_again)
        kept_from = min(agent.head.inbox_acknowledged, self._needed_by_groups(agent_id))
        agent.inbox = {n: message for n, message in agent.inbox.items() if n > kept_from}
        agent.pending = _pending_after(agent, step.records)
        if step.change.advances:
            agent.erased = False
        if step.change.advances or agent_id in self.agents:  # an unknown agent with nothing to delete stays unknown
            self.agents[agent_id] = agent

    def _receive_again(self, agent: Agent, again: ReceiveAgain) -> None:
        last = agent.head.inbox_last
        messages = [(number, sender, original) for number, (sender, _, _, original) in agent.inbox.items()]
        for offset, number in enumerate(rules.received_again(messages, again), start=1):
            agent.inbox[last + offset] = agent.inbox[number]
        agent.head = agent.head.evolve(inbox_acknowledged=last, inbox_last=max(agent.inbox, default=last))

    def _needed_by_groups(self, agent_id: str) -> int | float:
        """Messages after this number are kept even when they were acknowledged: a group may bring them back."""
        groups = (kept for kept in self.live.values() if kept.agent_id == agent_id and kept.group_id)
        return min(((kept.checkpoint().inbox or (0, 0))[0] for kept in groups), default=inf)

    def _delete_checkpoint(self, checkpoint_id: str) -> None:
        kept = self.live.pop(checkpoint_id)
        self.gone[checkpoint_id] = replace(kept, head=None, image=None, pinned=False)
        members = self.groups.get(kept.group_id or "", [])
        if checkpoint_id in members:
            members.remove(checkpoint_id)

    def _keep_checkpoint(self, kept: Kept) -> None:
        self.gone.pop(kept.id, None)
        self.live[kept.id] = kept
        if kept.group_id is not None:
            self.groups.setdefault(kept.group_id, []).append(kept.id)


def claimed(change: Change, head: Head, operations: int, writer: str, alive: Callable[[str], bool]) -> tuple[int, Head]:
    """How many operations of this writer hold the agent after the change, and its head with the epoch and owner."""
    if not change.advances:
        return operations, head
    others = operations if head.owner == writer else 0
    if change.epoch is not None:
        others -= 1  # the one that this change continues
    epoch, owner = rules.claim(change, head, writer=writer, joined=others > 0, alive=alive)
    return others + change.hold, head.evolve(epoch=epoch, owner=owner)


def _keep(change: Change, head: Head, seq: int, number: int, now: datetime) -> Kept | None:
    if change.checkpoint is None:
        return None
    return Kept(
        id=change.checkpoint.id,
        agent_id=change.agent_id,
        user_id=change.user_id,
        kind=str(Kind.of(change.checkpoint.kind)),
        parent=rules.parent_of(change, head),
        position=seq,
        commit_number=number,
        at=now,
        pinned=change.checkpoint.pinned,
        group_id=change.checkpoint.group_id,
        head=pack_head(rules.with_inbox(change.checkpoint, head)),
        image=change.image,
    )


def _pending_after(agent: Agent, records: tuple[Record, ...]) -> list[fold.Begun]:
    """What is pending after these newest records: a rewind may bring back what had ended after its place."""
    if any(isinstance(record, Rewind) for record in records):
        return fold.pending(agent.history())
    begun = {(one.what, one.name): one for one in agent.pending}
    for record in records:
        if one := fold.begins(record):
            begun[one.what, one.name] = one
        elif ended := fold.ends(record):
            begun.pop(ended, None)
    return list(begun.values())


def _check_new_ids(steps: list[Step]) -> None:
    """Two changes of one commit can't both make a checkpoint of the same id."""
    seen: set[str] = set()
    for step in steps:
        if step.kept is not None:
            if step.kept.id in seen:
                raise _duplicate(step.kept.id)
            seen.add(step.kept.id)


def _duplicate(checkpoint_id: str) -> DuplicateId:
    return DuplicateId(f"There is a checkpoint {checkpoint_id} already", checkpoint_id=checkpoint_id)

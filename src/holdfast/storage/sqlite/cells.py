"""The sealed cells of a store file: what each holds, and the place that its MAC binds it to."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

from holdfast.errors import Corrupt
from holdfast.history import codec
from holdfast.history.checkpoint import Kind
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, Record, from_row, to_row
from holdfast.storage.authenticity import HASH_BYTES, MAC_BYTES, SEAL_BYTES, Ring, unkeyed_hash
from holdfast.storage.ids import id_from, stored_id
from holdfast.storage.rules import Head
from holdfast.storage.sqlite.headtree import Heads

KINDS: Final = tuple(Kind)
KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS, start=1)}
"""Kinds as they are stored: new ones go last."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class AgentRow(NamedTuple):
    """An agent's row: its head, and where its chains of records and states end."""

    number: int
    user: int
    agent_id: str
    head: Head
    chain: bytes  # the MAC of its last record: the next one continues it
    floor_chain: bytes = b""  # the chain's value at head.floor, where erased records ended
    open_states: int = 0  # states after the last segment
    state_seq: int = 0  # the position of the newest state, deleted or not
    listing: int = 0  # `LISTING_SUM` of its live checkpoints
    origin_number: int = 0  # the number of the agent that this one was forked from
    erased: bool = False
    run_listing: int = 0  # the sum over its rows in the list of runs

    def evolve(self, **changes: Any) -> Self:
        return self._replace(**changes)


class StoreRow(NamedTuple):
    """Agent 0's row: where the store as a whole ends."""

    chain: bytes
    seq: int = 0
    commit_number: int = 0
    heads: Heads = Heads()  # what accounts for every agent's row: one put back from an older file is not in it
    pending: int = 0  # the sum over the list of what is pending

    def evolve(self, **changes: Any) -> Self:
        return self._replace(**changes)


class Cells:
    """Packs and unpacks every kind of cell of one store under its key ring."""

    def __init__(self, ring: Ring, store_id: bytes) -> None:
        self.ring = ring
        self.store_id = store_id

    # --- agents

    def first_chain(self, agent_id: str, user_id: str) -> bytes:
        """Where an agent's chain of MACs begins: bound to the store, the agent and its user."""
        return unkeyed_hash(codec.pack([self.store_id, agent_id, user_id]))

    def pack_agent(self, row: AgentRow) -> bytes:
        head = row.head
        values = [
            row.chain, head.agent_type, head.seq, head.commit_number, head.epoch, head.owner, head.tip_seq, head.tip_id,
            head.live, row.open_states, row.state_seq, row.listing, head.runs, head.inbox_last,
            head.inbox_acknowledged, head.floor, row.floor_chain, head.origin and list(head.origin), row.origin_number,
            row.erased, _sum(row.run_listing),
        ]  # fmt: skip
        while len(values) > 12 and not values[-1]:
            values.pop()
        return self.ring.seal(
            b"agent", self._agent_place(row.number, row.user, row.agent_id, row.head.user_id), codec.pack(values)
        )

    def unpack_agent(self, number: int, user: int, agent_id: str, user_id: str, cell: bytes) -> AgentRow:
        data = self._unseal(b"agent", self._agent_place(number, user, agent_id, user_id), cell, "agent", agent_id)
        values = codec.decode(data)
        values += [0, 0, 0, 0, b"", None, 0, False, b""][len(values) - 12 :]
        origin = values[17]
        head = Head(
            user_id=user_id, agent_type=values[1], seq=values[2], commit_number=values[3], epoch=values[4],
            owner=values[5], tip_seq=values[6], tip_id=values[7], live=values[8], runs=values[12],
            inbox_last=values[13], inbox_acknowledged=values[14], floor=values[15],
            origin=(origin[0], origin[1]) if origin else None,
        )  # fmt: skip
        return AgentRow(
            number=number, user=user, agent_id=agent_id, head=head, chain=values[0], floor_chain=values[16],
            open_states=values[9], state_seq=values[10], listing=values[11], origin_number=values[18],
            erased=values[19], run_listing=int.from_bytes(values[20], "big"),
        )  # fmt: skip

    def check_agent(self, number: int, user: int, agent_id: str, user_id: str, cell: bytes) -> None:
        """Raises Corrupt unless it is authentic; among many agents, to decode each takes longer than that."""
        self._unseal(b"agent", self._agent_place(number, user, agent_id, user_id), cell, "agent", agent_id)

    def _agent_place(self, number: int, user: int, agent_id: str, user_id: str) -> bytes:
        return codec.pack([self.store_id, number, user, agent_id, user_id])

    def pack_store(self, row: StoreRow) -> bytes:
        values = [row.chain, row.seq, row.commit_number, row.heads.depth, row.heads.roots, _sum(row.pending)]
        return self.ring.seal(b"store", self.store_id, codec.pack(values))

    def unpack_store(self, cell: bytes) -> StoreRow:
        data = self._unseal(b"store", self.store_id, cell, "store head", None)
        chain, seq, commit_number, depth, roots, pending = codec.decode(data)
        return StoreRow(
            chain=chain, seq=seq, commit_number=commit_number, heads=Heads(depth, roots),
            pending=int.from_bytes(pending, "big"),
        )  # fmt: skip

    @staticmethod
    def mac_of(cell: bytes) -> bytes:
        """The MAC of an agent's row: its leaf in the tree of heads."""
        return cell[1:SEAL_BYTES]

    # --- records

    def pack_record(
        self, key: int, chain: bytes, record: Record, *, commit_number: int, at: datetime
    ) -> tuple[bytes, bytes]:
        """The cell of a record and the chain's next value."""
        data = codec.pack([commit_number, (at - _EPOCH) // _MICROSECOND, _compact(to_row(record))])
        hashed = unkeyed_hash(data)
        mac = self.ring.mac(b"record", self._record_place(key, chain), hashed)
        return self.ring.current.to_bytes(1, "big") + mac + hashed + data, mac

    def unpack_record(self, key: int, chain: bytes, cell: bytes, *, agent_id: str, seq: int) -> tuple[Record, int]:
        """The record and its commit number; `chain` is the MAC of the record before."""
        hashed, data = cell[SEAL_BYTES : SEAL_BYTES + HASH_BYTES], cell[SEAL_BYTES + HASH_BYTES :]
        ok = hmac.compare_digest(unkeyed_hash(data), hashed)
        if ok and self.ring:
            ok = cell[0] in self.ring and hmac.compare_digest(
                self.ring.mac(b"record", self._record_place(key, chain), hashed, number=cell[0]), cell[1:SEAL_BYTES]
            )
        if not ok:
            raise Corrupt(f"Record {seq} of agent {agent_id} fails its authentication", agent_id=agent_id, seq=seq)
        commit_number, at, row = codec.decode(data)
        return from_row(_expanded(row), seq=seq, at=_EPOCH + timedelta(microseconds=at)), commit_number

    @staticmethod
    def peek_record(cell: bytes, *, seq: int) -> Record | None:
        """The record in a cell whose hash holds, whatever its place in a chain; None when the hash does not."""
        hashed, data = cell[SEAL_BYTES : SEAL_BYTES + HASH_BYTES], cell[SEAL_BYTES + HASH_BYTES :]
        if unkeyed_hash(data) != hashed:
            return None
        _, at, row = codec.decode(data)
        return from_row(_expanded(row), seq=seq, at=_EPOCH + timedelta(microseconds=at))

    def rechain_record(self, key: int, chain: bytes, cell: bytes) -> tuple[bytes, bytes]:
        """A record's cell in another chain, and that chain's next value."""
        mac = self.ring.mac(b"record", self._record_place(key, chain), cell[SEAL_BYTES : SEAL_BYTES + HASH_BYTES])
        return self.ring.current.to_bytes(1, "big") + mac + cell[SEAL_BYTES:], mac

    @staticmethod
    def chain_of(cell: bytes) -> bytes:
        return cell[1:SEAL_BYTES]

    def _record_place(self, key: int, chain: bytes) -> bytes:
        return key.to_bytes(8, "big") + chain

    # --- checkpoints and their states

    def pack_checkpoint(self, key: int, user: int, commit_number: int, kind: int, head: bytes) -> bytes:
        return self.ring.seal(b"checkpoint", self._checkpoint_place(key, user, commit_number, kind), head)

    def unpack_checkpoint(
        self, key: int, user: int, commit_number: int, kind: int, cell: bytes, *, agent_id: str
    ) -> bytes:
        place = self._checkpoint_place(key, user, commit_number, kind)
        return self._unseal(b"checkpoint", place, cell, "checkpoint", agent_id, key)

    def _checkpoint_place(self, key: int, user: int, commit_number: int, kind: int) -> bytes:
        return self.store_id + b"".join(number.to_bytes(8, "big") for number in (key, user, commit_number, kind))

    def pack_bytes(self, domain: bytes, key: int, base: int | None, data: bytes) -> bytes:
        """A state, a segment or a snapshot, bound to its key and to what it builds on."""
        return self.ring.seal(domain, self._place(key, base), data)

    def unpack_bytes(
        self, domain: bytes, key: int, base: int | None, cell: bytes, *, agent_id: str | None = None
    ) -> bytes:
        return self._unseal(domain, self._place(key, base), cell, domain.decode(), agent_id, key)

    def pack_message(self, key: int, data: bytes) -> bytes:
        """An inbox message. Nothing else says what it must be, so it has an unkeyed hash as records do."""
        return self.pack_bytes(b"inbox", key, None, unkeyed_hash(data) + data)

    def unpack_message(self, key: int, cell: bytes, *, agent_id: str | None = None) -> bytes:
        body = self.unpack_bytes(b"inbox", key, None, cell, agent_id=agent_id)
        hashed, data = body[:HASH_BYTES], body[HASH_BYTES:]
        if unkeyed_hash(data) != hashed:
            seq = key & 0xFFFFFFFF
            raise Corrupt(f"Message {seq} of agent {agent_id} is not what was sent", agent_id=agent_id, seq=seq)
        return data

    def _place(self, key: int, base: int | None) -> bytes:
        return self.store_id + key.to_bytes(8, "big") + (b"" if base is None else base.to_bytes(8, "big"))

    def _unseal(
        self, domain: bytes, place: bytes, cell: bytes, what: str, agent_id: str | None, key: int | None = None
    ) -> bytes:
        # A damaged page can hold any type where a blob should be.
        data = self.ring.unseal(domain, place, cell) if isinstance(cell, bytes) else None  # type: ignore[redundant-expr]
        if data is None:
            seq = None if key is None else key & 0xFFFFFFFF
            where = "" if agent_id is None else f" of agent {agent_id}"
            at = "" if seq is None else f" at position {seq}"
            raise Corrupt(f"The {what}{where}{at} fails its authentication", agent_id=agent_id, seq=seq)
        return data


def _sum(number: int) -> bytes:
    """A sum of MACs or hashes as it is packed: most are too large for an integer there."""
    return number.to_bytes(MAC_BYTES, "big") if number else b""


def _compact(row: list[Any]) -> list[Any]:
    """Most records of a quiet agent are those of its checkpoints: their ids as bytes and their kind as a number."""
    if row[0] == CheckpointSaved.number:
        _, common, id_, kind, parent, digest = row
        return [CheckpointSaved.number, common, stored_id(id_), KIND_NUMBERS[Kind.of(kind)],
                None if parent is None else stored_id(parent), digest]  # fmt: skip
    if row[0] == CheckpointDeleted.number:
        return [row[0], row[1], stored_id(row[2])]
    return row


def _expanded(row: list[Any]) -> list[Any]:
    if row[0] == CheckpointSaved.number:
        number, common, id_, kind, parent, digest = row
        return [number, common, id_from(id_), str(KINDS[kind - 1]), None if parent is None else id_from(parent), digest]
    if row[0] == CheckpointDeleted.number:
        return [row[0], row[1], id_from(row[2])]
    return row

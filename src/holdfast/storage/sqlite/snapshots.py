"""Interpreter snapshots, kept apart from their records: each a patch on an earlier one of its run, at most 6 away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Corrupt
from holdfast.history import patch
from holdfast.history.records import Record, RlmToolCall
from holdfast.storage.authenticity import unkeyed_hash
from holdfast.storage.sqlite.schema import agent_of, seq_of, span

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import Cells
    from holdfast.storage.sqlite.database import Database


class Snapshots:
    """Reads and writes snapshots through one connection; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells) -> None:
        self.db = db
        self.cells = cells

    def put(self, key: int, record: Record) -> Record:
        """Keeps the record's snapshot, if it has one, and returns the record with its hash in its stead."""
        if not isinstance(record, RlmToolCall) or record.snapshot is None:
            return record
        run = record.tool_call_id
        number = self._count(key, run)
        base_number = patch.skip_base(number)
        base = None if base_number is None else self._key_of(key, run, base_number)
        try:
            base_bytes = None if base is None else self.load(base)
        except Corrupt:
            base, base_bytes = None, None  # a damaged one must not keep the run from going on
        body = self.cells.pack_bytes(b"snapshot", key, base, patch.encode(record.snapshot, base_bytes))
        self.db.execute(
            "INSERT INTO snapshots (key, run, number, base, body) VALUES (?, ?, ?, ?, ?)",
            (key, run, number, base, body),
        )
        return record.evolve(snapshot=unkeyed_hash(record.snapshot))

    def filled(self, key: int, record: Record) -> Record:
        """The record as it was put; its snapshot is None when it is no longer kept."""
        if not isinstance(record, RlmToolCall) or record.snapshot is None:
            return record
        try:
            snapshot = self.load(key)
        except KeyError:
            return record.evolve(snapshot=None)
        if unkeyed_hash(snapshot) != record.snapshot:
            raise Corrupt(f"The snapshot of record {record.seq} is not the one that was taken there", seq=record.seq)
        return record.evolve(snapshot=snapshot)

    def load(self, key: int) -> bytes:
        """The snapshot at this key. Raises KeyError when there is none, Corrupt when it or its base is damaged."""
        patches: list[bytes] = []
        at: int | None = key
        while at is not None:
            row = self.db.execute("SELECT base, body FROM snapshots WHERE key = ?", (at,)).fetchone()
            if row is None:
                if not patches:
                    raise KeyError(key)
                raise Corrupt(f"The base of snapshot {seq_of(key)} is missing", seq=seq_of(key))
            base, cell = row
            patches.append(self.cells.unpack_bytes(b"snapshot", at, base, cell))
            at = base
        data: bytes | None = None
        for one in reversed(patches):
            data = patch.decode(one, data)
        return data or b""

    def _count(self, key: int, run: str) -> int:
        """The number of the run's next snapshot."""
        row = self.db.execute(
            "SELECT number FROM snapshots WHERE key BETWEEN ? AND ? AND run = ? ORDER BY key DESC LIMIT 1",
            (span(agent_of(key))[0], key, run),
        ).fetchone()
        return 0 if row is None else row[0] + 1

    def _key_of(self, key: int, run: str, number: int) -> int | None:
        row = self.db.execute(
            "SELECT key FROM snapshots WHERE key BETWEEN ? AND ? AND run = ? AND number = ? ORDER BY key DESC LIMIT 1",
            (span(agent_of(key))[0], key, run, number),
        ).fetchone()
        return None if row is None else row[0]

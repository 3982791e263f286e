"""Interpreter snapshots, kept apart from their records: each a patch on an earlier one of its line, at most 6 away."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt
from holdfast.history import patch
from holdfast.history.records import Record, RlmComplete, RlmToolCall, snapshot_of
from holdfast.storage.authenticity import unkeyed_hash
from holdfast.storage.sqlite.rows import text
from holdfast.storage.sqlite.schema import agent_of, key_of, seq_of, span

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import Cells
    from holdfast.storage.sqlite.database import Database

log = logging.getLogger("holdfast")


class Snapshots:
    """Reads and writes snapshots through one connection; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells) -> None:
        self.db = db
        self.cells = cells

    def put(self, key: int, record: Record) -> Record:
        """Keeps the record's snapshot, if it has one, and returns the record with its hash in its stead."""
        if not isinstance(record, RlmToolCall | RlmComplete) or record.snapshot is None:
            return record
        if len(record.snapshot) > patch.MAX_BYTES:  # without it, the run is replayed from an earlier one
            log.info("A snapshot of %s bytes is not kept: %s are the most", len(record.snapshot), patch.MAX_BYTES)
            return record.evolve(snapshot=None)
        run = _line(record)
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
        hashed = snapshot_of(record)
        if hashed is None:
            return record
        try:
            snapshot = self.load(key)
        except KeyError:
            return record.evolve(snapshot=None)
        if unkeyed_hash(snapshot) != hashed:
            raise Corrupt(f"The snapshot of record {record.seq} is not the one that was taken there", seq=record.seq)
        return record.evolve(snapshot=snapshot)

    def marked(self, agent: int, records: list[Record]) -> list[Record]:
        """The agent's records with b"" for each snapshot that is kept, without reading any."""
        places = [record.seq for record in records if snapshot_of(record) is not None]
        if not places:
            return records
        bounds = key_of(agent, places[0]), key_of(agent, places[-1])
        kept = {
            seq_of(key) for (key,) in self.db.execute("SELECT key FROM snapshots WHERE key BETWEEN ? AND ?", bounds)
        }
        return [
            record if snapshot_of(record) is None else record.evolve(snapshot=b"" if record.seq in kept else None)
            for record in records
        ]

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
        while patches:
            data = patch.decode(patches.pop(), data)
        return data or b""

    def _count(self, key: int, run: str | bytes) -> int:
        """The number of the line's next snapshot."""
        row = self.db.execute(
            "SELECT number FROM snapshots WHERE key BETWEEN ? AND ? AND run = ? ORDER BY key DESC LIMIT 1",
            (span(agent_of(key))[0], key, run),
        ).fetchone()
        return 0 if row is None else row[0] + 1

    def _key_of(self, key: int, run: str | bytes, number: int) -> int | None:
        row = self.db.execute(
            "SELECT key FROM snapshots WHERE key BETWEEN ? AND ? AND run = ? AND number = ? ORDER BY key DESC LIMIT 1",
            (span(agent_of(key))[0], key, run, number),
        ).fetchone()
        return None if row is None else row[0]


def _line(record: RlmToolCall | RlmComplete) -> str | bytes:
    """The snapshots that are likely to resemble this one: those of its session, or else of its run."""
    return text(record.tool_call_id if record.session is None else f"\x1f{record.session}")

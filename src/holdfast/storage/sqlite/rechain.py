"""One history's chain of MACs made anew under another ring, past what its hashes do not confirm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.storage.authenticity import Ring
from holdfast.storage.sqlite.agentcheck import light
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.chain import missing
from holdfast.storage.sqlite.findings import SENSELESS, Findings
from holdfast.storage.sqlite.schema import seq_of, span

if TYPE_CHECKING:
    from holdfast.history.records import Record
    from holdfast.storage.sqlite.database import Database


@dataclass(slots=True)
class Rechained:
    """What came of it: the records that count, each with its commit number, and where the chain ends."""

    chain: bytes
    seq: int
    records: list[tuple[Record, int]] = field(default_factory=list)

    @property
    def commit_number(self) -> int:
        return max((number for _, number in self.records), default=0)


def rechain(
    db: Database, cells: Cells, number: int, agent_id: str, *, floor: int, chain: bytes, findings: Findings
) -> Rechained:
    """Seals each record that its hash confirms behind the one before.

    A damaged record stays as it is: the next one is chained to the value that is stored in it, as a reader will do. A
    record behind a missing one has nothing to be chained to, so it stays as it is, too.
    """
    bare = Cells(Ring({}), cells.store_id)
    done = Rechained(chain=chain, seq=floor)
    before: bytes | None = chain
    for (key,) in db.execute("SELECT key FROM records WHERE key BETWEEN ? AND ? ORDER BY key", span(number)).fetchall():
        seq = seq_of(key)
        reason = ""
        if seq <= floor:
            findings.add("record", str(seq), "it was erased, but is there again", agent_id=agent_id, seq=seq)
            continue
        if seq != done.seq + 1:
            reason = missing(done.seq + 1, seq - 1)
            findings.add("record", str(done.seq + 1), reason, agent_id=agent_id, seq=done.seq + 1)
            before = None
        done.seq = seq
        cell: bytes | None = None
        try:
            [(cell,)] = db.execute("SELECT body FROM records WHERE key = ?", (key,)).fetchall()
            found = bare.unpack_record(key, b"", cell or b"", agent_id=agent_id, seq=seq)
            reason = "" if before is not None else "it can't be authenticated without the record before it"
        except HoldfastError as error:
            reason = error.message
        except SENSELESS as error:
            reason = f"it can't be read: {error}"
        if reason or before is None or cell is None:
            findings.add("record", str(seq), reason, agent_id=agent_id, seq=seq)
            before = cells.chain_of(cell) if isinstance(cell, bytes) else None
        else:
            body, before = cells.rechain_record(key, before, cell)
            db.execute("UPDATE records SET body = ? WHERE key = ?", (body, key))
            done.records.append((light(found[0]), found[1]))
    done.chain = before or b""
    return done

"""An agent's chain of records walked from its floor to its end, across missing and damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError
from holdfast.storage.sqlite.findings import SENSELESS
from holdfast.storage.sqlite.schema import seq_of, span

if TYPE_CHECKING:
    from holdfast.history.records import Record
    from holdfast.storage.sqlite.cells import Cells
    from holdfast.storage.sqlite.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """What an authenticated head says of its chain."""

    floor: int
    floor_chain: bytes
    seq: int
    chain: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One record, or why there is none that counts at this position (and up to `last`)."""

    seq: int
    last: int
    record: Record | None = None
    commit_number: int = 0
    reason: str = ""


# A damaged page can make text of a blob, which might not even be read: it counts as nothing.
_QUERY: Final = (
    "SELECT key, CASE typeof(body) WHEN 'blob' THEN body END FROM records WHERE key BETWEEN ? AND ? ORDER BY key"
)


def links(
    db: Database, cells: Cells, number: int, agent_id: str, ends: Ends | None, *, first_chain: bytes
) -> Iterator[Link]:
    """Every record in order. Behind a damaged one the chain goes on with the value that this one stored."""
    chain = None if ends is None else ends.floor_chain
    expected = None if ends is None else ends.floor + 1
    for key, cell in db.execute(_QUERY, span(number)):
        seq = seq_of(key)
        if ends is None and seq == 1:
            chain = first_chain
        if ends is not None and not ends.floor < seq <= ends.seq:
            yield Link(seq=seq, last=seq, reason="it lies outside of what the agent's head accounts for")
            continue
        if expected is not None and seq > expected:
            yield Link(seq=expected, last=seq - 1, reason=missing(expected, seq - 1))
            chain = None
        expected = seq + 1
        yield _opened(cells, key, chain, cell, agent_id)
        chain = cells.chain_of(cell) if isinstance(cell, bytes) else None
    if ends is None or expected is None:
        return
    if expected <= ends.seq:
        yield Link(seq=expected, last=ends.seq, reason=missing(expected, ends.seq))
    elif chain != ends.chain:
        yield Link(seq=ends.seq, last=ends.seq, reason="the history does not end as the agent's head says")


def missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"the records from {first} to {last} are missing"


def _opened(cells: Cells, key: int, chain: bytes | None, cell: bytes, agent_id: str) -> Link:
    seq = seq_of(key)
    if chain is None and cells.ring:
        return Link(seq=seq, last=seq, reason="it can't be authenticated without the record before it")
    try:
        record, commit_number = cells.unpack_record(key, chain or b"", cell, agent_id=agent_id, seq=seq)
    except HoldfastError as error:
        return Link(seq=seq, last=seq, reason=error.message)
    except SENSELESS as error:
        return Link(seq=seq, last=seq, reason=f"it can't be read: {error}")
    return Link(seq=seq, last=seq, record=record, commit_number=commit_number)

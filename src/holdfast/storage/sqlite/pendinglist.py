"""The list of what was begun and not ended: a row for each, and a sum of them all in the store's row.

A row that is there is checked against its record; the sum proves that none is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import Corrupt
from holdfast.history.fold import Begun, begins, ends, pending
from holdfast.storage.authenticity import MAC_BYTES
from holdfast.storage.sqlite.rows import text, untext
from holdfast.storage.sqlite.schema import key_of, span

if TYPE_CHECKING:
    from holdfast.history.records import Record
    from holdfast.storage.sqlite.cells import StoreRow
    from holdfast.storage.sqlite.database import Database

_SUM: Final = 1 << 8 * MAC_BYTES
_ROWS: Final = "SELECT key, what, name FROM pending"

Row = tuple[int, str, str | bytes]


class PendingList:
    """Writes the rows through one connection and gathers what a commit changes in their sum."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._change = 0

    def begin(self) -> None:
        """Forgets what a commit that came to nothing had gathered."""
        self._change = 0

    def settled(self, store: StoreRow) -> StoreRow:
        """The store's row with the sum as it is after this commit."""
        change, self._change = self._change, 0
        return store.evolve(pending=(store.pending + change) % _SUM) if change else store

    def follow(self, agent: int, records: Iterable[Record]) -> None:
        """Takes in what these new records begin and end."""
        for record in records:
            begun = begins(record)
            ended = (begun.what, begun.name) if begun else ends(record)  # what begins again is pending once
            if ended:
                self._remove("AND what = ? AND name = ?", (*span(agent), ended[0], text(ended[1])))
            if begun:
                self._put(agent, begun)

    def any(self, agent: int) -> bool:
        return self.db.execute(f"{_ROWS} WHERE key BETWEEN ? AND ?", span(agent)).fetchone() is not None

    def replace(self, agent: int, history: Iterable[Record]) -> None:
        """Makes the agent's rows anew: a rewind can bring back what had ended after the place it goes to."""
        self.forget(agent)
        for begun in pending(history):
            self._put(agent, begun)

    def forget(self, agent: int) -> None:
        self._remove("", span(agent))

    def _put(self, agent: int, begun: Begun) -> None:
        row = (key_of(agent, begun.seq), begun.what, text(begun.name))
        self.db.execute("INSERT INTO pending (key, what, name) VALUES (?, ?, ?)", row)
        self._change += _share(row)

    def _remove(self, among: str, arguments: tuple[Any, ...]) -> None:
        removed = self.db.execute(
            f"DELETE FROM pending WHERE key BETWEEN ? AND ? {among} RETURNING key, what, name", arguments
        ).fetchall()
        self._change -= sum([_share(row) for row in removed])


def pending_rows(db: Database, store: StoreRow) -> list[tuple[int, str, str]]:
    """Key, what and name of everything pending, oldest first for each agent. Raises Corrupt unless it is all there."""
    rows: list[Row] = db.execute(f"{_ROWS} ORDER BY key").fetchall()
    if sum_of(rows) != store.pending:
        raise Corrupt("The list of what is pending is not what was put into it")
    return [(key, what, untext(name)) for key, what, name in rows]


def sum_of(rows: Iterable[Row]) -> int:
    """What these rows add up to; damaged ones may hold anything."""
    try:
        return sum([_share(row) for row in rows]) % _SUM
    except (TypeError, AttributeError, OverflowError):
        return -1


def _share(row: Row) -> int:
    key, what, name = row
    named = name.encode() if isinstance(name, str) else b"\0" + name
    hasher = blake2b(key.to_bytes(8, "big"), digest_size=MAC_BYTES, person=b"pending")
    hasher.update(what.encode() + b"\0" + named)
    return int.from_bytes(hasher.digest(), "big")

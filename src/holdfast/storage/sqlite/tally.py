"""The tally of a listing: what its index holds must be what the agents' authenticated heads account for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import Corrupt
from holdfast.storage.sqlite.schema import LISTING_SUM, key_of

if TYPE_CHECKING:
    from holdfast.storage.protocol import Query
    from holdfast.storage.sqlite.cells import AgentRow
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.rows import Rows

_SCOPES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the store as SQL, with the agents that are in it where they are known already."""

    where: str
    bounds: tuple[int, ...]
    by: str  # what it is ordered by, before the key
    rows: Sequence[AgentRow] | None


class _Count(NamedTuple):
    """How many checkpoints there are, and `LISTING_SUM` of them."""

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class _Right:
    """A count that was right, and the commit at which it was."""

    at: int
    end: int  # of what `Scope.by` orders by: whatever comes later lies after this
    count: _Count


class Tally:
    """Counts through one connection, inside the caller's transaction.

    Counting a million entries takes longer than listing fifty. So once a scope was counted and right, only what was
    saved since is counted and added, as long as that is right, too; after a deletion it is not, and all is counted.
    """

    def __init__(self, db: Database, rows: Rows) -> None:
        self.db = db
        self.rows = rows
        self._right: dict[tuple[str, str | None, str | None], _Right] = {}

    def check(self, query: Query, scope: Scope, order: str) -> None:
        """Raises Corrupt when the scope's index lacks a checkpoint, or has one too many.

        It counts in the order in which the listing reads, because a damaged entry can end one and not the other.
        """
        now = self.rows.store().commit_number
        which = (order, query.user_id, query.agent_id)
        before = self._right.get(which)
        if before is not None and before.at == now:
            return
        live = total = 0
        for row in self.rows.agents(query.user_id) if scope.rows is None else scope.rows:
            live, total = live + row.head.live, total + row.listing
        expected = _Count(live, total)
        if before is None or self._added(before, scope, order) != expected:
            self._check_all(query, scope, order, expected)
        end = now if scope.rows is None else max(key_of(row.number, row.head.seq) for row in scope.rows)
        if len(self._right) >= _SCOPES_MAX:  # a reader that lives long sees many agents come and go
            self._right.clear()
        self._right[which] = _Right(now, end, expected)

    def _added(self, before: _Right, scope: Scope, order: str) -> _Count:
        """The count that was right with what has come since."""
        since = self._count(f"{scope.where} AND {scope.by} > ?", (*scope.bounds, before.end), scope.by, order)
        return _Count(before.count.number + since.number, before.count.total + since.total)

    def _check_all(self, query: Query, scope: Scope, order: str, expected: _Count) -> None:
        found = self._count(scope.where, scope.bounds, scope.by, order)
        if found == expected:
            return
        whose = query.agent_id or query.user_id or "the store"
        what = "other" if found.number == expected.number else found.number
        raise Corrupt(
            f"The listing of {whose} has {what} checkpoints, but there must be {expected.number}",
            user_id=query.user_id,
            agent_id=query.agent_id,
        )

    def _count(self, where: str, bounds: tuple[int, ...], by: str, order: str) -> _Count:
        # The limit keeps SQLite from leaving the order out, which it would not need for a count.
        ordered = f" ORDER BY {by} {order} LIMIT -1" if bounds else ""
        [found] = self.db.execute(
            f"SELECT count(*), {LISTING_SUM} FROM (SELECT c.key, c.commit_number, c.kind FROM checkpoints c"
            f" WHERE {where} AND c.head IS NOT NULL{ordered})",
            bounds,
        ).fetchall()
        return _Count(*found)

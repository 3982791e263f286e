"""The rows as the writing connection knows them: read and authenticated once, for as long as nobody else writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.storage.sqlite.rows import Rows

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import AgentRow, Cells, StoreRow
    from holdfast.storage.sqlite.database import Database

_AGENTS_MAX: Final = 4096


class KnownRows(Rows):
    """Remembers rows inside `remembering`; anywhere else it reads them anew.

    What is remembered counts when SQLite says that no other connection has written since (data_version), and that
    this one has changed no row but in transactions that remembered (total_changes).
    """

    def __init__(self, db: Database, cells: Cells) -> None:
        super().__init__(db, cells)
        self._agents: dict[str, AgentRow] = {}
        self._store: StoreRow | None = None
        self._right_at: tuple[int, int] | None = None  # data_version and total_changes, None after a failure
        self._version: int | None = None  # in a transaction, from its first read on
        self._before: tuple[int, int] | None = None
        self._inside = False
        self._unwritten = False  # whether the store's row has yet to be written

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """To be held round a whole write transaction: only when it was committed, what it wrote is remembered."""
        self._begin()
        try:
            yield
            if self._version is not None:
                self._right_at = self._version, self.db.total_changes()
        finally:
            self._inside = False

    def _begin(self) -> None:
        self._before, self._right_at = self._right_at, None
        self._version, self._inside, self._unwritten = None, True, False

    def _recall(self) -> None:
        """Forgets what may not be so any more, at the first read of a transaction."""
        if self._version is None:
            [(self._version,)] = self.db.execute("PRAGMA data_version").fetchall()
            if self._before != (self._version, self.db.total_changes()):
                self._agents.clear()
                self._store = None

    def store(self) -> StoreRow:
        if not self._inside:
            return super().store()
        self._recall()
        if self._store is None:
            self._store = super().store()
        return self._store

    def put_store(self, store: StoreRow) -> None:
        """Inside `remembering` it is written by `settle`, once for all the commits of a transaction."""
        self._store = store
        if self._inside:
            self._unwritten = True
        else:
            super().put_store(store)

    def settle(self) -> int | None:
        """Writes what the commits of this transaction left the store's row at. To be called before it is committed.

        Returns the number of the last of them; None if there was none.
        """
        if not self._unwritten or self._store is None:
            return None
        self._unwritten = False
        super().put_store(self._store)
        return self._store.commit_number

    def agent(self, agent_id: str) -> AgentRow | None:
        if not self._inside:
            return super().agent(agent_id)
        self._recall()
        known = self._agents.get(agent_id)
        if known is None and (known := super().agent(agent_id)) is not None:
            self._remember(known)
        return known

    def put_agent(self, row: AgentRow, store: StoreRow, *, is_new: bool) -> StoreRow:
        store = super().put_agent(row, store, is_new=is_new)
        self._remember(row)
        return store

    def _remember(self, row: AgentRow) -> None:
        if len(self._agents) >= _AGENTS_MAX:
            self._agents.clear()
        self._agents[row.agent_id] = row

"""The inspection of a whole store: everything is read, authenticated, decoded and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.storage.ids import id_from
from holdfast.storage.sqlite.agentcheck import AgentCheck
from holdfast.storage.sqlite.chain import Ends, links
from holdfast.storage.sqlite.findings import Findings
from holdfast.storage.sqlite.pendinglist import pending_rows
from holdfast.storage.sqlite.rollcall import told
from holdfast.storage.sqlite.rows import untext
from holdfast.storage.sqlite.schema import LISTING_SUM, STORE, agent_of
from holdfast.storage.sqlite.states import States

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress, Report
    from holdfast.storage.sqlite.cells import AgentRow, StoreRow
    from holdfast.storage.sqlite.reader import Reader

_KEYED: Final = ("records", "checkpoints", "segments", "snapshots", "groups", "pending", "runs", "inbox")
_INTEGRITY_MESSAGES_MAX: Final = 1000


def verify(reader: Reader, progress: Progress | None = None) -> Report:
    """Names everything that is damaged, and every checkpoint that is whole.

    Without the key it goes by the hashes: what they confirm is as it was written, by whomever.
    """
    return _Inspection(reader, progress or _silent).run()


def _silent(_what: str, _done: int, _total: int) -> None:
    """Nobody wants to know."""


class _Inspection:
    def __init__(self, reader: Reader, progress: Progress) -> None:
        self.reader = reader
        self.db = reader.db
        self.states = States(reader.db, reader.cells)
        self.progress = progress
        self.findings = Findings()
        self.indexed = 0
        self.live: dict[int, tuple[int, int]] = {}  # checkpoints and their sum by user number, as the heads say
        self.heads_known = True

    def run(self) -> Report:
        self.progress("file", 0, 1)
        with self.findings.guard("store", "file"):
            self._check_file()
        self.progress("file", 1, 1)
        with self.findings.guard("store", "head"):
            self._check_store(self.reader.rows.store())
        numbers: list[int] = []
        with self.findings.guard("store", "agents"):
            found = self.db.execute("SELECT number FROM agents WHERE number > 0 ORDER BY number").fetchall()
            numbers = [number for (number,) in found]
        for done, number in enumerate(numbers):
            self.progress("agents", done, len(numbers))
            with self.findings.guard("agent", str(number)):
                self._check_agent(number)
        self.progress("agents", len(numbers), len(numbers))
        with self.findings.guard("store", "listings"):
            self._check_users()
        with self.findings.guard("store", "ids"):
            self._check_ids()
        for table in _KEYED:
            with self.findings.guard("store", table):
                self._check_strays(table, {STORE, *numbers})
        return self.findings.report()

    def _check_file(self) -> None:
        """SQLite's own check: the pages, and the indexes against their tables."""
        for (message,) in self.db.execute(f"PRAGMA integrity_check({_INTEGRITY_MESSAGES_MAX})"):
            if message != "ok":
                self.findings.add("store", "file", message)

    def _check_store(self, store: StoreRow) -> None:
        for numbers in self.reader.rows.roll_call.wrong(store.heads):
            self.findings.add("store", "head", told(numbers))
        with self.findings.guard("listing", "pending"):
            pending_rows(self.db, store)
        floor_chain = self.reader.cells.first_chain("", "")
        ends = Ends(floor=0, floor_chain=floor_chain, seq=store.seq, chain=store.chain)
        for link in links(self.db, self.reader.cells, STORE, "", ends, first_chain=floor_chain):
            if link.record is None:
                self.findings.add("record", str(link.seq), f"of the store's own history: {link.reason}", seq=link.seq)
            else:
                self.findings.records += 1

    def _check_agent(self, number: int) -> None:
        [(raw,)] = self.db.execute("SELECT id FROM agents WHERE number = ?", (number,)).fetchall()
        agent_id = untext(raw)
        row: AgentRow | None = None
        with self.findings.guard("agent", agent_id, agent_id=agent_id):
            row = self.reader.rows.agent_numbered(number)
        if row is None:
            self.heads_known = False
        else:
            count, listing = self.live.get(row.user, (0, 0))
            self.live[row.user] = (count + row.head.live, listing + row.listing)
            with self.findings.guard("agent", agent_id, agent_id=agent_id):
                there = self.reader.rows.agent(agent_id)
                if there is None or there.number != number:
                    self.findings.add("agent", agent_id, "the index does not lead to it", agent_id=agent_id)
        check = AgentCheck(self.reader, self.states, self.findings, number, agent_id, row)
        check.run()
        self.indexed += check.indexed

    def _check_users(self) -> None:
        """The listings by user go through an index of their own."""
        found = {
            user: (count, listing)
            for user, count, listing in self.db.execute(
                f"SELECT user, count(*), {LISTING_SUM} FROM checkpoints WHERE head IS NOT NULL GROUP BY user"
            ).fetchall()
        }
        for user in {*self.live, *found}:
            there, expected = found.get(user, (0, 0)), self.live.get(user, (0, 0))
            if there != expected and self.heads_known:
                reason = (
                    f"the listing of user number {user} has {there[0]} checkpoints, not the {expected[0]} there are"
                )
                self.findings.add("listing", str(user), reason)

    def _check_ids(self) -> None:
        """Every id that a record gives was looked up before: whatever is there beyond these leads astray."""
        [(count,)] = self.db.execute("SELECT count(*) FROM ids").fetchall()
        if count == self.indexed:
            return
        for id_, key in self.db.execute("SELECT id, key FROM ids").fetchall():
            with self.findings.guard("listing", repr(id_)):
                name = id_from(id_)
                with self.findings.guard("listing", name):
                    row = self.reader.rows.agent_numbered(agent_of(key))
                    self.reader.rows.saved(row, key & 0xFFFFFFFF, checkpoint_id=name)

    def _check_strays(self, table: str, numbers: set[int]) -> None:
        for (number,) in self.db.execute(f"SELECT DISTINCT key >> 32 FROM {table}").fetchall():
            if number not in numbers:
                self.findings.add("store", table, f"it has rows of agent number {number}, which does not exist")

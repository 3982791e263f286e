"""A store authenticated anew under another ring, as far as its unkeyed hashes confirm it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.storage.authenticity import Ring
from holdfast.storage.sqlite.cells import Cells, StoreRow
from holdfast.storage.sqlite.findings import Findings
from holdfast.storage.sqlite.headtree import Heads
from holdfast.storage.sqlite.pendinglist import PendingList, sum_of
from holdfast.storage.sqlite.reader import Reader
from holdfast.storage.sqlite.rechain import rechain
from holdfast.storage.sqlite.resealagent import AgentResealing
from holdfast.storage.sqlite.rollcall import told
from holdfast.storage.sqlite.rows import untext
from holdfast.storage.sqlite.runlist import RunList
from holdfast.storage.sqlite.schema import STORE
from holdfast.storage.sqlite.states import States

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress
    from holdfast.storage.sqlite.database import Database

_COUNTED: Final = ("agents", "records", "checkpoints", "states", "messages", "snapshots_dropped")


class Resealing:
    """One pass over a store, agent by agent; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells, progress: Progress | None) -> None:
        self.db = db
        self.cells = cells
        self.progress = progress
        bare = Cells(Ring({}), cells.store_id)  # sees what the hashes confirm
        self.reader = Reader(db, bare, lambda _: False)
        self.states = States(db, bare)
        self.pending = PendingList(db)
        self.runs = RunList(db)
        self.findings = Findings()
        self.counts = dict.fromkeys(_COUNTED, 0)
        self.commit_number = 0
        self.macs: dict[int, bytes] = {}  # of the agents' rows, by number

    def run(self) -> dict[str, Any]:
        """How much was authenticated anew, and by name what was not."""
        [(self.counts["snapshots_dropped"],)] = self.db.execute("SELECT count(*) FROM snapshots").fetchall()
        self.db.execute("DELETE FROM snapshots")
        agents = self.db.execute(
            "SELECT a.number, a.user, a.id, u.id FROM agents a LEFT JOIN users u ON u.number = a.user"
            " WHERE a.number > 0 ORDER BY a.number"
        ).fetchall()
        self._call_roll()
        for done, (number, user, raw, raw_user) in enumerate(agents):
            if self.progress is not None:
                self.progress("authenticating", done, len(agents))
            agent_id = untext(raw)
            if raw_user is None:
                self.findings.add("agent", agent_id, "its user is missing", agent_id=agent_id)
            else:
                self._agent(AgentResealing(self, number, user, agent_id, untext(raw_user)))
        self._store()
        return {**self.counts, "unconfirmed": tuple(self.findings.damaged)}

    def _call_roll(self) -> None:
        """Names what the hashes can't show: rows that are sound by themselves, but are not those that were there."""
        rows = self.reader.rows
        with self.findings.guard("store", "head"):
            for numbers in rows.roll_call.wrong(rows.store().heads):
                self.findings.add("store", "head", told(numbers))

    def _agent(self, one: AgentResealing) -> None:
        cell = self.cells.pack_agent(one.run())
        self.db.execute("UPDATE agents SET head = ? WHERE number = ?", (cell, one.number))
        self.macs[one.number] = Cells.mac_of(cell)
        self.counts["agents"] += 1

    def _store(self) -> None:
        """The store's own history, and its head last, when everything that this sums up is known."""
        before = StoreRow(chain=b"")
        with self.findings.guard("store", "head"):
            before = self.reader.rows.store()
        chain = self.cells.first_chain("", "")
        done = rechain(self.db, self.cells, STORE, "", floor=0, chain=chain, findings=self.findings)
        self.counts["records"] += len(done.records)
        row = before.evolve(
            pending=sum_of(self.db.execute("SELECT key, what, name FROM pending").fetchall()),
            chain=done.chain,
            seq=max(done.seq, before.seq),
            commit_number=max(self.commit_number, before.commit_number, done.commit_number),
            heads=Heads.of(self.macs),
        )
        self.db.execute("UPDATE agents SET head = ? WHERE number = ?", (self.cells.pack_store(row), STORE))

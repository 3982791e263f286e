"""The list of the runs on the agents' live paths: a row for each, and a sum of an agent's rows in its head.

The sum proves that no row is missing or changed: that there is no run of some name is as certain as what a row says.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from holdfast.history import codec
from holdfast.history.fold import Run, runs
from holdfast.history.records import RlmComplete, RlmStart
from holdfast.storage.authenticity import MAC_BYTES
from holdfast.storage.sqlite.rows import text, untext
from holdfast.storage.sqlite.schema import key_of, seq_of, span

if TYPE_CHECKING:
    from holdfast.history.records import Record
    from holdfast.storage.sqlite.cells import AgentRow
    from holdfast.storage.sqlite.database import Database

SUM: Final = 1 << 8 * MAC_BYTES
_INSERT: Final = "INSERT INTO runs (key, name, session, ended) VALUES (?, ?, ?, ?)"
_END: Final = (
    "UPDATE runs SET ended = ? WHERE ended IS NULL AND key ="
    " (SELECT key FROM runs WHERE key BETWEEN ? AND ? AND name = ? ORDER BY key DESC LIMIT 1)"
    " RETURNING key, name, session"
)

Row = tuple[int, str | bytes, str | bytes | None, int | None]
"""The key of the rlm_start, name and session as they are stored, and the position of the rlm_complete."""


class RunList:
    """Writes the rows through one connection; each verb returns the agent's row with the sum as it is afterwards."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def follow(self, row: AgentRow, records: Iterable[Record]) -> AgentRow:
        """Takes in what these new records begin and end."""
        change = 0
        for record in records:
            if isinstance(record, RlmStart):
                change += self._begin(row_of(row.number, Run(record.tool_call_id, record.session, record.seq)))
            elif isinstance(record, RlmComplete):
                change += self._end(row.number, record)
        return row.evolve(run_listing=(row.run_listing + change) % SUM) if change else row

    def replace(self, row: AgentRow, history: Iterable[Record]) -> AgentRow:
        """Makes the agent's rows anew: a rewind takes runs off the live path, and the ends of others."""
        self.db.execute("DELETE FROM runs WHERE key BETWEEN ? AND ?", span(row.number))
        shares = [self._begin(row_of(row.number, run)) for run in runs(history)]
        return row.evolve(run_listing=sum(shares) % SUM)

    def _begin(self, one: Row) -> int:
        self.db.execute(_INSERT, one)
        return share_of(one)

    def _end(self, agent: int, record: RlmComplete) -> int:
        """What it changes in the sum: nothing when no such run was begun, or it had ended before."""
        found = self.db.execute(_END, (record.seq, *span(agent), text(record.tool_call_id))).fetchall()
        return sum([share_of((*one, record.seq)) - share_of((*one, None)) for one in found])


def row_of(agent: int, run: Run) -> Row:
    session = None if run.session is None else text(run.session)
    return key_of(agent, run.start), text(run.name), session, run.end


def run_of(row: Row) -> Run:
    key, name, session, ended = row
    return Run(untext(name), None if session is None else untext(session), seq_of(key), ended)


def share_of(row: Row) -> int:
    """One row's part of the sum."""
    return int.from_bytes(blake2b(codec.pack([*row]), digest_size=MAC_BYTES, person=b"run").digest(), "big")

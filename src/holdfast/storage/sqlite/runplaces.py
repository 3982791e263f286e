"""Where runs stand: found in the list of runs, once that was shown to be whole, and each compared with its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.history.records import RlmComplete, RlmStart
from holdfast.storage.sqlite.rows import text
from holdfast.storage.sqlite.runlist import SUM, Row, run_of, share_of
from holdfast.storage.sqlite.schema import span

if TYPE_CHECKING:
    from holdfast.history.fold import Run
    from holdfast.storage.sqlite.cells import AgentRow
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.rows import Rows

_ROWS: Final = "SELECT key, name, session, ended FROM runs"
_AGENTS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class _Right:
    """An agent's rows when they were right: how many, what they added up to, and what of that can't change any more."""

    count: int = 0
    total: int = 0
    ended: int = 0  # what the rows of ended runs add up to
    going_on: tuple[int, ...] = ()  # the keys of the others
    last: int = 0  # the last key


class RunPlaces:
    """Looks runs up through one connection, inside the caller's transaction.

    Adding up a hundred thousand rows takes longer than finding one. So once an agent's rows were right, they are
    counted, and only those of runs that went on then, and those that came since, are added, as long as that is right,
    too; after a rewind it need not be, and all are.
    """

    def __init__(self, db: Database, rows: Rows) -> None:
        self.db = db
        self.rows = rows
        self._right: dict[int, _Right] = {}

    def of(self, row: AgentRow, name: str | None, session: str | None, limit: int | None) -> list[Run]:
        """The agent's runs, newest first; of this name and of this session, where they are given."""
        if not row.run_listing:
            return []  # as the agent's head says, whatever may have come to lie there
        self._check(row)
        wanted = {column: text(value) for column, value in (("name", name), ("session", session)) if value is not None}
        among = "".join([f" AND {column} = ?" for column in wanted])
        found = self.db.execute(
            f"{_ROWS} WHERE key BETWEEN ? AND ?{among} ORDER BY key DESC LIMIT ?",
            (*span(row.number), *wanted.values(), -1 if limit is None else limit),
        ).fetchall()
        return [self._authentic(row, run_of(one)) for one in found]

    def _authentic(self, row: AgentRow, run: Run) -> Run:
        """The run, when its records say the same of it."""
        begun, _ = self.rows.record(row, run.start)
        ended = None if run.end is None else self.rows.record(row, run.end)[0]
        is_begun = isinstance(begun, RlmStart) and (begun.tool_call_id, begun.session) == (run.name, run.session)
        is_ended = ended is None or (isinstance(ended, RlmComplete) and ended.tool_call_id == run.name)
        if not (is_begun and is_ended):
            raise Corrupt(
                f"The list of runs says of run {run.name} what its records do not", agent_id=row.agent_id, seq=run.start
            )
        return run

    def _check(self, row: AgentRow) -> None:
        """Raises Corrupt when a row of the agent's is missing or changed."""
        [(count,)] = self.db.execute("SELECT count(*) FROM runs WHERE key BETWEEN ? AND ?", span(row.number)).fetchall()
        expected = (count, row.run_listing)
        right = self._right.get(row.number)
        if right is not None and (right.count, right.total) == expected:
            return
        if right is not None:
            right = self._added(row, right)
        if right is None or (right.count, right.total) != expected:
            right = self._added(row, _Right())
        if (right.count, right.total) != expected:
            raise Corrupt(
                f"The list of the runs of agent {row.agent_id} is not what was put into it", agent_id=row.agent_id
            )
        if len(self._right) >= _AGENTS_MAX:
            self._right.clear()
        self._right[row.number] = right

    def _added(self, row: AgentRow, before: _Right) -> _Right:
        """What the agent's rows are, given what those up to the last one were before."""
        first, last = span(row.number)
        since: list[Row] = self.db.execute(
            f"{_ROWS} WHERE key > ? AND key <= ? ORDER BY key", (before.last or first, last)
        ).fetchall()
        found = since + [
            one for key in before.going_on for one in self.db.execute(f"{_ROWS} WHERE key = ?", (key,)).fetchall()
        ]
        ended = before.ended + sum([share_of(one) for one in found if one[3] is not None])
        going_on = [one for one in found if one[3] is None]
        return _Right(
            count=before.count + len(since),
            total=(ended + sum([share_of(one) for one in going_on])) % SUM,
            ended=ended % SUM,
            going_on=tuple([one[0] for one in going_on]),
            last=since[-1][0] if since else before.last,
        )

"""Looking up again what a commit has written: damage that nobody reads while writing must not hide it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.storage.sqlite.schema import key_of

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.sqlite.cells import AgentRow
    from holdfast.storage.sqlite.rows import Rows


_AGENTS_MAX: Final = 4096


class FoundAgain:
    """Looks once for each agent, through the connection that wrote it: later commits write where the first one did."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._found: set[int] = set()  # the numbers of agents

    def check(self, row: AgentRow, checkpoint: Checkpoint | None) -> None:
        """Raises Corrupt unless the agent is found as it was written, with its last record and the checkpoint just
        saved.
        """
        if row.number in self._found:
            return
        _check(self.rows, row, checkpoint)
        if len(self._found) >= _AGENTS_MAX:  # a writer that lives long sees many agents come and go
            self._found.clear()
        self._found.add(row.number)


def _check(rows: Rows, row: AgentRow, checkpoint: Checkpoint | None) -> None:
    """A save appends, so it hardly looks at what is there: at a key that was flipped in a neighbouring row, by which
    what follows it is not found, or at a name that the index has and the row does not.
    """
    found = rows.agent_unproven(row.number)  # the store's row, which accounts for it, is written later
    if found.agent_id != row.agent_id or found.chain != row.chain:
        raise Corrupt(f"The row of agent {row.agent_id} is not found as it was written", agent_id=row.agent_id)
    if row.head.seq > row.head.floor:
        rows.record(row, row.head.seq)
    if checkpoint is None:
        return
    key = key_of(row.number, checkpoint.position)
    if rows.key(checkpoint.id) != key or not rows.is_live(key):
        raise Corrupt(
            f"Checkpoint {checkpoint.id} of agent {row.agent_id} is not found after it was written",
            checkpoint_id=checkpoint.id, agent_id=row.agent_id, seq=checkpoint.position,
        )  # fmt: skip

"""The rows of a store file as values: agents, records, checkpoints' places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.history.records import CheckpointSaved, Record
from holdfast.storage.ids import stored_id
from holdfast.storage.rules import Place
from holdfast.storage.sqlite.rollcall import RollCall
from holdfast.storage.sqlite.schema import STORE, agent_of, key_of, seq_of

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import AgentRow, Cells, StoreRow
    from holdfast.storage.sqlite.database import Database

_AGENTS_READ_MAX: Final = 4096
_PIECE: Final = 1024  # agents that are read at a time: erased ones are among them, and are never fewer

_Stored = tuple[int, int, str | bytes, str | bytes | None, bytes]  # an agent's row as SQLite has it

# A join that finds the same takes SQLite several times as long, and every commit reads an agent.
_AGENT = "SELECT number, user, id, (SELECT u.id FROM users u WHERE u.number = agents.user), head FROM agents"


class Rows:
    """One connection's view of the tables; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells) -> None:
        self.db = db
        self.cells = cells
        self._names_checked = False
        self.roll_call = RollCall(db, self._name)
        self._store_read: tuple[bytes, StoreRow] | None = None
        self._agents_read: dict[int, tuple[_Stored, AgentRow]] = {}

    # --- the store and its agents

    def store(self) -> StoreRow:
        row = self.db.execute("SELECT head FROM agents WHERE number = ?", (STORE,)).fetchone()
        if row is None:
            raise Corrupt("The store has no head: its first row is missing")
        before = self._store_read
        if before is not None and before[0] == row[0]:  # the very bytes that were authenticated before
            return before[1]
        opened = self.cells.unpack_store(row[0])
        self._store_read = row[0], opened
        return opened

    def put_store(self, store: StoreRow) -> None:
        self.db.execute("UPDATE agents SET head = ? WHERE number = ?", (self.cells.pack_store(store), STORE))

    def agent(self, agent_id: str) -> AgentRow | None:
        """The row of this agent, erased ones included."""
        row = self.db.execute(f"{_AGENT} WHERE id = ? AND number > 0", (text(agent_id),)).fetchone()
        if row is not None and row[2] != text(agent_id):  # SQLite believes its index, and reads the row it leads to
            raise Corrupt(f"The index of agents leads from {agent_id} to another", agent_id=agent_id)
        return None if row is None else self._proven(row)

    def agent_numbered(self, number: int) -> AgentRow:
        return self._proven(self._stored(number))

    def agent_unproven(self, number: int) -> AgentRow:
        """An agent's row that is authentic by itself; whether it is the newest one is not asked."""
        return self._opened(self._stored(number))

    def _stored(self, number: int) -> _Stored:
        row: _Stored | None = self.db.execute(f"{_AGENT} WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise Corrupt(f"Agent number {number} has rows but no head")
        return row

    def agents(self, user_id: str | None) -> Iterator[AgentRow]:
        """All agents, or all of a user, in the order in which they were made: none is missing."""
        self.check_all()
        of_user = "" if user_id is None else " AND user = (SELECT u.number FROM users u WHERE u.id = ?)"
        arguments = () if user_id is None else (text(user_id),)
        last = 0
        while piece := self.db.execute(
            f"{_AGENT} WHERE number > ?{of_user} ORDER BY number LIMIT {_PIECE}", (last, *arguments)
        ).fetchall():
            last = piece[-1][0]
            yield from map(self._opened, piece)

    def _proven(self, row: _Stored) -> AgentRow:
        """The row opened, and held against the store's."""
        opened = self._opened(row)
        self.roll_call.check(self.store().heads, opened.number, opened.agent_id, self.cells.mac_of(row[4]))
        return opened

    def _opened(self, row: _Stored) -> AgentRow:
        number, user, agent_id, user_id, cell = row
        before = self._agents_read.get(number)
        if before is not None and before[0] == row:  # the very bytes that were authenticated before
            return before[1]
        user_id = self._known(user_id, agent_id)
        opened = self.cells.unpack_agent(number, user, untext(agent_id), untext(user_id), cell)
        if len(self._agents_read) >= _AGENTS_READ_MAX:
            self._agents_read.clear()
        self._agents_read[number] = row, opened
        return opened

    def check_names(self) -> None:
        """Makes sure that names are found: a damaged index says "there is none". Once for each connection."""
        if self._names_checked:
            return
        for table in ("agents", "users"):
            for (message,) in self.db.execute(f"PRAGMA integrity_check({table})").fetchall():
                if message != "ok":
                    raise Corrupt(f"The index of {table} is damaged: {message}")
        self._names_checked = True

    def check_all(self) -> None:
        """Makes sure that all agents are there, that each is found by its name, and that none is an older one.

        To be called before an answer that depends on all of them: that there is no agent of some name is one.
        """
        self.check_names()
        self.roll_call.check_all(self.store().heads, self._authenticate)

    def _authenticate(self, numbers: Sequence[int]) -> None:
        """Makes sure that these agents' rows are authentic, with the names and the users that they have."""
        wanted = set(numbers)
        for number, user, agent_id, user_id, cell in self.db.execute(
            f"{_AGENT} WHERE number BETWEEN ? AND ?", (min(wanted, default=1), max(wanted, default=0))
        ).fetchall():
            if number in wanted:
                self.cells.check_agent(number, user, untext(agent_id), untext(self._known(user_id, agent_id)), cell)

    def _name(self, number: int) -> str | None:
        found = self.db.execute("SELECT id FROM agents WHERE number = ?", (number,)).fetchone()
        return None if found is None else untext(found[0])

    @staticmethod
    def _known(user_id: str | bytes | None, agent_id: str | bytes) -> str | bytes:
        if user_id is None:
            raise Corrupt(f"The user of agent {untext(agent_id)} is missing", agent_id=untext(agent_id))
        return user_id

    def put_agent(self, row: AgentRow, store: StoreRow, *, is_new: bool) -> StoreRow:
        """Writes the agent's row and returns the store's head, which accounts for it."""
        cell = self.cells.pack_agent(row)
        heads = self.roll_call.put(store.heads, row.number, self.cells.mac_of(cell))
        if is_new:
            self.db.execute(
                "INSERT INTO agents (number, id, user, head) VALUES (?, ?, ?, ?)",
                (row.number, text(row.agent_id), row.user, cell),
            )
        else:
            self.db.execute("UPDATE agents SET head = ? WHERE number = ?", (cell, row.number))
        return store.evolve(heads=heads)

    def next_agent_number(self) -> int:
        [(number,)] = self.db.execute("SELECT max(number) FROM agents").fetchall()
        return int(number) + 1

    def user_number(self, user_id: str) -> int:
        """The number of this user; a new one gets the next."""
        row = self.db.execute("SELECT number FROM users WHERE id = ?", (text(user_id),)).fetchone()
        if row is None:
            row = self.db.execute("INSERT INTO users (id) VALUES (?) RETURNING number", (text(user_id),)).fetchall()[0]
        return int(row[0])

    def users(self, user_id: str) -> list[int]:
        """The number of this user, or nothing when it is unknown."""
        return [number for (number,) in self.db.execute("SELECT number FROM users WHERE id = ?", (text(user_id),))]

    # --- records

    def records(self, row: AgentRow, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """The agent's own records in order, each checked against the one before; the last one must be the head's."""
        first = max(after, row.head.floor)
        if first >= row.head.seq:
            return []
        chain = self.chain_at(row, first)
        records: list[Record] = []
        expected = first + 1
        for key, cell in self.db.execute(
            "SELECT key, body FROM records WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
            (key_of(row.number, first), key_of(row.number, row.head.seq), -1 if limit is None else limit),
        ).fetchall():
            if seq_of(key) != expected:
                break
            record, _ = self.cells.unpack_record(key, chain, cell, agent_id=row.agent_id, seq=expected)
            records.append(record)
            chain = self.cells.chain_of(cell)
            expected += 1
        complete = limit is not None and len(records) == limit
        if not complete and (expected != row.head.seq + 1 and expected <= row.head.seq):
            raise Corrupt(f"Record {expected} of agent {row.agent_id} is missing", agent_id=row.agent_id, seq=expected)
        if expected == row.head.seq + 1 and records and chain != row.chain:
            raise Corrupt(
                f"The history of agent {row.agent_id} does not end as its head says",
                agent_id=row.agent_id,
                seq=row.head.seq,
            )
        return records

    def record(self, row: AgentRow, seq: int) -> tuple[Record, int]:
        """One record and its commit number, checked against the one before."""
        key = key_of(row.number, seq)
        found = self.db.execute("SELECT body FROM records WHERE key = ?", (key,)).fetchone()
        if found is None:
            raise Corrupt(f"Record {seq} of agent {row.agent_id} is missing", agent_id=row.agent_id, seq=seq)
        return self.cells.unpack_record(key, self.chain_at(row, seq - 1), found[0], agent_id=row.agent_id, seq=seq)

    def chain_at(self, row: AgentRow, seq: int) -> bytes:
        """The chain's value after the record at this position."""
        if seq == row.head.floor:
            return row.floor_chain if row.head.floor else self.cells.first_chain(row.agent_id, row.head.user_id)
        found = self.db.execute(
            "SELECT substr(body, 1, 17) FROM records WHERE key = ?", (key_of(row.number, seq),)
        ).fetchone()
        if found is None:
            raise Corrupt(f"Record {seq} of agent {row.agent_id} is missing", agent_id=row.agent_id, seq=seq)
        return self.cells.chain_of(found[0])

    # --- checkpoints

    def key(self, checkpoint_id: str) -> int | None:
        """The key of the record of this checkpoint, deleted or not."""
        row = self.db.execute("SELECT key FROM ids WHERE id = ?", (stored_id(checkpoint_id),)).fetchone()
        return None if row is None else int(row[0])

    def check_unknown(self, checkpoint_id: str) -> None:
        """Makes sure that the index did not lose this id: no record may have it, and none may be missing.

        Only unknown ids cost this.
        """
        for row in self.agents(None):
            [(there,)] = self.db.execute(
                "SELECT count(*) FROM records WHERE key > ? AND key <= ?",
                (key_of(row.number, row.head.floor), key_of(row.number, row.head.seq)),
            ).fetchall()
            if there != row.head.seq - row.head.floor:
                raise Corrupt(
                    f"Records of agent {row.agent_id} are missing, which may be those of checkpoint {checkpoint_id}",
                    checkpoint_id=checkpoint_id,
                    agent_id=row.agent_id,
                )
        for key, cell in self.db.execute(
            "SELECT key, body FROM records WHERE instr(body, ?) > 0", (stored_id(checkpoint_id),)
        ):
            record = self.cells.peek_record(cell, seq=seq_of(key))
            if isinstance(record, CheckpointSaved) and record.id == checkpoint_id:
                raise Corrupt(
                    f"The index has lost checkpoint {checkpoint_id}", checkpoint_id=checkpoint_id, seq=seq_of(key)
                )

    def is_live(self, key: int) -> bool:
        return bool(self.db.execute("SELECT 1 FROM checkpoints WHERE key = ? AND head IS NOT NULL", (key,)).fetchone())

    def place(self, checkpoint_id: str) -> Place | None:
        key = self.key(checkpoint_id)
        if key is None:
            return None
        row = self.db.execute("SELECT id FROM agents WHERE number = ?", (agent_of(key),)).fetchone()
        return None if row is None else Place(untext(row[0]), seq_of(key))

    def saved(self, row: AgentRow, seq: int, *, checkpoint_id: str | None = None) -> tuple[CheckpointSaved, int]:
        """The record of a checkpoint at this position, and its commit number."""
        record, commit_number = self.record(row, seq)
        if not isinstance(record, CheckpointSaved) or (checkpoint_id is not None and record.id != checkpoint_id):
            raise Corrupt(
                f"Record {seq} of agent {row.agent_id} is not that of checkpoint {checkpoint_id}",
                agent_id=row.agent_id,
                seq=seq,
                checkpoint_id=checkpoint_id,
            )
        return record, commit_number


def text(text: str) -> str | bytes:
    """Text as SQLite can hold it: a NUL or a lone surrogate makes it bytes."""
    if "\0" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "surrogatepass")


def untext(stored: str | bytes) -> str:
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored

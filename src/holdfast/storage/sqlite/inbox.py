"""The inboxes of a store's agents: what was sent, what waits, and what a group may bring back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.history import codec
from holdfast.storage import rules
from holdfast.storage.heads import unpack_head
from holdfast.storage.sqlite.schema import key_of, seq_of, span

if TYPE_CHECKING:
    from holdfast.storage.protocol import ReceiveAgain
    from holdfast.storage.rules import Head
    from holdfast.storage.sqlite.cells import AgentRow, Cells
    from holdfast.storage.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is kept."""

    number: int
    original: int
    sender: str
    content: Any
    at: datetime


class Inbox:
    """Reads and writes messages through one connection; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells) -> None:
        self.db = db
        self.cells = cells

    def put(self, row: AgentRow, message: Message) -> None:
        key = key_of(row.number, message.number)
        values = [message.sender, message.content, message.at]
        if message.original != message.number:
            values.append(message.original)
        cell = self.cells.pack_message(key, codec.pack(values))
        self.db.execute("INSERT INTO inbox (key, body) VALUES (?, ?)", (key, cell))

    def messages(self, row: AgentRow, after: int, limit: int = -1) -> list[Message]:
        """The messages after a number, in order; a gap is for the caller to see."""
        return [
            opened(self.cells, key, cell, row.agent_id)
            for key, cell in self.db.execute(
                "SELECT key, body FROM inbox WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?",
                (key_of(row.number, after + 1), key_of(row.number, row.head.inbox_last), limit),
            ).fetchall()
        ]

    def receive_again(self, row: AgentRow, again: ReceiveAgain) -> Head:
        """Puts the messages that wait again behind all others, and returns the head that says so."""
        kept = {message.number: message for message in self.messages(row, again.acknowledged)}
        numbers = rules.received_again([(m.number, m.sender, m.original) for m in kept.values()], again)
        last = row.head.inbox_last
        for offset, number in enumerate(numbers, start=1):
            self.put(row, replace(kept[number], number=last + offset))
        return row.head.evolve(inbox_acknowledged=last, inbox_last=last + len(numbers))

    def forget(self, row: AgentRow) -> None:
        """Removes acknowledged messages, but for those that a group's checkpoint may bring back."""
        upto = row.head.inbox_acknowledged
        for key, user, commit_number, kind, cell in self.db.execute(
            "SELECT c.key, c.user, c.commit_number, c.kind, c.head FROM groups g JOIN checkpoints c ON c.key = g.key"
            " WHERE g.key BETWEEN ? AND ? AND c.head IS NOT NULL ORDER BY g.key LIMIT 1",
            span(row.number),
        ).fetchall():
            data = self.cells.unpack_checkpoint(key, user, commit_number, kind, cell, agent_id=row.agent_id)
            oldest = unpack_head(data, id="", agent_id=row.agent_id)
            upto = min(upto, (oldest.inbox or (0, 0))[0])
        self.db.execute("DELETE FROM inbox WHERE key BETWEEN ? AND ?", (span(row.number)[0], key_of(row.number, upto)))


def opened(cells: Cells, key: int, cell: bytes, agent_id: str) -> Message:
    sender, content, at, *original = codec.decode(cells.unpack_message(key, cell, agent_id=agent_id))
    number = seq_of(key)
    return Message(number, original[0] if original else number, sender, content, at)

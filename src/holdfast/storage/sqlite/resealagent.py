"""One agent authenticated anew: its history by hashes, its head from its history, its states by their digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.history.fold import live_path
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, RlmStart
from holdfast.storage.authenticity import SEAL_BYTES
from holdfast.storage.heads import digest_of
from holdfast.storage.ids import stored_id
from holdfast.storage.rules import Head
from holdfast.storage.sqlite.agentcheck import FOLDED
from holdfast.storage.sqlite.cells import AgentRow
from holdfast.storage.sqlite.chain import missing
from holdfast.storage.sqlite.rechain import Rechained, rechain
from holdfast.storage.sqlite.schema import LISTING_SUM, key_of, seq_of, span
from holdfast.storage.sqlite.stateline import stretches

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.storage.sqlite.reseal import Resealing
    from holdfast.storage.sqlite.stateline import Stretch


class AgentResealing:
    """Works on one agent. Afterwards everything of it is authentic under the new ring, or was named."""

    def __init__(self, whole: Resealing, number: int, user: int, agent_id: str, user_id: str) -> None:
        self.whole = whole
        self.db = whole.db
        self.cells = whole.cells
        self.findings = whole.findings
        self.number = number
        self.user = user
        self.agent_id = agent_id
        self.user_id = user_id
        self.saved: dict[int, tuple[CheckpointSaved, int]] = {}
        self.live: dict[str, int] = {}
        self.listed: dict[int, Checkpoint] = {}

    def run(self) -> AgentRow:
        """Reseals everything of the agent but its head, which it returns."""
        row = self._row_before()
        floor_chain = row.floor_chain if row.head.floor else self.cells.first_chain(self.agent_id, self.user_id)
        done = rechain(
            self.db, self.cells, self.number, self.agent_id,
            floor=row.head.floor, chain=floor_chain, findings=self.findings,
        )  # fmt: skip
        self.whole.counts["records"] += len(done.records)
        self.whole.commit_number = max(self.whole.commit_number, done.commit_number)
        if done.seq < row.head.seq:
            reason = missing(done.seq + 1, row.head.seq)
            self.findings.add("record", str(done.seq + 1), reason, agent_id=self.agent_id, seq=done.seq + 1)
        self._take(done)
        self._reseal_checkpoints(row)
        self._reseal_inbox()
        self._point_again(done)
        return self._rebuilt(row, done)

    def _row_before(self) -> AgentRow:
        """The head as it was, believed where nothing better is known; an empty one when it can't be read."""
        row: AgentRow | None = None
        with self.findings.guard("agent", self.agent_id, agent_id=self.agent_id):
            row = self.whole.reader.rows.agent_unproven(self.number)
        if row is not None:
            return row
        first = self._one("SELECT min(key) FROM records WHERE key BETWEEN ? AND ?")
        last = self._one("SELECT max(key) FROM inbox WHERE key BETWEEN ? AND ?")
        waiting = self._one("SELECT min(key) FROM inbox WHERE key BETWEEN ? AND ?")
        head = Head(
            user_id=self.user_id, floor=max(first - 1, 0), inbox_last=last, inbox_acknowledged=max(waiting - 1, 0)
        )
        return AgentRow(number=self.number, user=self.user, agent_id=self.agent_id, head=head, chain=b"")

    def _one(self, query: str) -> int:
        """A position that a query over this agent's keys finds, or 0."""
        [(key,)] = self.db.execute(query, span(self.number)).fetchall()
        return 0 if key is None else seq_of(key)

    def _take(self, done: Rechained) -> None:
        for record, commit_number in done.records:
            if isinstance(record, CheckpointSaved):
                self.saved[record.seq] = (record, commit_number)
                self.live[record.id] = record.seq
            elif isinstance(record, CheckpointDeleted):
                self.live.pop(record.id, None)

    # --- checkpoints and their states

    def _reseal_checkpoints(self, row: AgentRow) -> None:
        found = self.db.execute(
            "SELECT key, user, commit_number, kind, head FROM checkpoints"
            " WHERE key BETWEEN ? AND ? AND head IS NOT NULL ORDER BY key",
            span(self.number),
        ).fetchall()
        for one in found:
            seq = seq_of(one[0])
            record, commit_number = self.saved.get(seq, (None, 0))
            if record is None or self.live.get(record.id) != seq:
                name = str(seq) if record is None else record.id
                reason = "no record confirms it" if record is None else "it was deleted, but its row is there again"
                self.findings.add("checkpoint", name, reason, agent_id=self.agent_id, seq=seq)
                continue
            with self.findings.guard("checkpoint", record.id, agent_id=self.agent_id, seq=seq):
                self.listed[seq] = self.whole.reader.listed(row, one, record, commit_number)
        waiting = sorted(self.listed, reverse=True)
        for stretch in stretches(self.whole.states, self.number):
            while waiting and waiting[-1] <= seq_of(stretch.last):
                seq = waiting.pop()
                self._confirm(self.listed[seq], stretch.images.get(seq), stretch.reason)
            self._reseal_stretch(stretch)
        for seq in waiting:
            self._confirm(self.listed[seq], None, "it is not there")
        for one in found:
            if seq_of(one[0]) in self.listed:
                key, user, commit_number, kind, cell = one
                head = self.cells.pack_checkpoint(key, user, commit_number, kind, cell[SEAL_BYTES:])
                self.db.execute("UPDATE checkpoints SET head = ? WHERE key = ?", (head, key))
                self.whole.counts["checkpoints"] += 1

    def _reseal_stretch(self, stretch: Stretch) -> None:
        """A state is confirmed by its record's digest; a dead one by those that are built on it."""
        if not stretch.images:
            return
        segment, key = stretch.segment, stretch.last
        if segment is not None:
            [(cell,)] = self.db.execute("SELECT body FROM segments WHERE key = ?", (key,)).fetchall()
            body = self.cells.pack_bytes(b"segment", key, segment.base, cell[SEAL_BYTES:])
            self.db.execute("UPDATE segments SET body = ? WHERE key = ?", (body, key))
        else:
            [(cell,)] = self.db.execute("SELECT state FROM checkpoints WHERE key = ?", (key,)).fetchall()
            body = self.cells.pack_bytes(b"state", key, None, cell[SEAL_BYTES:])
            self.db.execute("UPDATE checkpoints SET state = ? WHERE key = ?", (body, key))
        self.whole.counts["states"] += len(stretch.images)

    def _confirm(self, checkpoint: Checkpoint, image: Image | None, reason: str) -> None:
        seq = checkpoint.position
        with self.findings.guard("state", checkpoint.id, agent_id=self.agent_id, seq=seq):
            if image is not None and digest_of(checkpoint, image) == self.saved[seq][0].digest:
                return
            reason = reason or "its content is not what its record says"
            self.findings.add("state", checkpoint.id, reason, agent_id=self.agent_id, seq=seq)
        del self.listed[seq]

    # --- the rest

    def _reseal_inbox(self) -> None:
        for key, cell in self.db.execute(
            "SELECT key, body FROM inbox WHERE key BETWEEN ? AND ?", span(self.number)
        ).fetchall():
            with self.findings.guard("inbox", str(seq_of(key)), agent_id=self.agent_id, seq=seq_of(key)):
                data = self.whole.reader.cells.unpack_message(key, cell, agent_id=self.agent_id)
                self.db.execute("UPDATE inbox SET body = ? WHERE key = ?", (self.cells.pack_message(key, data), key))
                self.whole.counts["messages"] += 1

    def _point_again(self, done: Rechained) -> None:
        """What only points at records is made from them again."""
        for seq, (record, _) in self.saved.items():
            if self.whole.reader.rows.key(record.id) is None:
                self.db.execute(
                    "INSERT INTO ids (id, key) VALUES (?, ?)", (stored_id(record.id), key_of(self.number, seq))
                )
        self.whole.pending.replace(self.number, [record for record, _ in done.records if isinstance(record, FOLDED)])

    def _rebuilt(self, row: AgentRow, done: Rechained) -> AgentRow:
        records = [record for record, _ in done.records]
        path = [(record.seq, record.id) for record in live_path(records) if isinstance(record, CheckpointSaved)]
        tip_seq, tip_id = path[-1] if path else (0, None)
        bounds = span(self.number)
        [(live, listing)] = self.db.execute(
            f"SELECT count(*), {LISTING_SUM} FROM checkpoints WHERE key BETWEEN ? AND ? AND head IS NOT NULL", bounds
        ).fetchall()
        sealed = self._one("SELECT max(key) FROM segments WHERE key BETWEEN ? AND ?")
        newest = self._one("SELECT max(key) FROM checkpoints WHERE key BETWEEN ? AND ? AND state IS NOT NULL")
        [(open_states,)] = self.db.execute(
            "SELECT count(*) FROM checkpoints WHERE key > ? AND key <= ? AND state IS NOT NULL",
            (key_of(self.number, sealed), bounds[1]),
        ).fetchall()
        newest_type = [one.agent_type for _, one in sorted(self.listed.items())][-1:]
        head = row.head.evolve(
            agent_type=row.head.agent_type or "".join(newest_type),
            seq=max(done.seq, row.head.seq),
            commit_number=max(done.commit_number, row.head.commit_number),
            epoch=row.head.epoch + 1,
            owner=None,
            tip_seq=tip_seq,
            tip_id=tip_id,
            live=live,
            runs=sum(isinstance(record, RlmStart) for record in records),
        )
        row = row.evolve(
            head=head,
            user=self.user,
            chain=done.chain,
            open_states=open_states,
            state_seq=max(newest, sealed),
            listing=listing,
        )
        return self.whole.runs.replace(row, records)

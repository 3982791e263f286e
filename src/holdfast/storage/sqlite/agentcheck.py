"""The inspection of one agent: its records, checkpoints, states, indexes and inbox against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.history.fold import live_path, pending, runs
from holdfast.history.records import (
    CheckpointDeleted,
    CheckpointSaved,
    Record,
    Rewind,
    RlmComplete,
    RlmStart,
    snapshot_of,
)
from holdfast.storage.authenticity import unkeyed_hash
from holdfast.storage.heads import digest_of
from holdfast.storage.ids import id_from, stored_id
from holdfast.storage.sqlite.chain import Ends, links
from holdfast.storage.sqlite.inbox import opened
from holdfast.storage.sqlite.rows import untext
from holdfast.storage.sqlite.runlist import SUM, Row, row_of, run_of, share_of
from holdfast.storage.sqlite.schema import key_of, listing_share, seq_of, span
from holdfast.storage.sqlite.stateline import stretches

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.storage.sqlite.cells import AgentRow
    from holdfast.storage.sqlite.findings import Findings
    from holdfast.storage.sqlite.reader import Reader
    from holdfast.storage.sqlite.states import States

FOLDED: Final = (CheckpointSaved, CheckpointDeleted, Rewind, RlmStart, RlmComplete)
"""The records that the folds look at."""


class AgentCheck:
    """Inspects one agent. `row` is None when its head is damaged: then what can be checked without it is."""

    def __init__(
        self, reader: Reader, states: States, findings: Findings, number: int, agent_id: str, row: AgentRow | None
    ) -> None:
        self.reader = reader
        self.db = reader.db
        self.states = states
        self.findings = findings
        self.number = number
        self.agent_id = agent_id
        self.row = row
        self.saved: dict[int, tuple[CheckpointSaved, int]] = {}  # by position: the record and its commit number
        self.live: dict[str, int] = {}  # what the records say is live: position by id
        self.snapshots: dict[int, bytes] = {}  # the hashes that records give, by position
        self.folded: list[Record] = []
        self.broken = False  # a record is missing or damaged, so the folds are not certain
        self.listed: dict[int, Checkpoint] = {}  # the live checkpoints' heads, by position
        self.indexed = 0  # rows of `ids` that are right

    def run(self) -> None:
        for step in (
            self._check_records, self._check_head, self._check_checkpoints, self._check_ids, self._check_groups,
            self._check_states, self._check_pending, self._check_runs, self._check_snapshots, self._check_inbox,
        ):  # fmt: skip
            with self.findings.guard("agent", self.agent_id, agent_id=self.agent_id):
                step()

    def _damage(self, kind: str, id_: str, reason: str, seq: int | None = None) -> None:
        self.findings.add(kind, id_, reason, agent_id=self.agent_id, seq=seq)

    # --- records

    def _check_records(self) -> None:
        row, ends = self.row, None
        if row is not None:
            floor_chain = self.reader.rows.chain_at(row, row.head.floor)
            ends = Ends(floor=row.head.floor, floor_chain=floor_chain, seq=row.head.seq, chain=row.chain)
        self.broken = row is None
        try:
            cells = self.reader.cells
            first_chain = cells.first_chain(self.agent_id, self._user_id())
            for link in links(self.db, cells, self.number, self.agent_id, ends, first_chain=first_chain):
                if link.record is None:
                    self.broken = True
                    self._damage("record", str(link.seq), link.reason, link.seq)
                else:
                    self.findings.records += 1
                    self._take(link.record, link.commit_number)
        except BaseException:
            self.broken = True
            raise

    def _user_id(self) -> str:
        row = self.db.execute(
            "SELECT u.id FROM agents a JOIN users u ON u.number = a.user WHERE a.number = ?", (self.number,)
        ).fetchone()
        return "" if row is None else untext(row[0])

    def _take(self, record: Record, commit_number: int) -> None:
        if isinstance(record, CheckpointSaved):
            self.saved[record.seq] = (record, commit_number)
            self.live[record.id] = record.seq
        elif isinstance(record, CheckpointDeleted):
            self.live.pop(record.id, None)
        elif (hashed := snapshot_of(record)) is not None:
            self.snapshots[record.seq] = hashed
        if isinstance(record, FOLDED):
            self.folded.append(light(record))

    def _check_head(self) -> None:
        """What the head says, against what the records add up to."""
        if self.row is None or self.broken:
            return
        head = self.row.head
        saved = [(record.seq, record.id) for record in live_path(self.folded) if isinstance(record, CheckpointSaved)]
        expected = (*(saved[-1] if saved else (0, None)), sum(isinstance(record, RlmStart) for record in self.folded))
        if (head.tip_seq, head.tip_id, head.runs) != expected:
            self._damage("agent", self.agent_id, "its head is not what its records add up to")

    # --- checkpoints

    def _check_checkpoints(self) -> None:
        there: set[int] = set()
        listing = 0
        for found in self.db.execute(
            "SELECT key, user, commit_number, kind, head FROM checkpoints WHERE key BETWEEN ? AND ? ORDER BY key",
            span(self.number),
        ):
            seq = seq_of(found[0])
            if found[4] is not None:
                there.add(seq)
                listing += listing_share(found[0], found[2], found[3])
                self._check_checkpoint(seq, found)
            elif seq in self.live.values():
                self._damage("checkpoint", self._name(seq), "its row has lost its head", seq)
        self.findings.checkpoints += len(there)
        for id_, seq in self.live.items():
            if seq not in there:
                self._damage("checkpoint", id_, "its row is missing", seq)
        if self.row is not None and self.row.head.live != len(there):
            reason = f"{len(there)} checkpoints are there, but there must be {self.row.head.live}"
            self._damage("listing", self.agent_id, reason)
        elif self.row is not None and self.row.listing != listing:
            self._damage("listing", self.agent_id, "other checkpoints are there than its head accounts for")

    def _check_checkpoint(self, seq: int, found: tuple[int, int, int, int, bytes]) -> None:
        saved = self.saved.get(seq)
        if saved is None:
            self._damage("checkpoint", self._name(seq), "there is no sound record that it was saved", seq)
            return
        record, commit_number = saved
        if self.live.get(record.id) != seq and not self.broken:
            self._damage("checkpoint", record.id, "it was deleted, but its row is there again", seq)
            return
        if self.row is None:
            self._damage("checkpoint", record.id, "the head of its agent is damaged", seq)
            return
        with self.findings.guard("checkpoint", record.id, agent_id=self.agent_id, seq=seq):
            self.listed[seq] = self.reader.listed(self.row, found, record, commit_number)

    def _name(self, seq: int) -> str:
        """The id of the checkpoint at this position, from wherever it can still be learned."""
        if seq in self.saved:
            return self.saved[seq][0].id
        row = self.db.execute("SELECT id FROM ids WHERE key = ?", (key_of(self.number, seq),)).fetchone()
        return str(seq) if row is None else id_from(row[0])

    # --- indexes

    def _check_ids(self) -> None:
        for seq, (record, _) in self.saved.items():
            key = self.reader.rows.key(record.id)
            if key == key_of(self.number, seq):
                self.indexed += 1
            elif key is None or self.live.get(record.id) == seq:
                self.listed.pop(seq, None)
                self._damage("listing", record.id, "the index of ids does not lead to it", seq)

    def _check_groups(self) -> None:
        expected = {
            (stored_id(one.group_id), key_of(self.number, seq))
            for seq, one in self.listed.items()
            if one.group_id is not None
        }
        found = set(
            self.db.execute("SELECT id, key FROM groups WHERE key BETWEEN ? AND ?", span(self.number)).fetchall()
        )
        for id_, key in expected - found:
            self._damage("listing", id_from(id_), "the group has lost one of its checkpoints", seq_of(key))
        if not self.broken and len(self.listed) == len(self.live):
            for _, key in found - expected:
                self._damage("listing", self._name(seq_of(key)), "it is listed in a group it is not in", seq_of(key))

    def _check_pending(self) -> None:
        found = {
            (seq_of(key), what, untext(name))
            for key, what, name in self.db.execute(
                "SELECT key, what, name FROM pending WHERE key BETWEEN ? AND ?", span(self.number)
            ).fetchall()
        }
        if self.broken:
            return
        expected = {(begun.seq, begun.what, begun.name) for begun in pending(self.folded)}
        for seq, what, name in expected - found:
            self._damage("listing", name, f"the {what} is pending, but the list of what is lacks it", seq)
        for seq, what, name in found - expected:
            self._damage("listing", str(name), f"the {what} is listed as pending, which it is not", seq)

    def _check_runs(self) -> None:
        found: list[Row] = self.db.execute(
            "SELECT key, name, session, ended FROM runs WHERE key BETWEEN ? AND ?", span(self.number)
        ).fetchall()
        if not self.broken:
            expected = {row_of(self.number, run) for run in runs(self.folded)}
            for one in expected - {*found}:
                self._damage("listing", run_of(one).name, "the list of runs does not have it as it is", seq_of(one[0]))
            for key, name, *_ in {*found} - expected:
                self._damage("listing", str(untext(name)), "no run on the live path is as it is listed", seq_of(key))
        if self.row is not None and sum([share_of(one) for one in found]) % SUM != self.row.run_listing:
            self._damage("listing", self.agent_id, "other runs are listed than its head accounts for")

    # --- contents

    def _check_states(self) -> None:
        waiting = sorted(self.listed, reverse=True)
        for stretch in stretches(self.states, self.number):
            while waiting and waiting[-1] <= seq_of(stretch.last):
                seq = waiting.pop()
                self._check_state(seq, stretch.images.get(seq), stretch.reason)
        for seq in reversed(waiting):
            self._check_state(seq, None, "")

    def _check_state(self, seq: int, image: Image | None, reason: str) -> None:
        checkpoint = self.listed[seq]
        if image is None:
            self._damage("state", checkpoint.id, reason or "it is not there", seq)
            return
        with self.findings.guard("state", checkpoint.id, agent_id=self.agent_id, seq=seq):
            if digest_of(checkpoint, image) != self.saved[seq][0].digest:
                self._damage("state", checkpoint.id, "its content is not what its record says", seq)
                return
            image.decode()
            self.findings.whole.append(checkpoint.id)

    def _check_snapshots(self) -> None:
        """Snapshots are a cache: one that is gone is no damage, one that is wrong is."""
        for (key,) in self.db.execute(
            "SELECT key FROM snapshots WHERE key BETWEEN ? AND ?", span(self.number)
        ).fetchall():
            seq = seq_of(key)
            with self.findings.guard("snapshot", str(seq), agent_id=self.agent_id, seq=seq):
                if seq not in self.snapshots:
                    if not self.broken:
                        self._damage("snapshot", str(seq), "no record took it", seq)
                elif unkeyed_hash(self.reader.snapshots.load(key)) != self.snapshots[seq]:
                    self._damage("snapshot", str(seq), "it is not the one that was taken there", seq)

    def _check_inbox(self) -> None:
        head = None if self.row is None else self.row.head
        there: set[int] = set()
        for key, cell in self.db.execute("SELECT key, body FROM inbox WHERE key BETWEEN ? AND ?", span(self.number)):
            seq = seq_of(key)
            there.add(seq)
            with self.findings.guard("inbox", str(seq), agent_id=self.agent_id, seq=seq):
                opened(self.reader.cells, key, cell, self.agent_id)
        if head is None:
            return
        for seq in sorted(set(range(head.inbox_acknowledged + 1, head.inbox_last + 1)) - there):
            self._damage("inbox", str(seq), "the message is missing", seq)
        for seq in sorted(seq for seq in there if seq > head.inbox_last):
            self._damage("inbox", str(seq), "nobody sent this message", seq)


def light(record: Record) -> Record:
    """The record without its bulk: only its place in the folds is wanted."""
    if isinstance(record, RlmStart):
        return record.evolve(code="", preamble="")
    if isinstance(record, RlmComplete):
        return record.evolve(output=None, print_output="", error=None, snapshot=None)
    return record if isinstance(record, FOLDED) else Record(seq=record.seq, at=record.at)

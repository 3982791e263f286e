"""Histories on their way out of a store and into another, as lines of the wire format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holdfast.durable.past import Past
from holdfast.errors import DuplicateId, InvalidImport
from holdfast.history.fold import live_path
from holdfast.history.prints import cumulative, relative
from holdfast.history.records import (
    CheckpointDeleted,
    CheckpointSaved,
    Record,
    Rewind,
    RlmComplete,
    RlmToolCall,
    snapshot_of,
)
from holdfast.history.wire import dumps_line, from_wire, loads_line, to_wire
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Change

if TYPE_CHECKING:
    from holdfast.storage.protocol import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What came in, and what was left out because an export does not carry it."""

    records: int
    checkpoints_left_out: int
    snapshots_left_out: int


Snapshots = Literal["kept", "rebuild", "none"]


async def export_lines(
    store: Store, agent_id: str, *, everything: bool = False, snapshots: Snapshots = "kept"
) -> list[str]:
    """The agent's history, oldest first, each record as a line without its line feed; a fork's begins with its past.

    Without `everything` it is the live path. Of the interpreter's snapshots it has those that are kept, none, or, with
    "rebuild", one at every call: those that are not kept are made again by a replay.
    """
    records = await Past(store).history(agent_id)
    if not everything:
        records = live_path(records)
    if snapshots == "none":
        records = [_without_snapshot(record) for record in records]
    elif snapshots == "rebuild":
        from holdfast.durable.runs.rebuilding import with_snapshots  # only this needs what programs run in

        records = await with_snapshots(records)
    return [dumps_line(to_wire(record)) for record in cumulative(records)]


def parse_lines(lines: Iterable[str | bytes]) -> list[Record]:
    """The records of an export. A line that is none is `InvalidImport` with its number; empty lines are passed over."""
    records: list[Record] = []
    seen = {0}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                records.append(_record_in(line, seen))
            except InvalidImport as error:
                raise InvalidImport(f"Line {number}: {error.message}", line=number, **error.ids) from error
    return records


def _record_in(line: str | bytes, seen: set[int]) -> Record:
    record = from_wire(loads_line(line))
    if isinstance(record, Rewind) and record.to not in seen:
        raise InvalidImport(f"It rewinds to record {record.to}, which does not come before it", seq=record.seq)
    seen.add(record.seq)
    return record


async def import_lines(store: Store, records: Sequence[Record], *, agent_id: str, user_id: str) -> Imported:
    """Gives a new agent this history, in one commit. An agent that exists is `DuplicateId`.

    Records of checkpoints are left out: their states are no part of an export. Snapshots are left out, because
    this store's key did not sign them; a run is replayed instead. Times are kept, numbers are given anew.
    """
    if await store.agent(agent_id) is not None:
        raise DuplicateId(
            f"There is an agent {agent_id} already", agent_id=agent_id, hint="Import into an agent of another name."
        )
    # What an erased agent leaves behind is its last number: a commit that deletes nothing tells it.
    [before] = await store.commit(Change(agent_id=agent_id, user_id=user_id, delete=(new_id(),)))
    moved = _renumbered(records, first=before.last_seq + 1)
    if moved:
        await store.commit(Change(agent_id=agent_id, user_id=user_id, records=tuple(moved)))
    return Imported(
        records=len(moved),
        checkpoints_left_out=sum(isinstance(record, CheckpointSaved | CheckpointDeleted) for record in records),
        snapshots_left_out=sum(snapshot_of(record) is not None for record in records),
    )


def _renumbered(records: Sequence[Record], *, first: int) -> list[Record]:
    """The records that come in, with the rewinds among them pointing at where their targets are now."""
    moved: list[Record] = []
    places: dict[int, int] = {}  # the number in the export → the last number here that it stands behind
    for record in relative(records):
        if isinstance(record, Rewind):
            moved.append(Rewind(at=record.at, to=places.get(record.to, first - 1)))
        elif not isinstance(record, CheckpointSaved | CheckpointDeleted):
            moved.append(_without_snapshot(record).evolve(seq=0))
        places[record.seq] = first - 1 + len(moved)
    return moved


def _without_snapshot(record: Record) -> Record:
    if isinstance(record, RlmToolCall):
        return record.evolve(snapshot=None, snapshot_seq=None)
    return record.evolve(snapshot=None) if isinstance(record, RlmComplete) else record

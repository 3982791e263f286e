"""The folds over a history: its live path, the model's context, what is pending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.history.checkpoint import Kind
from holdfast.history.records import (
    CheckpointDeleted,
    CheckpointSaved,
    Record,
    Rewind,
    RlmComplete,
    RlmStart,
)


def live_path(records: Iterable[Record]) -> list[Record]:
    """The records that count now. Each `rewind` goes on from the path as it was at the position it names,
    be that on the path now or on one that was left before.

    Where the numbers begin anew, a fork's own records follow the past that it shares: no rewind reaches back there.
    """
    past: list[Record] = []
    known: dict[int, tuple[Record | None, int]] = {}  # by position: the record, and the path's position before it
    here = last = 0
    for record in records:
        if record.seq <= last:
            past += _path(known, here)
            known, here = {}, 0
        last = record.seq
        if isinstance(record, Rewind):
            here = record.to if record.to in known else max((seq for seq in known if seq <= record.to), default=0)
            known[record.seq] = (None, here)
        else:
            known[record.seq] = (record, here)
            here = record.seq
    return past + _path(known, here)


def _path(known: dict[int, tuple[Record | None, int]], here: int) -> list[Record]:
    """The records on the way back from a position, in their order."""
    path: list[Record] = []
    while here in known:
        found, here = known[here]
        if found is not None:
            path.append(found)
    path.reverse()
    return path


def context(records: Iterable[Record]) -> list[Record]:
    """What a model's context is rebuilt from: the live path without the internal records."""
    return [record for record in live_path(records) if not record.internal]


@dataclass(frozen=True, slots=True)
class Begun:
    """Something that was begun at a position: a run by its call id, an operation by its checkpoint id."""

    what: str
    name: str
    seq: int


def begins(record: Record) -> Begun | None:
    """What this record leaves pending."""
    if isinstance(record, RlmStart):
        return Begun("run", record.tool_call_id, record.seq)
    if isinstance(record, CheckpointSaved) and record.kind == Kind.PRE_OPERATION:
        return Begun("operation", record.id, record.seq)
    return None


def ends(record: Record) -> tuple[str, str] | None:
    """What is no longer pending after this record: (what, name)."""
    if isinstance(record, RlmComplete):
        return ("run", record.tool_call_id)
    if isinstance(record, CheckpointDeleted):
        return ("operation", record.id)
    return None


@dataclass(frozen=True, slots=True)
class Run:
    """A run on the live path: its name, and the positions of its rlm_start and rlm_complete."""

    name: str
    session: str | None
    start: int
    end: int | None = None


def runs(records: Iterable[Record]) -> list[Run]:
    """The runs that the live path begins, oldest first. What ends a name ends the one that was begun last."""
    found: dict[int, Run] = {}
    newest: dict[str, int] = {}  # by name: where it was begun last
    for record in live_path(records):
        if isinstance(record, RlmStart):
            found[record.seq] = Run(record.tool_call_id, record.session, record.seq)
            newest[record.tool_call_id] = record.seq
        elif isinstance(record, RlmComplete) and (start := newest.pop(record.tool_call_id, None)) is not None:
            found[start] = replace(found[start], end=record.seq)
    return list(found.values())


def pending(records: Iterable[Record]) -> list[Begun]:
    """What the live path begins and does not end, oldest first. A deletion counts on whichever path it lies."""
    everything = list(records)
    deleted = {record.id: record.seq for record in everything if isinstance(record, CheckpointDeleted)}
    open_now: dict[tuple[str, str], Begun] = {}
    for record in live_path(everything):
        begun = begins(record)
        if begun and not (begun.what == "operation" and deleted.get(begun.name, 0) > begun.seq):
            open_now[begun.what, begun.name] = begun
        elif ended := ends(record):
            open_now.pop(ended, None)
    return list(open_now.values())

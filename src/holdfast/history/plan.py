"""A plan: what turns one image into another, but for the bytes that come in.

It is written as varints, so that an append costs about ten bytes besides what was appended:

    plan    = flags, [skeleton edit], [strand count, source …], strand …
    source  = 0, path  (a new list)  |  1 + index of the base's strand of the same path
    strand  = region count; 0: as it was; else regions, then the number of elements in the last chunk
    region  = chunks kept before it, base chunks replaced, new chunks, edit, sizes of the new chunks but the last
    edit    = bytes kept at the end, bytes removed before those, bytes added in their place

The added bytes of all edits, in this order, are kept beside the plan, so that they can be compressed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt
from holdfast.history.image import STRANDS_MAX, Path
from holdfast.history.varint import Reader, write_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKELETON_CHANGED = 1
_STRANDS_CHANGED = 2


@dataclass(slots=True)
class Edit:
    """A run of bytes in which `removed` bytes before the last `suffix` ones become `added` others."""

    suffix: int
    removed: int
    added: int


@dataclass(slots=True)
class Region:
    """Consecutive chunks that become others."""

    kept: int
    replaced: int
    count: int  # of the new chunks
    sizes: list[int]  # of the new chunks but the last, whose size follows from the edit
    edit: Edit


@dataclass(slots=True)
class StrandPlan:
    """What happens to one strand. `source` is the base's strand, or -1 for a new one."""

    source: int
    path: Path = ()
    regions: list[Region] = field(default_factory=list)
    last_count: int = 0


@dataclass(slots=True)
class Plan:
    """What turns the base into the image, but for the added bytes."""

    skeleton: Edit | None
    strands: list[StrandPlan]
    restructured: bool

    def edits(self) -> Iterator[Edit]:
        """Every edit, in the order in which their added bytes are kept."""
        if self.skeleton:
            yield self.skeleton
        for strand in self.strands:
            for region in strand.regions:
                yield region.edit


def write(plan: Plan, out: bytearray) -> None:
    """Append the plan to `out`."""
    out.append((_SKELETON_CHANGED if plan.skeleton else 0) | (_STRANDS_CHANGED if plan.restructured else 0))
    if plan.skeleton:
        _write_edit(plan.skeleton, out)
    if plan.restructured:
        write_number(len(plan.strands), out)
        for strand in plan.strands:
            write_number(strand.source + 1, out)
            if strand.source < 0:
                _write_path(strand.path, out)
    for strand in plan.strands:
        write_number(len(strand.regions), out)
        for region in strand.regions:
            write_number(region.kept, out)
            write_number(region.replaced, out)
            write_number(region.count, out)
            _write_edit(region.edit, out)
            for size in region.sizes:
                write_number(size, out)
        if strand.regions:
            out.append(strand.last_count)


def _write_edit(edit: Edit, out: bytearray) -> None:
    write_number(edit.suffix, out)
    write_number(edit.removed, out)
    write_number(edit.added, out)


def _write_path(path: Path, out: bytearray) -> None:
    write_number(len(path), out)
    for key in path:
        name = key.encode()
        write_number(len(name), out)
        out += name


def read(reader: Reader, lists: int) -> Plan:
    """The plan at the reader's position; its base has that many strands. Raises Corrupt if there is none."""
    flags = reader.number()
    if flags > (_SKELETON_CHANGED | _STRANDS_CHANGED):
        raise Corrupt("A difference is of a form that this version does not know")
    skeleton = _read_edit(reader) if flags & _SKELETON_CHANGED else None
    restructured = bool(flags & _STRANDS_CHANGED)
    strands = _read_strands(reader) if restructured else [StrandPlan(index) for index in range(lists)]
    for strand in strands:
        regions = reader.number()
        for _ in range(regions):
            strand.regions.append(_read_region(reader))
        if regions:
            strand.last_count = reader.number()
    return Plan(skeleton, strands, restructured)


def _read_strands(reader: Reader) -> list[StrandPlan]:
    count = reader.number()
    if count > STRANDS_MAX:
        raise Corrupt("A difference has more lists than a state can have")
    strands = []
    for _ in range(count):
        source = reader.number() - 1
        strands.append(StrandPlan(source, _read_path(reader) if source < 0 else ()))
    sources = [strand.source for strand in strands if strand.source >= 0]
    if len(set(sources)) < len(sources):
        raise Corrupt("A difference uses a list of its base twice")
    return strands


def _read_path(reader: Reader) -> Path:
    keys = [reader.take(reader.number()) for _ in range(reader.number())]
    try:
        return tuple([key.decode() for key in keys])
    except UnicodeDecodeError:
        raise Corrupt("A difference names a list in no known encoding") from None


def _read_region(reader: Reader) -> Region:
    kept, replaced, count = reader.number(), reader.number(), reader.number()
    edit = _read_edit(reader)
    sizes = [reader.number() for _ in range(count - 1)]
    return Region(kept, replaced, count, sizes, edit)


def _read_edit(reader: Reader) -> Edit:
    return Edit(reader.number(), reader.number(), reader.number())

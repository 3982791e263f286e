"""How one image differs from another: which chunks stay, and which bytes go in between.

A plan is written as varints, so that an append costs about ten bytes besides what was appended:

    plan    = flags, [skeleton edit], [strand count, source …], strand …
    source  = 0, path  (a new list)  |  1 + index of the base's strand of the same path
    strand  = region count; 0: as it was; else regions, then the number of elements in the last chunk
    region  = chunks kept before it, base chunks replaced, new chunks, edit, sizes of the new chunks but the last
    edit    = bytes kept at the end, bytes removed before those, bytes added in their place

The added bytes of all edits, in this order, are kept beside the plan, so that they can be compressed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.history.image import CHUNK_ELEMENTS, STRANDS_MAX, Chunk, Image, Path, Strand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOTHING: Final = Image(b"", ())  # the base of what has none

_SKELETON_CHANGED = 1
_STRANDS_CHANGED = 2
_SHIFT_MAX = 56  # no number has more than 9 bytes


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


def compare(image: Image, base: Image) -> tuple[Plan, list[bytes]]:
    """The plan from `base` to `image`, and the bytes that it adds."""
    added: list[bytes] = []
    skeleton = None if image.skeleton == base.skeleton else _edit(base.skeleton, image.skeleton, added)
    same_lists = [strand.path for strand in image.strands] == [strand.path for strand in base.strands]
    places = {strand.path: index for index, strand in enumerate(base.strands)}
    strands = []
    for strand in image.strands:
        source = places.get(strand.path, -1)
        before = base.strands[source].chunks if source >= 0 else ()
        regions = _regions(strand.chunks, before, added) if strand.chunks is not before else []
        last_count = strand.chunks[-1].count if regions else 0
        strands.append(StrandPlan(source, strand.path, regions, last_count))
    return Plan(skeleton, strands, not same_lists), added


def _regions(new: Sequence[Chunk], old: Sequence[Chunk], added: list[bytes]) -> list[Region]:
    """Runs of chunks that differ at the same index; the last one takes what is longer in either list."""
    common = min(len(new), len(old))
    regions: list[Region] = []
    done = 0
    while True:
        start = done
        while start < common and _same(new[start], old[start]):
            start += 1
        if start == len(new) == len(old):
            return regions
        end = start
        while end < common and not _same(new[end], old[end]):
            end += 1
        old_end, new_end = (len(old), len(new)) if end == common else (end, end)
        bodies = [chunk.body for chunk in new[start:new_end]]
        edit = _edit(joined(old[start:old_end]), b"".join(bodies), added)
        sizes = [len(body) for body in bodies[:-1]]
        regions.append(Region(start - done, old_end - start, len(bodies), sizes, edit))
        if end == common:
            return regions
        done = end


def _same(a: Chunk, b: Chunk) -> bool:
    return a is b or a.body == b.body


def _edit(old: bytes, new: bytes, added: list[bytes]) -> Edit:
    prefix = _common_prefix(old, new)
    suffix = _common_suffix(old, new, min(len(old), len(new)) - prefix)
    middle = new[prefix : len(new) - suffix]
    added.append(middle)
    return Edit(suffix, len(old) - prefix - suffix, len(middle))


def _common_prefix(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    if b.startswith(a if len(a) == high else a[:high]):
        return high
    while low + 1 < high:  # a[:low] is common, a[:high] is not; each step compares only what is new
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _common_suffix(a: bytes, b: bytes, most: int) -> int:
    if not most or a[-1] != b[-1]:
        return 0
    a_end, b_end = len(a), len(b)
    if a[a_end - most :] == b[b_end - most :]:
        return most
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if a[a_end - middle : a_end - low] == b[b_end - middle : b_end - low]:
            low = middle
        else:
            high = middle
    return low


def joined(chunks: Sequence[Chunk]) -> bytes:
    """The chunks' bodies as one; of a single chunk, its own."""
    return chunks[0].body if len(chunks) == 1 else b"".join([chunk.body for chunk in chunks])


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


def write_number(number: int, out: bytearray) -> None:
    """Append a number in as many bytes as it needs, 7 bits in each."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class Reader:
    """Reads what `write` wrote; whatever else it meets is Corrupt."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self) -> int:
        """The number at the position."""
        data, position = self.data, self.position
        try:
            number = data[position]
            if number > 0x7F:
                number &= 0x7F
                shift = 7
                while data[position := position + 1] > 0x7F and shift < _SHIFT_MAX:
                    number |= (data[position] & 0x7F) << shift
                    shift += 7
                number |= data[position] << shift
        except IndexError:
            raise Corrupt("A difference ends too early") from None
        self.position = position + 1
        return number

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.position + size
        if end > len(self.data):
            raise Corrupt("A difference ends too early")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def plan(self, lists: int) -> Plan:
        """The plan at the position; its base has that many strands."""
        flags = self.number()
        if flags > (_SKELETON_CHANGED | _STRANDS_CHANGED):
            raise Corrupt("A difference is of a form that this version does not know")
        skeleton = self._edit() if flags & _SKELETON_CHANGED else None
        restructured = bool(flags & _STRANDS_CHANGED)
        strands = self._strands() if restructured else [StrandPlan(index) for index in range(lists)]
        for strand in strands:
            regions = self.number()
            for _ in range(regions):
                strand.regions.append(self._region())
            if regions:
                strand.last_count = self.number()
        return Plan(skeleton, strands, restructured)

    def _strands(self) -> list[StrandPlan]:
        count = self.number()
        if count > STRANDS_MAX:
            raise Corrupt("A difference has more lists than a state can have")
        strands = []
        for _ in range(count):
            source = self.number() - 1
            strands.append(StrandPlan(source, self._path() if source < 0 else ()))
        if len({strand.source for strand in strands if strand.source >= 0}) < sum(s.source >= 0 for s in strands):
            raise Corrupt("A difference uses a list of its base twice")
        return strands

    def _path(self) -> Path:
        keys = [self.take(self.number()) for _ in range(self.number())]
        try:
            return tuple([key.decode() for key in keys])
        except UnicodeDecodeError:
            raise Corrupt("A difference names a list in no known encoding") from None

    def _region(self) -> Region:
        kept, replaced, count = self.number(), self.number(), self.number()
        edit = self._edit()
        sizes = [self.number() for _ in range(count - 1)]
        return Region(kept, replaced, count, sizes, edit)

    def _edit(self) -> Edit:
        return Edit(self.number(), self.number(), self.number())


def apply(plan: Plan, added: Iterator[bytes], base: Image, *, max_bytes: int) -> Image:
    """The image that `compare` compared with `base`. `added` gives the bytes of one edit after the other."""
    skeleton = base.skeleton
    if plan.skeleton:
        skeleton = _edited(skeleton, plan.skeleton, next(added))
    strands: list[Strand] = []
    size = len(skeleton)
    for planned in plan.strands:
        strand = _spliced(planned, added, base)
        strands.append(strand)
        size += strand.size
    if size > max_bytes:
        raise Corrupt(f"A state would have {size} bytes, more than the {max_bytes} that are allowed")
    return Image(skeleton, tuple(strands))


def _spliced(plan: StrandPlan, added: Iterator[bytes], base: Image) -> Strand:
    if plan.source >= len(base.strands):
        raise Corrupt("A difference does not fit its base: it has fewer lists")
    source = base.strands[plan.source] if plan.source >= 0 else None
    if source is not None and not plan.regions:
        return source
    old = source.chunks if source else ()
    chunks: list[Chunk] = []
    place = 0
    for region in plan.regions:
        start = place + region.kept
        chunks += old[place:start]
        place = start + region.replaced
        if place > len(old):
            raise Corrupt("A difference does not fit its base: a list is shorter")
        if start == len(old) and old and old[-1].count != CHUNK_ELEMENTS:
            raise Corrupt("A difference does not fit its base: a list would have a gap")
        last = plan.last_count if region is plan.regions[-1] and place == len(old) else CHUNK_ELEMENTS
        chunks += _cut(region, old[start:place], next(added), last)
    chunks += old[place:]
    if not chunks or chunks[-1].count != plan.last_count or not 0 < plan.last_count <= CHUNK_ELEMENTS:
        raise Corrupt("A difference does not fit its base: a list would have another length")
    if source is None:
        return Strand(plan.path, tuple(chunks))
    growth = sum([region.edit.added - region.edit.removed for region in plan.regions])
    return Strand(source.path, tuple(chunks), source.size + growth)


def _cut(region: Region, old: Sequence[Chunk], added: bytes, last_count: int) -> list[Chunk]:
    """The new chunks of a region; each may have grown from the old one at its place."""
    data = _edited(joined(old), region.edit, added)
    sizes = [*region.sizes, len(data) - sum(region.sizes)] if region.count else []
    if any(size <= 0 for size in sizes) or (data and not sizes):
        raise Corrupt("A difference has pieces that don't add up")
    chunks = []
    place = 0
    for number, size in enumerate(sizes):
        count = last_count if number == len(sizes) - 1 else CHUNK_ELEMENTS
        body = data if size == len(data) else data[place : place + size]
        chunks.append(Chunk(body, count, old[number] if number < len(old) else None))
        place += size
    return chunks


def _edited(old: bytes, edit: Edit, added: bytes) -> bytes:
    end = len(old) - edit.suffix
    if end < edit.removed:
        raise Corrupt("A difference does not fit its base: it is too short")
    return b"".join((old[: end - edit.removed], added, old[end:]))

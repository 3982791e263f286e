"""How one image differs from another: which chunks stay, and which bytes go in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.history.image import CHUNK_ELEMENTS, Chunk, Image, Strand
from holdfast.history.plan import Edit, Plan, Region, StrandPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOTHING: Final = Image(b"", ())  # the base of what has none


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


def apply(plan: Plan, added: Iterator[memoryview], base: Image, *, max_bytes: int) -> Image:
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


def _spliced(plan: StrandPlan, added: Iterator[memoryview], base: Image) -> Strand:
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


def _cut(region: Region, old: Sequence[Chunk], added: memoryview, last_count: int) -> list[Chunk]:
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


def _edited(old: bytes, edit: Edit, added: memoryview) -> bytes:
    end = len(old) - edit.suffix
    if end < edit.removed:
        raise Corrupt("A difference does not fit its base: it is too short")
    return b"".join((old[: end - edit.removed], added, old[end:]))

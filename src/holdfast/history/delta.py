"""A delta: the bytes from which one image can be made out of another, alone or 64 versions sealed together.

    delta    = head, added bytes in total, plan, the added bytes
    segment  = head, versions, which of them live, added bytes in total, plans (size, packed size, packed),
               the added bytes

The last version of a segment differs from the segment's base; each earlier one from the next later living one, so a
version that only appended costs its successor's cut. What a delta adds is compressed with what it replaces, and what
comes before that, as context.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt, InvalidArgument, TooLarge
from holdfast.history import zstd
from holdfast.history.plan import Plan, read, write
from holdfast.history.splice import NOTHING, apply, compare, joined
from holdfast.history.varint import Reader, write_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.history.image import Chunk, Image

MAX_BYTES: Final = zstd.MAX_BYTES
SEGMENT_VERSIONS: Final = 64

_DELTA = 0x10
_SEGMENT = 0x20
_KIND = 0xF0
_NEEDS_BASE = 0x08
_PLANS_PACKED = 0x04
_PACKING = 0x03
_RAW, _ALONE, _IN_CONTEXT = 0, 1, 2

_TRIFLE_BYTES = 32  # less than this is not worth a try
_LITTLE_BYTES = 2 * 1024
_SMALL_BYTES = 16 * 1024
_CONTEXT_BYTES = 8 * 1024
_LARGE_CONTEXT_BYTES = 128 * 1024
_PLANS_BYTES_MAX = 1024 * 1024  # plans grow a lot when they are read, so no few bytes may turn into more of them


def encode(image: Image, base: Image | None, packer: zstd.Packer | None = None) -> bytes:
    """The bytes from which `decode` makes `image` again, given the same base.

    With a packer, what merely appends a little is compressed alone, in a quarter of the time; a sealed segment will
    compress it with its context. Raises TooLarge for an image that no decoder would make again.
    """
    _decodable(image.size, "A state")
    plan, pieces = compare(image, base or NOTHING)
    added = b"".join(pieces)
    if packer is not None and _appends_little(plan):
        packing, packed = _pack_with(packer.pack, added, _ALONE)
    else:
        packing, packed = _pack(added, _context(plan, base or NOTHING), level=1)
    out = bytearray([_DELTA | packing | (_NEEDS_BASE if base else 0)])
    write_number(len(added), out)
    write(plan, out)
    out += packed
    return bytes(out)


def decode(data: bytes, base: Image | None, *, max_bytes: int = MAX_BYTES) -> Image:
    """The image that `encode` was given. Unchanged chunks are the base's own objects.

    Raises Corrupt for anything else than a delta on this base that stays within `max_bytes`.
    """
    head, before = _head(data, _DELTA, base)
    reader = Reader(data, 1)
    size = _bounded(reader.number(), max_bytes)
    plan = read(reader, len(before.strands))
    context = _context(plan, before) if head & _PACKING == _IN_CONTEXT else b""
    added = _unpack(head & _PACKING, data[reader.position :], size, context)
    pieces = _Pieces(added)
    image = apply(plan, pieces.of(plan), before, max_bytes=max_bytes)
    pieces.finish()
    return image


def decode_chain(deltas: Iterable[bytes], base: Image | None = None, *, max_bytes: int = MAX_BYTES) -> Image:
    """The last image of a chain in which each delta's base is the image before; the first one's is `base`."""
    image = base
    for data in deltas:
        image = decode(data, image, max_bytes=max_bytes)
    if image is None:
        raise Corrupt("A chain of differences is empty")
    return image


def seal(images: Sequence[Image | None], base: Image | None) -> bytes:
    """Up to 64 consecutive versions as one unit; a dead version is None and costs nothing.

    Raises InvalidArgument if there are more, or none that lives, and TooLarge if together they are more than a decoder
    would make: seal fewer then.
    """
    living = [image for image in images if image is not None]
    if not living or len(images) > SEGMENT_VERSIONS:
        raise InvalidArgument(f"A segment holds 1 to {SEGMENT_VERSIONS} versions")
    _decodable(sum([image.size for image in living]), "A segment")
    living.reverse()
    plans = bytearray()
    first, pieces = compare(living[0], base or NOTHING)
    write(first, plans)
    for later, image in pairwise(living):
        plan, more = compare(image, later)
        write(plan, plans)
        pieces += more
    added = b"".join(pieces)
    packing, packed = _pack(added, _context(first, base or NOTHING), level=3)
    plans_packing, plans_packed = _RAW, bytes(plans)
    if len(plans) <= _PLANS_BYTES_MAX:
        plans_packing, plans_packed = _pack(plans_packed, b"", level=3)
    head = _SEGMENT | packing | (_NEEDS_BASE if base else 0) | (_PLANS_PACKED if plans_packing else 0)
    out = bytearray([head, len(images)])
    alive = sum(1 << index for index, image in enumerate(images) if image is not None)
    out += alive.to_bytes((len(images) + 7) // 8, "little")
    for number in (len(added), len(plans), len(plans_packed)):
        write_number(number, out)
    return bytes(out) + plans_packed + packed


def unseal(data: bytes, index: int, base: Image | None, *, max_bytes: int = MAX_BYTES) -> Image:
    """The version at `index` of the sealed ones. Raises Corrupt if it is dead, or `data` is no segment."""
    segment = _Segment(data, base, max_bytes)
    if index not in segment.living:
        raise Corrupt(f"A segment has no version {index}")
    steps = segment.living.index(index)
    return next(islice(segment.versions(), steps, None))


def unseal_all(data: bytes, base: Image | None, *, max_bytes: int = MAX_BYTES) -> list[Image | None]:
    """All versions in their order, None for each dead one."""
    segment = _Segment(data, base, max_bytes)
    images: list[Image | None] = [None] * segment.count
    for index, image in zip(segment.living, segment.versions(), strict=True):
        images[index] = image
    segment.pieces.finish()
    return images


def needs_base(data: bytes) -> bool:
    """Whether a delta or segment was made on a base, or stands alone."""
    return bool(data) and bool(data[0] & _NEEDS_BASE)


def extent(data: bytes, *, max_bytes: int = MAX_BYTES) -> int:
    """How many bytes a delta or segment declares to add. Raises Corrupt if that is over `max_bytes`."""
    kind = data[0] & _KIND if data else 0
    if kind == _DELTA:
        return _bounded(Reader(data, 1).number(), max_bytes)
    if kind == _SEGMENT:
        reader = Reader(data, 1)
        reader.take((reader.number() + 7) // 8)
        return _bounded(reader.number(), max_bytes)
    raise Corrupt("These bytes are no difference between states")


class _Segment:
    """A segment, opened: its bytes decompressed, its versions not yet made."""

    def __init__(self, data: bytes, base: Image | None, max_bytes: int) -> None:
        head, self.base = _head(data, _SEGMENT, base)
        reader = Reader(data, 1)
        self.count = reader.number()
        if self.count > SEGMENT_VERSIONS:
            raise Corrupt("A segment declares too many versions")
        alive = int.from_bytes(reader.take((self.count + 7) // 8), "little")
        self.living = [index for index in reversed(range(self.count)) if alive >> index & 1]
        size = _bounded(reader.number(), max_bytes)
        plans_size = reader.number()
        plans = reader.take(reader.number())
        if head & _PLANS_PACKED:
            plans = zstd.decompress(plans, size=_bounded(plans_size, _PLANS_BYTES_MAX))
        self.max_bytes = max_bytes
        self.plans = Reader(plans)
        self.first = read(self.plans, len(self.base.strands))
        context = _context(self.first, self.base) if head & _PACKING == _IN_CONTEXT else b""
        self.pieces = _Pieces(_unpack(head & _PACKING, data[reader.position :], size, context))

    def versions(self) -> Iterator[Image]:
        """The living versions, the last first."""
        image, left = self.base, self.max_bytes
        for number in range(len(self.living)):
            plan = read(self.plans, len(image.strands)) if number else self.first
            image = apply(plan, self.pieces.of(plan), image, max_bytes=left)
            left -= image.size
            yield image


class _Pieces:
    """The added bytes, handed out edit by edit."""

    def __init__(self, added: bytes) -> None:
        self.added = memoryview(added)  # a piece is copied once, into what it becomes a part of
        self.place = 0

    def of(self, plan: Plan) -> Iterator[memoryview]:
        for edit in plan.edits():
            end = self.place + edit.added
            if end > len(self.added):
                raise Corrupt("A difference adds less than its plan says")
            piece = self.added[self.place : end]
            self.place = end
            yield piece

    def finish(self) -> None:
        if self.place != len(self.added):
            raise Corrupt("A difference adds more than its plan says")


def _head(data: bytes, kind: int, base: Image | None) -> tuple[int, Image]:
    head = data[0] if data else 0
    if head & _KIND != kind or head & _PACKING > _IN_CONTEXT:
        raise Corrupt("These bytes are no difference between states that this version knows")
    if not head & _NEEDS_BASE:
        return head, NOTHING
    if base is None:
        raise Corrupt("A difference between states lacks its base")
    return head, base


def _bounded(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise Corrupt(f"A difference declares {size} bytes, more than the {max_bytes} that are allowed")
    return size


def _decodable(size: int, what: str) -> None:
    if size > MAX_BYTES:
        raise TooLarge(f"{what} of {size} bytes is more than the {MAX_BYTES} that can be read again")


def _pack(added: bytes, context: bytes, *, level: int) -> tuple[int, bytes]:
    """How the bytes are packed best, and the result."""
    return _pack_with(
        lambda data: zstd.compress(data, prefix=context, level=level), added, _IN_CONTEXT if context else _ALONE
    )


def _appends_little(plan: Plan) -> bool:
    """Whether next to nothing is replaced: what came before would tell a compressor little then."""
    added = sum([edit.added for edit in plan.edits()])
    return added <= _LITTLE_BYTES and sum([edit.removed for edit in plan.edits()]) <= _TRIFLE_BYTES


def _pack_with(pack: Callable[[bytes], bytes], added: bytes, packing: int) -> tuple[int, bytes]:
    if len(added) >= _TRIFLE_BYTES:
        packed = pack(added)
        if len(packed) < len(added):
            return packing, packed
    return _RAW, added


def _unpack(packing: int, packed: bytes, size: int, context: bytes) -> bytes:
    if packing != _RAW:
        return zstd.decompress(packed, size=size, prefix=context)
    if len(packed) != size:
        raise Corrupt("A difference does not have the size that it declares")
    return packed


def _context(plan: Plan, base: Image) -> bytes:
    """What the added bytes are likely to repeat: what they replace, and some of what stands before that.

    Both sides work it out from the plan. Each edit gets a share that grows with it; all shares together never are
    more than the base and a little, whatever a forged plan claims.
    """
    edits = list(plan.edits())
    total = sum([edit.added for edit in edits])
    if total < _TRIFLE_BYTES or base is NOTHING:
        return b""
    back = _CONTEXT_BYTES if total <= _SMALL_BYTES else _LARGE_CONTEXT_BYTES
    weight = total + sum([edit.removed for edit in edits])
    room = base.size + back
    parts: list[bytes] = []

    def share(removed: int, added: int) -> int:
        return min(room, back * (removed + added) // weight + min(removed, 4 * added + back))

    if plan.skeleton:
        end = max(0, len(base.skeleton) - plan.skeleton.suffix)
        start = max(0, end - share(plan.skeleton.removed, plan.skeleton.added))
        parts.append(base.skeleton[start:end])
        room -= end - start
    for strand in plan.strands:
        if not 0 <= strand.source < len(base.strands):
            continue
        chunks = base.strands[strand.source].chunks
        place = 0
        for region in strand.regions:
            start = place + region.kept
            place = start + region.replaced
            edit = region.edit
            part = _ending(chunks, start, place, edit.suffix, share(edit.removed, edit.added))
            parts.append(part)
            room -= len(part)
    return b"".join(parts)


def _ending(chunks: Sequence[Chunk], start: int, end: int, suffix: int, size: int) -> bytes:
    """Up to `size` bytes before the last `suffix` ones of the chunks from `start` to `end`, or further back."""
    if end > len(chunks) or not size:
        return b""
    while end > start and suffix >= len(chunks[end - 1].body):
        end -= 1
        suffix -= len(chunks[end].body)
    start = end
    missing = size + suffix
    while start and missing > 0:
        start -= 1
        missing -= len(chunks[start].body)
    body = joined(chunks[start:end])
    stop = len(body) - suffix
    return body[max(0, stop - size) : stop] if stop > 0 else b""

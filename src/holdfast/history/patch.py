"""A patch: opaque bytes (an interpreter's snapshot) as what they add to an earlier version of themselves."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Corrupt, TooLarge
from holdfast.history import zstd
from holdfast.history.varint import Reader, write_number

MAX_BYTES: Final = zstd.MAX_BYTES
SEGMENT_VERSIONS: Final = 64

_PATCH = 0x30
_KIND = 0xF0
_RAW, _ALONE, _ON_BASE = 0, 1, 2


def encode(data: bytes, base: bytes | None) -> bytes:
    """The bytes from which `decode` makes `data` again, given the same base.

    Raises TooLarge for data that no decoder would make again.
    """
    if len(data) > MAX_BYTES:
        raise TooLarge(f"A snapshot of {len(data)} bytes is more than the {MAX_BYTES} that can be read again")
    packed = zstd.compress(data, prefix=base or b"")
    packing = _ON_BASE if base else _ALONE
    if len(packed) >= len(data):
        packing, packed = _RAW, data
    head = bytearray([_PATCH | packing])
    write_number(len(data), head)
    return bytes(head) + packed


def decode(patch: bytes, base: bytes | None, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes that `encode` was given. Raises Corrupt for anything else than a patch within `max_bytes`."""
    size = extent(patch, max_bytes=max_bytes)
    reader = Reader(patch, 1)
    reader.number()
    packed = patch[reader.position :]
    packing = patch[0] & ~_KIND
    if packing == _RAW:
        if len(packed) != size:
            raise Corrupt("A patch does not have the size that it declares")
        return packed
    if packing == _ON_BASE and base is None:
        raise Corrupt("A patch lacks its base")
    return zstd.decompress(packed, size=size, prefix=(base or b"") if packing == _ON_BASE else b"")


def extent(patch: bytes, *, max_bytes: int = MAX_BYTES) -> int:
    """How many bytes a patch declares to make. Raises Corrupt if that is over `max_bytes`."""
    if not patch or not _PATCH <= patch[0] <= _PATCH | _ON_BASE:
        raise Corrupt("These bytes are no patch that this version knows")
    size = Reader(patch, 1).number()
    if size > max_bytes:
        raise Corrupt(f"A patch declares {size} bytes, more than the {max_bytes} that are allowed")
    return size


def skip_base(index: int) -> int | None:
    """The version on which version `index` is a patch: the index with its lowest set bit cleared, within segments
    of 64, so that no version is more than 6 patches away from a whole one. None: it is kept whole.
    """
    within = index % SEGMENT_VERSIONS
    return index - (within & -within) if within else None

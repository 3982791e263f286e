"""Zstandard with a base as prefix: the one place that knows where the module comes from and how it must be called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

MAX_BYTES: Final = 256 << 20  # no decoder makes more than this, whatever a header declares

# As plain numbers: looking an enum member up for each call costs as much as decompressing a message.
_LEVEL = int(zstd.CompressionParameter.compression_level)
_LONG_DISTANCE = int(zstd.CompressionParameter.enable_long_distance_matching)
_WINDOW_LOG = int(zstd.CompressionParameter.window_log)
_WINDOW_LOG_MAX = int(zstd.DecompressionParameter.window_log_max)
_PREFIX_BYTES_MIN = 8  # zstd takes no shorter one
_MAGIC = b"\x28\xb5\x2f\xfd"

# From these lengths on only long-distance matching remembers the start: of the prefix, or of the data itself (a sealed
# segment of large versions that repeat each other).
_LONG_PREFIX_BYTES = 128 * 1024
_LONG_DATA_BYTES = 2 * 1024 * 1024

# More than the first is made in pieces of that size, from pieces of the second: zstd's module itself joins what it has
# made while its window still holds the same, and copies what it was given and can't take yet.
_PIECE_BYTES = 1024 * 1024
_INPUT_BYTES = 64 * 1024


def compress(data: bytes, *, prefix: bytes = b"", level: int = 1) -> bytes:
    """One frame without its magic number, which may copy from `prefix`; `decompress` needs the same prefix.

    A raw *dictionary* silently stops working above 1 MB; a prefix works as far as the window reaches, so the window
    is made to cover both.
    """
    dictionary = _prefix(prefix)
    if len(prefix) < _LONG_PREFIX_BYTES and len(data) < _LONG_DATA_BYTES:
        return zstd.compress(data, level, zstd_dict=dictionary)[4:]
    options = {_LEVEL: level, _LONG_DISTANCE: 1, _WINDOW_LOG: _window_log(len(prefix) + len(data))}
    return zstd.compress(data, options=options, zstd_dict=dictionary)[4:]


class Packer:
    """Compresses many small pieces alone, on one thread: making zstd's workspace costs more than to compress them."""

    def __init__(self) -> None:
        self._compressor = zstd.ZstdCompressor(1)

    def pack(self, data: bytes) -> bytes:
        """What `compress` makes of the same bytes at level 1, without a prefix."""
        return self._compressor.compress(data, self._compressor.FLUSH_FRAME)[4:]


def decompress(frame: bytes, *, size: int, prefix: bytes = b"") -> bytes:
    """The `size` bytes that `compress` made into `frame`; never more memory than twice those, and the prefix.

    Raises Corrupt if the frame contains anything else.
    """
    try:
        if size <= _PIECE_BYTES:
            return _at_once(frame, size, prefix)
        pieces = _in_pieces(frame, size, prefix)
    except (zstd.ZstdError, EOFError) as error:
        raise Corrupt(f"A compressed part can't be decompressed: {error}") from error
    return b"".join(pieces)  # the reader is gone by now, and with it its window, which holds as much


def _at_once(frame: bytes, size: int, prefix: bytes) -> bytes:
    reader = _reader(size, prefix)
    data = reader.decompress(_MAGIC + frame, max_length=size)
    if not reader.eof and len(data) == size:
        # The limit may stop the reader just before the end mark; nothing but that mark may follow.
        data += reader.decompress(b"", max_length=1)
    _check(reader, len(data), size)
    return data


def _in_pieces(frame: bytes, size: int, prefix: bytes) -> list[bytes]:
    """The same, and no byte more is made than one beyond the size, whatever the frame holds."""
    reader = _reader(size, prefix)
    made = 0
    pieces: list[bytes] = []
    given: memoryview | bytes = _MAGIC
    rest = memoryview(frame)
    while not reader.eof and made <= size:
        if reader.needs_input and not given:
            given, rest = rest[:_INPUT_BYTES], rest[_INPUT_BYTES:]
            if not given:
                break
        pieces.append(reader.decompress(given, max_length=min(_PIECE_BYTES, size + 1 - made)))
        made += len(pieces[-1])
        given = b""
    _check(reader, made, size)
    if rest:
        raise Corrupt("A compressed part goes on after its end")
    return pieces


def _reader(size: int, prefix: bytes) -> zstd.ZstdDecompressor:
    options = {_WINDOW_LOG_MAX: _window_log(len(prefix) + size)}
    return zstd.ZstdDecompressor(zstd_dict=_prefix(prefix), options=options)


def _check(reader: zstd.ZstdDecompressor, made: int, size: int) -> None:
    if made != size or not reader.eof or reader.unused_data:
        raise Corrupt("A compressed part does not contain what its header declares")


def _prefix(prefix: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(prefix, is_raw=True).as_prefix if len(prefix) >= _PREFIX_BYTES_MIN else None


def _window_log(size: int) -> int:
    """The smallest window that covers `size` bytes, within what zstd allows."""
    return min(max(size.bit_length(), 17), 31)

"""The exact encoding of values: MessagePack, with the extension types of `kinds` for what MessagePack lacks.

A value comes back equal and of the same types, except that a bytearray or memoryview comes back as bytes, and that two
references to one object come back as two objects.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

import ormsgpack

from holdfast.errors import Corrupt, HoldfastError
from holdfast.history.kinds import BY_TAG, Kind, kind_of

OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
# Extension types nest by recursion through C, and each holds a copy of what is in it: bounds on both are bounds on the
# stack and memory that any bytes can take. The outer three may hold lists and dicts as deep as ormsgpack goes, further
# in it is `CONTAINERS_MAX`; the outer eight may be of any size, further in it is `PAYLOAD_MAX`.
NESTED_MAX = 48
CONTAINERS_MAX = 32
PAYLOAD_MAX = 1 << 20
_FREE_IN_DEPTH = 3
_FREE_IN_SIZE = 8

ExtHook = Callable[[int, bytes], Any]


def encode(value: Any, *, path: str = "state") -> bytes:
    """The exact bytes of a value. What can't be kept is an `UnknownValueType` that names its place below `path`."""
    try:
        return ormsgpack.packb(value, default, OPTIONS)
    except TypeError:
        from holdfast.history.rescue import rescued  # Only a failure needs it, and it needs this module.

        return rescued(value, path)


def pack(value: Any) -> bytes:
    """The exact bytes of one value."""
    return encode(value, path="value")


def pack_many(values: list[Any]) -> bytes:
    """The encodings of a list's elements, one behind the other, without the list's header."""
    packed = encode(values, path="values")
    count = len(values)
    return packed[1 if count < 16 else 3 if count < 65536 else 5 :]


def decode(data: bytes) -> Any:
    """The value that `encode` made these bytes of. Anything else is `Corrupt`."""
    return unpack_many(data, 1)[0]


def unpack_many(body: bytes, count: int, ext_hook: ExtHook | None = None) -> list[Any]:
    """The values that `pack_many` laid one behind the other; exactly `count` of them, or it is `Corrupt`."""
    _failure.set(None)
    try:
        return _unpack(body, count, OUTER.ext_hook if ext_hook is None else ext_hook)
    except (ValueError, TypeError, OverflowError, RecursionError, Corrupt) as error:
        reason = _failure.get() or error
        _failure.set(None)  # It would keep the frames of the hooks alive.
        if not isinstance(reason, Exception) or isinstance(reason, HoldfastError):
            raise reason from None
        raise Corrupt(f"An encoded value is damaged: {reason}") from reason


def list_header(count: int) -> bytes:
    """What MessagePack puts before the elements of a list."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 65536 else b"\xdd" + count.to_bytes(4, "big")


def _unpack(body: bytes, count: int, ext_hook: ExtHook) -> list[Any]:
    # ormsgpack reads one value and ignores what follows it. A last element that can't be part of the body shows that
    # the others end where the body ends: a run of the one byte that neither MessagePack nor UTF-8 uses, longer than
    # any in the body.
    end = b"\xc1"
    while end in body:
        end *= 2
    framed = b"".join((list_header(count + 1), body, ormsgpack.packb(end)))
    values: list[Any] = ormsgpack.unpackb(framed, ext_hook=ext_hook)
    if values.pop() != end:
        raise Corrupt(f"Behind {count} encoded values there is more than their end")
    return values


class Level:
    """Encodes and decodes extension types at one depth of nesting inside each other; `inner` does so one deeper."""

    __slots__ = ("depth", "inner")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.inner: Level | None = Level(depth + 1) if depth < NESTED_MAX else None

    def default(self, value: Any) -> ormsgpack.Ext:
        """What ormsgpack calls for every value that it has no exact form for. It turns any error into a TypeError."""
        kind = kind_of(value)
        if kind is None:
            raise TypeError(type(value).__name__)
        return self.ext(kind, kind.apart(value))

    def ext(self, kind: Kind, parts: Any) -> ormsgpack.Ext:
        if kind.shape == "text":
            return ormsgpack.Ext(kind.tag, parts.encode("utf-8", "surrogatepass"))
        if self.inner is None:
            raise TypeError("nested too deep")
        if kind.shape == "unordered":
            # The order of a set differs from process to process; that of the encodings does not.
            elements = sorted(ormsgpack.packb(part, self.inner.default, OPTIONS) for part in parts)
            payload = list_header(len(elements)) + b"".join(elements)
        else:
            payload = ormsgpack.packb(parts, self.inner.default, OPTIONS)
        if self._too_deep(payload):
            raise TypeError("nested too deep")
        return ormsgpack.Ext(kind.tag, payload)

    def ext_hook(self, tag: int, payload: bytes) -> Any:
        """The value behind an extension type."""
        try:
            return self._built(tag, payload)
        except BaseException as error:
            # ormsgpack forgets what a hook raised, so it is put aside; the innermost is the one that says what it was.
            if _failure.get() is None:
                _failure.set(error)
            raise

    def _built(self, tag: int, payload: bytes) -> Any:
        kind = BY_TAG.get(tag)
        if kind is None:
            raise Corrupt(f"There is no extension type {tag}", hint="A newer Holdfast may have written it: upgrade.")
        if kind.shape == "text":
            return kind.build(payload.decode("utf-8", "surrogatepass"))
        if self.inner is None or self._too_deep(payload):
            raise Corrupt("Encoded values nest deeper than any that are written")
        return kind.build(_unpack(payload, 1, self.inner.ext_hook)[0])

    def _too_deep(self, payload: bytes) -> bool:
        if self.depth >= _FREE_IN_SIZE and len(payload) > PAYLOAD_MAX:
            return True
        if self.depth < _FREE_IN_DEPTH or len(payload.translate(None, _NOT_CONTAINERS)) <= CONTAINERS_MAX:
            return False
        try:
            ormsgpack.unpackb(_filler() + payload, ext_hook=_nothing)
        except ValueError:
            return True
        return False


# The first bytes of lists and dicts. There can't be more of these than such bytes, text and numbers included.
_NOT_CONTAINERS = bytes(set(range(256)) - set(range(0x80, 0xA0)) - {0xDC, 0xDD, 0xDE, 0xDF})


def _nothing(_tag: int, _payload: bytes) -> None:
    return None


@cache
def _filler() -> bytes:
    """As many openings of lists as leave room for `CONTAINERS_MAX` more before ormsgpack's own limit."""
    depth = CONTAINERS_MAX
    while True:
        try:
            ormsgpack.unpackb(b"\x91" * (depth + 1) + b"\xc0")
        except ValueError:
            return b"\x91" * (depth - CONTAINERS_MAX)
        depth += 1


# Why the extension hook failed, while one decoding lasts.
_failure: ContextVar[BaseException | None] = ContextVar("_failure", default=None)
OUTER = Level(0)
default = OUTER.default
ext_hook = OUTER.ext_hook

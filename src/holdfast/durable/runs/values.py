"""Values on their way into the sandbox and out of it: what is handed over is what the history gives back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

from holdfast.durable.runs.plain import Plain, described, log
from holdfast.errors import UnknownValueType
from holdfast.history.codec import encode, pack

# The codec takes tuples, sets and odd dicts less deep than lists; almost every value fits at the first of these.
_DEPTHS = (100, 30, 8)
_ADDRESS = re.compile(r"( (?:at|@) )0x[0-9a-fA-F]+(?=>)")
_MASKED = r"\g<1>0x…"


def to_program(value: Any) -> Any:
    """What a program gets for a result of a tool: a value that the sandbox takes, and the history keeps, exactly.

    Dataclasses and models become dicts, Enums their values, paths and UUIDs texts. What has no plain form, or holds
    itself, becomes a text that describes it, with a warning: the call has happened, so this never fails.
    """
    plain, lossy = _plain(value)
    if lossy:
        log.warning(
            "The sandbox can't take %d value(s) of a tool's result, and got a text instead; the first is %s",
            len(lossy),
            lossy[0],
        )
    return plain


def from_program(value: Any) -> Any:
    """What a program hands out, as its arguments or its output, as a value that the history keeps exactly.

    An instance of its own classes becomes a dict of its attributes; functions, files and modules become texts.
    """
    return _plain(value)[0]


def deliverable(value: Any) -> Any:
    """A plain value so that the sandbox sees the same in every process: its sets in one order.

    A set of texts has another order in each process, the sandbox takes it in that order and keeps it: a program that
    goes through it would do something else when it is replayed.
    """
    cls = type(value)
    if cls is list:
        return [deliverable(item) for item in value]
    if cls is tuple:
        return tuple(deliverable(item) for item in value)
    if cls is dict:
        return {deliverable(key): deliverable(item) for key, item in value.items()}
    if cls is set or cls is frozenset:
        return (_OrderedSet if cls is set else _OrderedFrozenset)(map(deliverable, sorted(value, key=pack)))
    return value


def masked_equal(recorded: Any, replayed: Any) -> bool:
    """Whether two plain values are the same in value and type; the addresses in their texts do not count."""
    return _canonical(recorded) == _canonical(replayed)


def masked_text(text: str) -> str:
    """The text without the addresses of objects, which differ from one process to the next.

    >>> masked_text("<A object at 0x130> <sha256 _hashlib.HASH object @ 0x410>")
    '<A object at 0x…> <sha256 _hashlib.HASH object @ 0x…>'
    """
    return _ADDRESS.sub(_MASKED, text)


def _plain(value: Any) -> tuple[Any, list[str]]:
    """The plain form of a value, and the places of which only a text is left."""
    lossy: list[str] = []
    for depth_max in _DEPTHS:
        plain = Plain(depth_max)
        value = plain.of(value)  # An iterator can be read once, so the next try begins with what this one found.
        lossy += plain.lossy
        try:
            encode(value)
        except UnknownValueType:
            continue
        return value, lossy
    return described(value), lossy


def _canonical(value: Any) -> bytes:
    """The same bytes for what is the same; no two values have bytes of which one begin with the other's."""
    cls = type(value)
    if cls is str:
        return pack(masked_text(value))
    if cls is float and value != value:  # noqa: PLR0124 (so it is NaN, of which there are many)
        return pack(math.nan)
    if cls is dict:
        parts = sorted(_canonical(key) + _canonical(item) for key, item in value.items())
    elif cls in _COLLECTIONS:
        parts = [_canonical(item) for item in value]
        parts = parts if cls in (list, tuple) else sorted(parts)
    else:
        return pack(value)
    return b"".join((_MARK, pack(cls.__name__), pack(len(parts)), *parts))


class _OrderedSet(set[Any]):
    """A set that is gone through in the order in which it was made."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.order = list(items)
        super().__init__(self.order)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order)


class _OrderedFrozenset(frozenset[Any]):
    """The same for a frozenset."""

    order: list[Any]

    def __new__(cls, items: Iterable[Any]) -> Self:
        order = list(items)
        made = super().__new__(cls, order)
        made.order = order
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order)


_COLLECTIONS = frozenset({list, tuple, set, frozenset})
_MARK = b"\xc1"  # no value's encoding begins with it

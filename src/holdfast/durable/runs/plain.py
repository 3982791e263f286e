"""Plain values: what both the sandbox and the history keep exactly, and how everything else becomes one."""

from __future__ import annotations

import dataclasses
import enum
import io
import logging
import math
import reprlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeVar
from uuid import UUID

from holdfast.history.registry import family_of
from holdfast.history.unkept import member_path

log = logging.getLogger("holdfast")

# What is drawn of an iterator, which may never end.
ITEMS_MAX = 1_000_000
# Containers that are met again where they are shared: lists in lists can name more of them than any memory holds.
SHARED_MAX = 100_000
_REPR_MAX = 10_000

_Item = TypeVar("_Item")
_Place = tuple[Any, Any] | None  # where a value is: the place of its container, and its key there
_Handler = Callable[["Plain", Any, _Place, int], Any]


class TooOdd(Exception):
    """A value has no plain form."""


def text(value: str) -> str:
    """The text with what no UTF-8 can hold replaced: halves of characters, as `os` makes them of odd file names."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def drawn(items: Iterable[_Item]) -> list[_Item]:
    """The items of an iterator: all, or as many as may be kept."""
    found = list(islice(items, ITEMS_MAX + 1))
    return _shortened(found)


async def drawn_async(items: AsyncIterator[_Item]) -> list[_Item]:
    """The same for an asynchronous iterator."""
    found: list[_Item] = []
    async for item in items:
        found.append(item)
        if len(found) > ITEMS_MAX:
            break
    return _shortened(found)


def _shortened(items: list[_Item]) -> list[_Item]:
    if len(items) > ITEMS_MAX:
        items.pop()
        log.warning("An iterator that a tool returned has more than %d items: the others are left out", ITEMS_MAX)
    return items


class Plain:
    """One conversion of a value, down to a depth. `lossy` are the places where only a description is left."""

    def __init__(self, depth_max: int) -> None:
        self._depth_max = depth_max
        self._open: set[int] = set()  # the ids of the containers on the way here: one met again holds itself
        self._met: dict[int, Any] = {}  # by id, and kept alive, so that no other value takes the id
        self._met_again = 0
        self.lossy: list[str] = []

    def of(self, value: Any, place: _Place = None, depth: int = 0) -> Any:
        """The plain form of a value. Never fails; no two containers in it are the same object."""
        cls: type = type(value)
        if cls in _EXACT:
            return value
        try:
            return _handler_of(cls)(self, value, place, depth)
        except Exception as error:
            # A class may do anything when it is looked at, and the call has happened.
            if not isinstance(error, TooOdd):
                log.debug("A %s can't be taken apart", cls.__qualname__, exc_info=True)
            self.lossy.append(f"{_path(place)} ({cls.__qualname__})")
            return described(value)

    def items(self, values: Iterable[Any], place: _Place, depth: int) -> list[Any]:
        return [
            item if type(item) in _EXACT else self.of(item, (place, index), depth) for index, item in enumerate(values)
        ]

    def mapping(self, pairs: Iterable[tuple[Any, Any]], place: _Place, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, item in pairs:
            plain = self._key(key, place, depth)
            # Two keys that were different stay so: an UUID and its text, say.
            found[described(key) if plain in found else plain] = self.of(item, (place, key), depth)
        return found

    def elements(self, values: Any, place: _Place, depth: int) -> Any:
        """A set or frozenset; a list if its elements, made plain, are no longer hashable or different."""
        elements = self.items(values, place, depth)
        try:
            found = frozenset(elements) if isinstance(values, frozenset) else set(elements)
        except TypeError:
            return elements
        return found if len(found) == len(elements) else elements

    def _key(self, key: Any, place: _Place, depth: int) -> Any:
        plain = self.of(key, (place, key), depth)
        try:
            hash(plain)
        except TypeError:
            return described(key)
        return plain

    def container(self, make: Callable[[int], Any], value: Any, depth: int) -> Any:
        """Makes what a container becomes, one level further in; TooOdd if that has no end."""
        identity = id(value)
        if identity in self._open or depth >= self._depth_max or self._is_met_too_often(value):
            raise TooOdd
        self._open.add(identity)
        try:
            return make(depth + 1)
        finally:
            self._open.discard(identity)

    def _is_met_too_often(self, value: Any) -> bool:
        if id(value) not in self._met:
            self._met[id(value)] = value
            return False
        self._met_again += 1
        return self._met_again > SHARED_MAX


def described(value: Any) -> str:
    """A text that says what a value is, as its repr does; short, whatever it holds."""
    cls = type(value)
    if cls.__module__ == _SANDBOX and hasattr(value, "attributes"):
        return f"<{value.name} object>"  # Its repr is that of all it holds, however often it holds it.
    try:
        said = _Brief().repr(value) if cls in _CONTAINERS else repr(value)
    except Exception:  # noqa: BLE001 (a foreign __repr__ may fail in any way)
        said = f"<{cls.__qualname__} object>"
    return text(said if len(said) <= _REPR_MAX else f"{said[:_REPR_MAX]}…")


class _Brief(reprlib.Repr):
    """The repr of a container: not deep, not long, and without asking what is no container."""

    def repr_instance(self, x: Any, level: int) -> str:
        return repr(x) if type(x) in _EXACT else f"<{type(x).__qualname__} object>"


def _path(place: _Place) -> str:
    keys = []
    while place is not None:
        place, key = place
        keys.append(key)
    path = "result"
    for key in reversed(keys):
        path = f"{path}[{key}]" if type(key) is int else member_path(path, key)
    return path


# How instances of a class become plain ------------------------------------------------------------------------


def _list(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return plain.container(lambda inner: plain.items(value, place, inner), value, depth)


def _tuple(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return plain.container(lambda inner: tuple(plain.items(value, place, inner)), value, depth)


def _set(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return plain.container(lambda inner: plain.elements(value, place, inner), value, depth)


def _dict(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return plain.container(lambda inner: plain.mapping(value.items(), place, inner), value, depth)


def _sized(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    if len(value) > ITEMS_MAX:  # range(10**12) has them all, too
        raise TooOdd
    return _list(plain, value, place, depth)


def _iterator(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return _list(plain, drawn(value), place, depth)


def _dataclass(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    return plain.container(
        lambda inner: plain.mapping(((name, getattr(value, name)) for name in names), place, inner), value, depth
    )


def _attrs(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    names = [field.name for field in type(value).__attrs_attrs__]
    return plain.container(
        lambda inner: plain.mapping(((name, getattr(value, name)) for name in names), place, inner), value, depth
    )


def _model(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    try:
        dumped = value.model_dump(warnings=False)  # which leaves out what the model excludes: secrets, say
    except Exception:  # noqa: BLE001 (a serializer of the model's own)
        dumped = {name: getattr(value, name) for name in type(value).model_fields}
    return plain.container(lambda _: plain.of(dumped, place, depth), value, depth)


def _instance(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    """An instance of a class that the program defined."""
    return plain.container(lambda inner: plain.mapping(value.attributes.items(), place, inner), value, depth)


def _builtin(_plain: Plain, value: Any, _place: _Place, _depth: int) -> Any:
    return f"<class '{value.name}'>" if value.kind == "type" else f"<built-in function {value.name}>"


def _array(plain: Plain, value: Any, place: _Place, depth: int) -> Any:
    return plain.of(value.tolist(), place, depth)


def _member(plain: Plain, value: enum.Enum, place: _Place, depth: int) -> Any:
    return plain.container(lambda inner: plain.of(value.value, place, inner), value, depth)


def _text(_plain: Plain, value: str, _place: _Place, _depth: int) -> Any:
    return text(str.__str__(value))


def _as_text(_plain: Plain, value: Any, _place: _Place, _depth: int) -> Any:
    return text(str(value))


def _float(_plain: Plain, value: float, _place: _Place, _depth: int) -> Any:
    # One NaN for all: the sandbox holds two of them for one key, which CPython does only if they are one object.
    return float.__float__(value) if value == value else math.nan  # noqa: PLR0124 (NaN is not)


def _datetime(_plain: Plain, value: datetime, _place: _Place, _depth: int) -> Any:
    offset = value.utcoffset()
    if offset is not None and offset.microseconds:
        value, offset = value.astimezone(UTC), timedelta(0)
    day = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return datetime(*day, tzinfo=_zone(offset, value.tzname()))


def _time(_plain: Plain, value: time, _place: _Place, _depth: int) -> Any:
    offset = value.utcoffset()
    if offset is not None and offset.microseconds:
        raise TooOdd
    zone = _zone(offset, value.tzname())
    return time(value.hour, value.minute, value.second, value.microsecond, zone, fold=value.fold)


def _zone(offset: timedelta | None, name: str | None) -> tzinfo | None:
    """A zone of one offset: what the sandbox makes of every zone."""
    if offset is None:
        return None
    zone = timezone(offset)
    if name is None or name == zone.tzname(None):
        return zone
    return timezone(offset, text(name))


def _odd(_plain: Plain, _value: Any, _place: _Place, _depth: int) -> Any:
    raise TooOdd


_SANDBOX = "pydantic_monty"  # its classes are known by name, so that it need not be imported
TEXTUAL = frozenset({"ipaddress", "pydantic.networks", "pydantic_core._pydantic_core"})  # addresses of all sorts
_EXACT = frozenset({type(None), bool, int, bytes, complex, Decimal, date, timedelta})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, deque})
_BY_CLASS: tuple[tuple[Any, _Handler], ...] = (
    (enum.Enum, _member),
    (str, _text),
    (float, _float),
    (int, lambda _plain, value, _place, _depth: int.__int__(value)),
    (bytes, lambda _plain, value, _place, _depth: b"".join((value,))),
    (complex, lambda _plain, value, _place, _depth: complex(value.real, value.imag)),
    (Decimal, lambda _plain, value, _place, _depth: Decimal.__new__(Decimal, value)),
    (datetime, _datetime),
    (date, lambda _plain, value, _place, _depth: date(value.year, value.month, value.day)),
    (time, _time),
    (timedelta, lambda _plain, value, _place, _depth: timedelta(value.days, value.seconds, value.microseconds)),
    ((UUID, PurePath), _as_text),
    ((bytearray, memoryview), lambda _plain, value, _place, _depth: bytes(value)),
    ((type, BaseException, io.IOBase), _odd),
    (tuple, _tuple),
    (dict, _dict),
    (MappingView, _list),
    (Mapping, _dict),
    ((list, deque), _list),
    ((set, frozenset, AbstractSet), _set),
    (Sequence, _sized),
    (Iterator, _iterator),
)


@lru_cache(maxsize=1024)
def _handler_of(cls: type) -> _Handler:
    if cls.__module__ == _SANDBOX:
        return {"MontyClassProxy": _instance, "MontyStdTypeProxy": _builtin}.get(cls.__name__, _odd)
    if cls.__module__ in TEXTUAL:
        return _as_text
    family = family_of(cls)
    if family in {"model", "dataclass"}:
        return _model if family == "model" else _dataclass
    if hasattr(cls, "__attrs_attrs__"):
        return _attrs
    found = next((handler for base, handler in _BY_CLASS if issubclass(cls, base)), None)
    if found is None:
        found = _array if callable(getattr(cls, "tolist", None)) else _odd
    return found

"""The one closed table of what MessagePack and JSON have no form for: how a value is taken apart and built again."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from holdfast.errors import UnknownValueType
from holdfast.history import moments
from holdfast.history.registry import named, registered

# What `apart` gives. text: a str. items: a list whose elements are the value's. unordered: the same, to be sorted by
# encoding. pairs: a list of [key, value]. headed: a list of whole parts, the first of which say how to build.
Shape = Literal["text", "items", "unordered", "pairs", "headed"]

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Kind:
    """One extension type. Its tag and key are stored: they never change and are never used again for anything else."""

    tag: int
    key: str
    shape: Shape
    apart: Callable[[Any], Any]
    build: Callable[[Any], Any]


def kind_of(value: object) -> Kind | None:
    """How this value is kept, by its exact type; None for what has a native form or none at all."""
    cls = type(value)
    kind = _BY_TYPE.get(cls)
    if kind is not None:
        return kind
    entry = registered(cls)
    return None if entry is None else _BY_FAMILY[entry.family]


def _pairs(value: Any) -> list[list[Any]]:
    return [[key, item] for key, item in value.items()]


def _from_pairs(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def build(body: Any) -> Any:
        pairs = dict(body)
        if type(body) is not list or len(pairs) != len(body):
            raise ValueError("its keys are not unique")
        return make(pairs)

    return build


def _items(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def build(body: Any) -> Any:
        if type(body) is not list:
            raise TypeError("its items are no list")
        value = make(body)
        if len(value) != len(body):
            raise ValueError("its items are not unique")
        return value

    return build


def _range(body: Any) -> range:
    start, stop, step = body
    return range(start, stop, step)


def _deque(body: Any) -> deque[Any]:
    maxlen, items = body
    if type(items) is not list or (maxlen is not None and len(items) > maxlen):
        raise ValueError("its items do not fit")
    return deque(items, maxlen)


def _complex(text: str) -> complex:
    real, imag = text.split(" ")
    return complex(float(real), float(imag))


# Registered classes: [name, …]. What a class refuses is told apart from what is damaged.


def _name(value: object) -> str:
    entry = registered(type(value))
    if entry is None:
        raise TypeError(f"{type(value).__name__} is not registered")
    return entry.name


def _member_apart(value: enum.Enum) -> list[Any]:
    # Combined flags have no name of their own, or one that is not a member's: they are kept by value.
    known = type(value).__members__.get(value.name) is value
    return [_name(value), value.name] if known else [_name(value), None, value.value]


def _member(body: Any) -> Any:
    name, member, *value = body
    cls = named(name, "enum")
    return _called(name, cls.__members__.__getitem__, member) if not value else _called(name, cls, *value)


def _object_apart(value: Any) -> list[Any]:
    names = [field.name for field in dataclasses.fields(value)]
    _refuse_undeclared(value, names)
    return [_name(value), {name: getattr(value, name) for name in names if hasattr(value, name)}]


def _object(body: Any) -> Any:
    name, kept = body
    cls = named(name, "dataclass")
    without_init = {field.name for field in dataclasses.fields(cls) if not field.init}
    value = _called(name, cls, **{key: item for key, item in kept.items() if key not in without_init})
    # The class has seen the values; what its __post_init__ derived from them the first time must not be derived twice.
    for key, item in kept.items():
        if getattr(value, key, _ABSENT) is not item:
            object.__setattr__(value, key, item)
    return value


def _row_apart(value: Any) -> list[Any]:
    _refuse_undeclared(value, ())
    return [_name(value), dict(zip(value._fields, value, strict=True))]


def _row(body: Any) -> Any:
    name, kept = body
    return _called(name, named(name, "namedtuple"), **kept)


def _model_apart(value: Any) -> list[Any]:
    fields = type(value).model_fields
    kept = {name: item for name, item in vars(value).items() if name in fields}
    _refuse_undeclared(value, fields)
    private = getattr(value, "__pydantic_private__", None)
    return [_name(value), kept, sorted(value.model_fields_set), value.model_extra, private]


def _model(body: Any) -> Any:
    name, kept, fields_set, extra, private = body
    cls = named(name, "model")
    if getattr(cls, "__pydantic_root_model__", False):
        value = _called(name, cls.model_validate, kept["root"])
    elif any(field.validation_alias for field in cls.model_fields.values()):
        value = _called(name, cls.model_validate, {**kept, **(extra or {})}, by_name=True, by_alias=False)
    else:
        value = _called(name, cls.model_validate, {**kept, **(extra or {})})
    # The validators have agreed; the values themselves stay what they were, not what a validator makes of them twice.
    value.__dict__.update(kept)
    value.model_fields_set.intersection_update(fields_set)
    for target, stored in ((value.model_extra, extra), (getattr(value, "__pydantic_private__", None), private)):
        if stored is not None and target is not None:
            target.update(stored)
    return value


def _called(name: str, make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return make(*args, **kwargs)
    except Exception as error:
        raise UnknownValueType(
            f"A stored {name} can't be built again, its class refuses the values: {error}",
            hint=f"{name} has changed since: let it accept the old values (a default for each new field, say).",
        ) from error


def _refuse_undeclared(value: Any, names: Any) -> None:
    """Attributes beside the fields would be lost in silence. What a cached_property keeps is only a cache."""
    for name in getattr(value, "__dict__", ()):
        if name not in names and not isinstance(getattr(type(value), name, None), cached_property):
            raise UndeclaredAttribute(name)


class UndeclaredAttribute(TypeError):
    """An instance of a registered class has an attribute that is none of its fields."""


_BY_TYPE: dict[type, Kind] = {
    tuple: Kind(1, "$tuple", "items", list, _items(tuple)),
    set: Kind(2, "$set", "unordered", list, _items(set)),
    frozenset: Kind(3, "$frozenset", "unordered", list, _items(frozenset)),
    dict: Kind(4, "$dict", "pairs", _pairs, _from_pairs(dict)),
    str: Kind(5, "$str", "text", str, str),
    int: Kind(6, "$int", "text", hex, lambda text: int(text, 16)),
    complex: Kind(7, "$complex", "text", lambda value: f"{value.real!r} {value.imag!r}", _complex),
    Decimal: Kind(8, "$decimal", "text", str, Decimal),
    UUID: Kind(9, "$uuid", "text", str, UUID),
    datetime: Kind(10, "$datetime", "text", moments.datetime_text, moments.parse_datetime),
    date: Kind(11, "$date", "text", date.isoformat, date.fromisoformat),
    time: Kind(12, "$time", "text", moments.time_text, moments.parse_time),
    timedelta: Kind(13, "$timedelta", "text", moments.timedelta_text, moments.parse_timedelta),
    range: Kind(14, "$range", "headed", lambda value: [value.start, value.stop, value.step], _range),
    deque: Kind(15, "$deque", "headed", lambda value: [value.maxlen, list(value)], _deque),
    OrderedDict: Kind(16, "$ordereddict", "pairs", _pairs, _from_pairs(OrderedDict)),
    Counter: Kind(17, "$counter", "pairs", _pairs, _from_pairs(Counter)),
}
_BY_FAMILY: dict[str, Kind] = {
    "enum": Kind(18, "$enum", "headed", _member_apart, _member),
    "dataclass": Kind(19, "$dataclass", "headed", _object_apart, _object),
    "namedtuple": Kind(20, "$namedtuple", "headed", _row_apart, _row),
    "model": Kind(21, "$model", "headed", _model_apart, _model),
}
KINDS: tuple[Kind, ...] = (*_BY_TYPE.values(), *_BY_FAMILY.values())
BY_TAG = types.MappingProxyType({kind.tag: kind for kind in KINDS})
BY_KEY = types.MappingProxyType({kind.key: kind for kind in KINDS})

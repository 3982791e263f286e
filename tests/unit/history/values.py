"""Classes to keep, one of every family, and the strictest sense in which two values are the same."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import OrderedDict, deque
from datetime import datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pydantic

from holdfast.history.registry import register_type


@register_type
class Color(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 (an alias is what this is about)
    ODD = (1, None)


@register_type
class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 2


@register_type
class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


@register_type
class Access(enum.Flag):
    READ = 1
    WRITE = 2


@register_type
@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = 0


@register_type
@dataclasses.dataclass
class Order:
    """Its __post_init__ would add the tax again, if what it derived were not put back as it was."""

    total: Any
    name: Any = "name"
    taxed: bool = dataclasses.field(default=False, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.total, int):
            self.total += 10
        self.taxed = True


@register_type
class Row(NamedTuple):
    name: Any
    value: Any = None


@register_type
class Profile(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    user_name: str = pydantic.Field(alias="userName")
    tags: Any = pydantic.Field(default_factory=list)
    _visits: Any = pydantic.PrivateAttr(0)

    @pydantic.field_validator("user_name")
    @classmethod
    def _shout(cls, value: str) -> str:
        if not value:
            raise ValueError("a name is not empty")
        return value + "!"


@register_type
class Names(pydantic.RootModel[list[str]]):
    pass


def same(a: Any, b: Any) -> bool:
    """Equal in value and type, all the way down; NaN is NaN, 0.0 is not -0.0, and the order of a dict counts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, enum.Enum):
        return a is b
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, datetime | time):
        zones = type(a.tzinfo) is type(b.tzinfo) and str(a.tzinfo) == str(b.tzinfo)
        return zones and a.isoformat() == b.isoformat() and a.fold == b.fold
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(item, other) for other in b) for item in a)
    return _same_parts(a, b)


def _same_parts(a: Any, b: Any) -> bool:
    if isinstance(a, dict | OrderedDict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, deque):
        return a.maxlen == b.maxlen and same(list(a), list(b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    if isinstance(a, pydantic.BaseModel):
        names = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        return a.model_fields_set == b.model_fields_set and all(same(getattr(a, n), getattr(b, n)) for n in names)
    return bool(a == b)


def profile(name: str, *, visits: Any = 0, **more: Any) -> Profile:
    made = Profile(userName=name, **more)
    made._visits = visits
    return made


def nested(depth: int, wrap: Any = lambda inner: [inner]) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = wrap(value)
    return value

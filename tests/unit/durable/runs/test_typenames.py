"""Claims about the types that a program sees for those of the host."""

from __future__ import annotations

import collections
import collections.abc as c
import enum
import typing
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, HttpUrl, RootModel

from holdfast.durable.runs.shapes import Shapes, notes
from holdfast.durable.runs.typenames import TypeNames

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    inside: T
    label: str = ""


class Model(BaseModel):
    id: UUID
    boxes: list[Box[int]] = []
    parent: Model | None = None


class Tags(RootModel[list[UUID]]):
    pass


class Options(TypedDict):
    depth: int
    until: NotRequired[date]


class Row(NamedTuple):
    name: str
    where: Path


class Mood(enum.Enum):
    CALM = "calm"
    BUSY = 2


class Price(enum.Enum):
    LOW = Decimal(1)
    HIGH = 2.5


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class UserId(int):
    pass


class Whatever:
    pass


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (None, "None"),
        (Any, "Any"),
        (object, "Any"),
        (int, "int"),
        (bool, "bool"),
        (UserId, "int"),
        (NewType("Meters", float), "float"),
        (bytes, "bytes"),
        (bytearray, "bytes"),
        (complex, "complex"),
        (date, "datetime.date"),
        (datetime, "datetime.datetime"),
        (time, "datetime.time"),
        (timedelta, "datetime.timedelta"),
        (Decimal, "decimal.Decimal"),
        (UUID, "str"),
        (Path, "str"),
        (PurePosixPath, "str"),
        (IPv4Address, "str"),
        (HttpUrl, "str"),
        (list, "list[Any]"),
        (list[int], "list[int]"),
        (list[T], "list[Any]"),
        (dict[str, list[UUID]], "dict[str, list[str]]"),
        (collections.defaultdict[str, int], "dict[str, int]"),
        (collections.Counter[str], "dict[str, int]"),
        (collections.Counter, "dict[Any, int]"),
        (collections.deque[int], "list[int]"),
        (set[bytes], "set[bytes]"),
        (frozenset[int], "frozenset[int]"),
        (tuple, "tuple[Any, ...]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[int, UUID], "tuple[int, str]"),
        (Row, "tuple[str, str]"),
        (collections.namedtuple("Pair", "x y"), "tuple[Any, Any]"),  # noqa: PYI024
        (typing.List[int], "list[int]"),  # noqa: UP006 (people write it)
        (typing.Dict[str, Any], "dict[str, Any]"),  # noqa: UP006
        (Optional[UUID], "str | None"),  # noqa: UP045
        (Union[int, str, None], "int | str | None"),  # noqa: UP007
        (UUID | Path | None, "str | None"),
        (int | Whatever, "Any"),
        (Literal["a", 1, True], "Literal['a', 1, True]"),
        (Literal[Mood.CALM], "Literal['calm']"),
        (Mood, "Literal['calm', 2]"),
        (Price, "decimal.Decimal | float"),
        (Access, "int"),
        (enum.Enum("Many", [f"M{i}" for i in range(30)]), "int"),
        (enum.Enum("Empty", []), "Any"),
        (typing.Annotated[int, "positive"], "int"),
        (typing.LiteralString, "Any"),
        (typing.NoReturn, "Any"),
        (typing.Self, "Any"),
        (c.Callable[[int], str], "Any"),
        (type[int], "Any"),
        (T, "Any"),
        (Whatever, "Any"),
        (Fraction, "Any"),
        ("text", "Any"),
        (3, "Any"),
        (c.Sequence[float], "Sequence[float]"),
        (c.Mapping[str, UUID], "Mapping[str, str]"),
        (c.Iterable[int], "Iterable[int]"),
        (c.Iterator[int], "list[int]"),
        (c.Generator[int, None, str], "list[int]"),
        (c.AsyncIterator[Model], "list[dict[str, Any]]"),
        (c.Awaitable[int], "int"),
        (c.Coroutine[Any, Any, UUID], "str"),
        (Model, "dict[str, Any]"),
        (Box[int], "dict[str, Any]"),
        (Options, "dict[str, Any]"),
        (list[Options] | None, "list[dict[str, Any]] | None"),
        (Tags, "list[str]"),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_is_named_as_what_the_program_passes_or_gets(annotation, name):
    assert TypeNames().of(annotation) == name


def test_what_names_need_is_imported_and_nothing_else():
    names = TypeNames()
    assert names.imports() == ""
    names.of(int)
    names.of(list[datetime])
    names.of(c.Sequence[Decimal])
    names.of(Model)
    assert names.imports() == "import datetime\nimport decimal\nfrom typing import Any, Sequence"


def test_a_text_of_a_literal_is_no_reason_to_import():
    names = TypeNames()
    names.of(Literal["Any", "datetime", "Mapping"])
    assert names.imports() == "from typing import Literal"


def test_a_shape_shows_the_keys_and_what_may_be_left_out():
    assert Shapes().of(Options) == '{"depth": int, "until": datetime.date (optional)}'
    assert Shapes().of(list[Model]) == (
        'list[{"id": str, "boxes": list[{"inside": Any, "label": str (optional)}] (optional), '
        '"parent": dict[str, Any] | None (optional)}]'
    )


def test_a_result_has_all_its_keys_unless_it_is_a_typed_dict():
    assert Shapes(is_result=True).of(Box) == '{"inside": Any, "label": str}'
    assert "(optional)" in Shapes(is_result=True).of(Options)


def test_notes_are_made_only_where_there_is_something_to_say():
    described = typing.Annotated[str, type("Field", (), {"description": "who gets it"})()]
    lines = list(notes([("to", described), ("times", int), ("options", Options | None)], Box))
    assert lines == [
        "to: who gets it",
        'options: {"depth": int, "until": datetime.date (optional)} | None',
        'returns: {"inside": Any, "label": str}',
    ]

"""Claims about what a tool gets for the plain values that a program passes."""

from __future__ import annotations

import collections.abc as c
import dataclasses
import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field

from holdfast.durable.runs.signature import signature_of
from holdfast.durable.runs.validation import Validation

if TYPE_CHECKING:
    from nowhere import Missing

ID = UUID("3978d7d9-c564-4772-b979-823a06d3f945")


@dataclasses.dataclass
class Part:
    name: str
    price: Decimal = Decimal(1)


class Order(BaseModel):
    id: UUID
    parts: list[Part] = []
    alias: int = Field(default=0, alias="Alias")


class Mood(enum.Enum):
    CALM = "calm"


class Row(NamedTuple):
    x: int
    y: str


class Unknowable:
    pass


@dataclasses.dataclass
class Incomplete:
    other: Missing


def validated(annotation, value):
    def tool(it: annotation): ...

    tool.__annotations__ = {"it": annotation}
    return Validation("tool", signature_of(tool))({"it": value})["it"]


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, "3", 3),
        (float, 1, 1.0),
        (str, "x", "x"),
        (UUID, str(ID), ID),
        (Path, "/x", Path("/x")),
        (Mood, "calm", Mood.CALM),
        (datetime, "2026-03-01T00:00:00Z", datetime(2026, 3, 1, tzinfo=UTC)),
        (date, date(2026, 3, 1), date(2026, 3, 1)),
        (Part, {"name": "leaf", "price": "1.5"}, Part("leaf", Decimal("1.5"))),
        (Order, {"id": str(ID), "parts": [{"name": "a"}]}, Order(id=ID, parts=[Part("a")])),
        (list[Order], [{"id": str(ID), "Alias": 1}], [Order(id=ID, Alias=1)]),
        (Row, (1, "a"), Row(1, "a")),
        (Order | None, None, None),
        (Literal["a", "b"], "a", "a"),
        (set[int], [1, 1], {1}),
        (Any, {"a": [1]}, {"a": [1]}),
        (c.Iterable[int], ["not", "checked"], ["not", "checked"]),
        (Unknowable, {"a": 1}, {"a": 1}),
        (list[Unknowable], [1], [1]),
        (Incomplete, {"other": 1}, {"other": 1}),
        ("Missing", 3, 3),
        (3, 4, 4),
    ],
    ids=str,
)
def test_a_value_becomes_what_the_annotation_asks_for(annotation, value, expected):
    found = validated(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


def test_a_model_takes_the_names_of_its_fields_as_its_results_show_them():
    assert validated(Order, {"id": str(ID), "alias": 3}).alias == 3


def odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("not odd")
    return value


def broken(value: int) -> int:
    raise KeyError(value)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "abc", ("tool() got a wrong argument: it: Input should be a valid integer, unable to parse string as an"
                     " integer, got 'abc'")),
        (str, 3, "tool() got a wrong argument: it: Input should be a valid string, got 3"),
        (Order, {}, "tool() got a wrong argument: it.id: Field required"),
        (Order, {"id": str(ID), "parts": [{"name": "a"}, {"name": 1}]},
         "tool() got a wrong argument: it.parts[1].name: Input should be a valid string, got 1"),
        (Mood, "wild", "tool() got a wrong argument: it: Input should be 'calm', got 'wild'"),
        (Literal["a"], "b", "tool() got a wrong argument: it: Input should be 'a', got 'b'"),
        (Annotated[int, Field(ge=1)], 0, ("tool() got a wrong argument: it: Input should be greater than or equal to 1,"
                                         " got 0")),
        (Annotated[int, AfterValidator(odd)], 2, "tool() got a wrong argument: it: Value error, not odd, got 2"),
        (Annotated[int, AfterValidator(broken)], 2, "tool() got a wrong argument: it: KeyError: 2"),
        (list[int], "x" * 500, f"tool() got a wrong argument: it: Input should be a valid list, got '{'x' * 56}…"),
        (list[int], ["a"] * 5, "and 2 more"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_in_a_sentence(annotation, value, message):
    with pytest.raises(ValueError) as caught:
        validated(annotation, value)
    assert message in str(caught.value)
    assert "http" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_collected_arguments_are_validated_one_by_one():
    def tool(*numbers: int, **moods: Mood): ...

    validation = Validation("tool", signature_of(tool))
    assert validation({"numbers": ["1", 2], "moods": {"a": "calm"}}) == {"numbers": [1, 2], "moods": {"a": Mood.CALM}}
    with pytest.raises(ValueError, match=r"numbers\[1\]: Input should be a valid integer"):
        validation({"numbers": [1, "x"]})
    with pytest.raises(ValueError, match="argument: a: Input should be 'calm'"):
        validation({"moods": {"a": 3}})


def test_a_parameter_that_is_no_more_is_left_for_the_call_to_refuse():
    assert Validation("tool", signature_of(lambda: None))({"gone": 1}) == {"gone": 1}

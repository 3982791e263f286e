"""What a model is shown of a tool's arguments, and what becomes of those that it writes."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from holdfast.agents.model.schema import by_parameter, read_arguments, schema_of
from holdfast.durable.runs.tool import Tool


@dataclass
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    number: int
    where: Point


def plain(a: int, b: str = "x", *, c: Literal["on", "off"] = "on") -> None: ...
def rich(order: Order, others: list[Order] | None = None) -> None: ...
def told(city: Annotated[str, Field(description="a city's name")]) -> None: ...
def many(first: int, /, *rest: int, **named: float) -> None: ...
def odd(where: socket.socket, anything: Any, untyped, default: Any = socket) -> None: ...
def shadows(model_config: int, schema: str, copy: str, _hidden: int = 1) -> None: ...
def nothing() -> None: ...


EVERY = [plain, rich, told, many, odd, shadows, nothing]


@pytest.mark.parametrize("function", EVERY, ids=lambda function: function.__name__)
def test_every_schema_is_one_of_an_object(function):
    schema = schema_of(Tool(function))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"


def test_parameters_are_properties_and_those_without_a_default_are_required():
    schema = schema_of(Tool(plain))
    assert schema["properties"]["a"] == {"type": "integer"}
    assert schema["properties"]["b"] == {"type": "string", "default": "x"}
    assert schema["properties"]["c"] == {"enum": ["on", "off"], "type": "string", "default": "on"}
    assert (schema["required"], schema["additionalProperties"]) == (["a"], False)


def test_models_and_dataclasses_are_described_once():
    schema = schema_of(Tool(rich))
    assert set(schema["$defs"]) == {"Order", "Point"}
    order = {"number": 1, "where": {"x": 1}}
    jsonschema.validate({"order": order, "others": [order]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"order": {"number": 1}}, schema)


def test_what_an_annotation_says_of_a_parameter_is_passed_on():
    assert schema_of(Tool(told))["properties"]["city"] == {"description": "a city's name", "type": "string"}


def test_what_takes_any_number_of_arguments_is_a_list_and_more_properties():
    schema = schema_of(Tool(many))
    assert schema["properties"]["rest"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["additionalProperties"] == {"type": "number"}
    arguments = by_parameter(Tool(many), {"first": 1, "rest": [2, 3], "x": 0.5})
    assert Tool(many).prepare(arguments) == ((1, 2, 3), {"x": 0.5})


def test_what_nobody_can_describe_may_be_anything():
    schema = schema_of(Tool(odd))
    assert schema["properties"] == {"where": {}, "anything": {}, "untyped": {}, "default": {}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}), ("", {}), (None, {}), (" ", {}), ({"a": 1}, {"a": 1}),
        ('{"a":', '{"a":'), ("[1]", "[1]"), ('{"a": NaN}', '{"a": NaN}'), ("[" * 100_000, "[" * 100_000),
    ],
    ids=repr,
)  # fmt: skip
def test_arguments_are_an_object_or_stay_the_text_that_they_are(text, value):
    assert read_arguments(text) == value

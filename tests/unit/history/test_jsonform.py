"""Claims about the JSON form of values: readable, exact, and not to be mistaken for what a user wrote."""

from __future__ import annotations

import json
from collections import deque
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdfast.errors import Corrupt, UnknownValueType
from holdfast.history.jsonform import from_json, to_json
from tests.unit.history.values import Access, Color, Order, Row, nested, profile, same


def test_what_json_has_stays_as_it_is():
    value = {"a": [None, True, 1, -1.5, "text", {"b": {}}], "big": 2**2000, "$": 1, "$tuple": 2}
    assert to_json(value) == value


def test_what_json_lacks_can_be_read_by_a_person():
    value = [
        (1, 2), {3, 1}, b"hi", {1: "one"}, float("nan"), Decimal("1.50"), deque([1], 2), Color.RED, Order(1),
        Access.READ | Access.WRITE, Row("x"), profile("ann"), datetime(2024, 1, 1, tzinfo=UTC),
    ]  # fmt: skip
    assert to_json(value) == snapshot(
        [
            {"$tuple": [1, 2]},
            {"$set": [1, 3]},
            {"$bytes": "aGk="},
            {"$dict": [[1, "one"]]},
            {"$float": "nan"},
            {"$decimal": "1.50"},
            {"$deque": [2, [1]]},
            {"$enum": ["Color", "RED"]},
            {"$dataclass": ["Order", {"total": 11, "name": "name", "taxed": True}]},
            {"$enum": ["Access", None, 3]},
            {"$namedtuple": ["Row", {"name": "x", "value": None}]},
            {"$model": ["Profile", {"user_name": "ann!", "tags": []}, ["user_name"], {}, {"_visits": 0}]},
            {"$datetime": "2024-01-01T00:00:00+00:00"},
        ]
    )


@pytest.mark.parametrize("value", [{"$tuple": [1]}, {"$x": 1}, {"$": {"$dict": []}}, {"$bytes": "no base64"}])
def test_a_user_s_dict_is_never_taken_for_a_tag(value):
    assert to_json(value) != value
    assert from_json(to_json(value)) == value


def test_lone_surrogates_and_long_ints_survive_text():
    value = {"\ud800": ["\udfff", 2**20_000, -(2**20_000)]}
    assert same(from_json(json.loads(json.dumps(to_json(value)))), value)


def test_the_text_of_a_set_does_not_depend_on_its_order():
    assert str(to_json(set("abcdefgh"))) == str(to_json(set("hgfedcba")))


def test_what_can_not_be_kept_is_named_by_its_path():
    for value, path in (
        ({"a": [0, {"b": object()}]}, "metadata.a[1].b"),
        ({"a": Order((object(),))}, "metadata.a.total[0]"),
        ({"a": {1: {object()}}}, "metadata.a[1]{…}"),
    ):
        with pytest.raises(UnknownValueType, match="can't be kept exactly") as caught:
            to_json(value, path="metadata")
        assert caught.value.path == path


def test_a_cycle_is_named_where_it_closes():
    value: list[Any] = []
    value.append({"me": value})
    with pytest.raises(UnknownValueType, match="cycle") as caught:
        to_json(value)
    assert caught.value.path == "state[0].me"


def test_as_deep_as_the_encoding_goes_the_text_goes():
    value = nested(255)
    assert from_json(json.loads(json.dumps(to_json(value)))) == value
    with pytest.raises(UnknownValueType, match="nested deeper"):
        to_json(nested(5000))


@pytest.mark.parametrize(
    "plain",
    [
        {"$nope": 1}, {"$tuple": 1}, {"$tuple": "ab"}, {"$bytes": "a"}, {"$bytes": [1]}, {"$float": "one"}, {"$int": 5},
        {"$set": [[]]}, {"$set": [1, 1]}, {"$dict": [[1, 2], [1, 3]]}, {"$dict": [[1]]}, {"$enum": []}, {1: 2}, (1,),
        float("inf"), {"$datetime": "now"}, nested(5000), {"$dataclass": ["Point", 1]},
    ],
)  # fmt: skip
def test_what_was_never_written_is_damage(plain):
    with pytest.raises(Corrupt):
        from_json(plain)


def test_a_type_that_is_not_registered_here_is_named():
    with pytest.raises(UnknownValueType, match="'Nope'"):
        from_json({"$dataclass": ["Nope", {}]})

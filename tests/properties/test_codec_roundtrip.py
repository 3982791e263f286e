"""Claims about any value at all: it comes back the same, and no bytes do harm."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, OrderedDict, deque
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.history import codec, jsonform
from holdfast.history.lines import dumps_line, loads_line
from holdfast.history.wire import from_wire
from tests.unit.history.values import Access, Color, Names, Order, Point, Rank, Row, Word, profile, same

ZONES = st.sampled_from([ZoneInfo("Europe/Paris"), ZoneInfo("America/New_York"), ZoneInfo("UTC"), UTC]) | st.builds(
    timezone,
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)),
    st.sampled_from(["CET", "odd]name[", "UTC+01:00"]),
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["$tuple", "$dict", "\ud800", "a.b"]
)
HASHABLE_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**3000), 2**3000)
    | st.floats()
    | TEXTS
    | st.binary(max_size=8)
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.datetimes(timezones=st.none() | ZONES)
    | st.builds(
        datetime, st.just(2024), st.just(10), st.just(27), st.integers(0, 4), tzinfo=ZONES, fold=st.integers(0, 1)
    )
    | st.dates()
    | st.times(timezones=st.none() | ZONES)
    | st.builds(time, st.integers(0, 23), fold=st.integers(0, 1))
    | st.timedeltas()
    | st.builds(range, st.integers(), st.integers(), st.integers(1, 9))
    | st.sampled_from([*Color, *Rank, *Word, *Access, Access.READ | Access.WRITE, Access(0)])
)


def named(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The same strategy with a short repr, since hypothesis prints those of all parts."""

    @st.composite
    def some(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return some()


HASHABLE = named(
    st.recursive(
        named(HASHABLE_LEAVES),
        lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3) | st.builds(Point, inner, inner),
        max_leaves=4,
    )
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=4)
    return (
        items
        | items.map(tuple)
        | st.sets(HASHABLE, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(HASHABLE, st.integers(), max_size=3).map(Counter)
        | st.builds(deque, items, st.none() | st.integers(0, 6))
        | st.builds(Order, inner, inner)
        | st.builds(Row, inner, inner)
        | st.builds(Point, inner)
        | st.builds(profile, st.text(min_size=1, max_size=4), visits=inner, tags=inner, other=inner)
        | st.lists(st.text(max_size=4), max_size=3).map(Names)
    )


VALUES = named(st.recursive(HASHABLE | st.decimals(), containers, max_leaves=12))


@given(VALUES)
def test_every_value_comes_back_the_same(value):
    assert same(codec.decode(codec.encode(value)), value)


@given(VALUES)
def test_every_value_comes_back_the_same_from_json_text(value):
    text = json.dumps(jsonform.to_json(value), allow_nan=False)
    assert text.isascii()
    assert same(jsonform.from_json(json.loads(text)), value)


@given(VALUES)
def test_the_encoding_of_what_came_back_is_the_encoding_it_came_from(value):
    assert codec.encode(codec.decode(codec.encode(value))) == codec.encode(value)


@given(st.lists(VALUES, max_size=20))
def test_values_laid_one_behind_the_other_come_back_the_same(values):
    body = codec.pack_many(values)
    assert body == b"".join(map(codec.pack, values))
    assert same(codec.unpack_many(body, len(values)), values)


def decoded(data: bytes) -> None:
    with contextlib.suppress(HoldfastError):
        codec.decode(data)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_our_errors(data):
    decoded(data)


@given(st.integers(0, 30), st.binary(max_size=40))
def test_no_payload_of_an_extension_raises_anything_but_our_errors(tag, payload):
    decoded(bytes((0xC7, len(payload), tag)) + payload)


@given(VALUES, st.data())
def test_no_flipped_bit_and_no_truncation_raises_anything_but_our_errors(value, data):
    whole = codec.encode(value)
    where = data.draw(st.integers(0, len(whole) * 8 - 1))
    flipped = bytearray(whole)
    flipped[where // 8] ^= 1 << where % 8
    decoded(bytes(flipped))
    decoded(whole[: where // 8])


@given(VALUES, st.binary(min_size=1, max_size=20))
def test_nothing_may_follow_an_encoded_value(value, more):
    whole = codec.encode(value)
    for data in (whole + more, whole + whole, whole + b"\xc1" * len(more), whole + b"\xc4\x01\xc1"):
        try:
            codec.decode(data)
        except HoldfastError:
            continue
        raise AssertionError(data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(jsonform.TAGS)), inner, min_size=1, max_size=1)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_no_json_raises_anything_but_our_errors(plain):
    with contextlib.suppress(HoldfastError):
        jsonform.from_json(plain)


@given(st.text(max_size=40) | st.binary(max_size=40) | PLAIN.map(json.dumps))
def test_no_line_raises_anything_but_our_errors(line):
    with contextlib.suppress(HoldfastError):
        from_wire(loads_line(line))


@given(VALUES)
def test_a_line_of_plain_json_comes_back_the_same(value):
    obj = {"value": jsonform.to_json(value)}
    assert same(loads_line(dumps_line(obj)), obj)

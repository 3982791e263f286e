"""Claims about the exact encoding, where a single example says it best."""

from __future__ import annotations

import dataclasses
import enum
import functools
import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from types import SimpleNamespace
from typing import Any

import ormsgpack
import pytest

from holdfast.errors import Corrupt, DuplicateId, HoldfastError, InvalidArgument, UnknownValueType
from holdfast.history import codec, rescue
from holdfast.history.kinds import BY_KEY, BY_TAG, KINDS
from holdfast.history.registry import register_type, registered
from tests.unit.history.values import Order, Point, Profile, Rank, nested, profile, same


def refused(value: Any) -> UnknownValueType:
    with pytest.raises(UnknownValueType) as caught:
        codec.encode(value)
    return caught.value


def damaged(data: bytes) -> str:
    with pytest.raises(Corrupt) as caught:
        codec.decode(data)
    return caught.value.message


def extension(tag: int, payload: bytes) -> bytes:
    return b"\xc9" + len(payload).to_bytes(4, "big") + bytes((tag,)) + payload


# What can't be kept -------------------------------------------------------------------------------------


class Socket:
    pass


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"memory": {"short_term": [0, 1, 2, {"socket": Socket()}]}}, "state.memory.short_term[3].socket"),
        ({"a": (1, Socket())}, "state.a[1]"),
        ({"a": {Socket()}}, "state.a{…}"),
        ({"a": {1: Socket()}}, "state.a[1]"),
        ({"a": {"odd key": Socket()}}, "state.a['odd key']"),
        ({"a": {(1, Socket): 1}}, f"state.a key {(1, Socket)!r}[1]"),
        ({"a": Order(1, Socket())}, "state.a.name"),
        ({"a": profile("n", tags=[Socket()])}, "state.a.tags[0]"),
        ({"a": {"\ud800": "\ud800", "b": Socket()}}, "state.a.b"),
    ],
)
def test_what_can_not_be_kept_is_named_by_its_path(state, path):
    error = refused(state)
    assert error.path == path
    assert path in error.message


def test_the_message_says_what_the_offender_is():
    assert refused({"s": Socket()}).message == "state.s is a Socket, which can't be kept exactly"


@pytest.mark.parametrize("base", [str, int, float, bytes, bytearray, list, dict, tuple, set])
def test_a_subclass_is_not_taken_for_its_base(base):
    assert refused([type("Sub", (base,), {})()]).path == "state[0]"


def test_a_kind_of_dict_that_has_no_exact_form_is_refused():
    assert refused([defaultdict(list)]).path == "state[0]"


def test_an_unregistered_class_gets_the_line_that_registers_it():
    @dataclasses.dataclass
    class Forgotten:
        x: int

    error = refused({"order": Forgotten(1)})
    assert error.path == "state.order"
    assert "holdfast.register_type(Forgotten)" in error.hint


def test_a_cycle_is_named_where_it_closes():
    inner: dict[str, Any] = {}
    inner["me"] = {"again": [inner]}
    assert refused({"a": inner}).path == "state.a.me.again[0]"


def test_a_cycle_through_objects_is_named_where_it_closes():
    order = Order(1)
    order.name = (order,)
    error = refused(order)
    assert error.path == "state.name[0]"
    assert "cycle" in error.message


@pytest.mark.parametrize(
    "value", [nested(400), nested(60, lambda inner: (inner,)), nested(300, lambda inner: {1: inner})]
)
def test_what_nests_too_deep_is_refused_with_a_short_message(value):
    error = refused(value)
    assert "nested deeper" in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize(
    "value", [nested(255), nested(48, lambda inner: (inner,)), nested(40, lambda inner: {1: [inner]})]
)
def test_what_nests_deep_comes_back(value):
    assert codec.decode(codec.encode(value)) == value


def test_an_attribute_that_is_no_field_is_not_lost_in_silence():
    order = Order(1)
    order.extra = 2
    error = refused([order])
    assert error.path == "state[0].extra"


def test_what_a_cached_property_keeps_is_left_out():
    @register_type
    @dataclasses.dataclass
    class Circle:
        radius: int

        @functools.cached_property
        def area(self) -> int:
            return self.radius**2 * 3

    circle = Circle(2)
    assert circle.area == 12
    assert codec.decode(codec.encode(circle)) == circle


# What comes back ----------------------------------------------------------------------------------------


def test_bytearrays_and_memoryviews_come_back_as_bytes():
    strided = memoryview(b"abcdef")[::2]
    assert codec.decode(codec.encode([bytearray(b"a"), memoryview(b"b"), strided])) == [b"a", b"b", b"ace"]


def test_true_one_and_one_point_zero_stay_what_they_are():
    assert [type(value) for value in codec.decode(codec.encode([True, 1, 1.0]))] == [bool, int, float]


def test_the_encoding_of_a_set_does_not_depend_on_its_order():
    assert codec.encode(set("abcdefgh")) == codec.encode(set("hgfedcba")) == codec.encode({*"badcfehg"})


def test_a_user_s_dict_is_never_taken_for_a_tag():
    for value in ({"$tuple": [1]}, {"__ext__": 1}, {"": 1}):
        assert codec.decode(codec.encode(value)) == value


def test_the_fast_way_does_not_walk(monkeypatch):
    monkeypatch.setattr(rescue, "rescued", lambda value, path: pytest.fail("walked"))
    codec.encode({"a": [(1,), {2}, Order(1), Rank.LOW, 2**70]})


def test_only_what_needs_it_is_walked(monkeypatch):
    walked = []
    original = rescue.Walk.converted
    monkeypatch.setattr(
        rescue.Walk, "converted", lambda self, value, *rest: (walked.append(value), original(self, value, *rest))[1]
    )
    state = {"messages": [{"text": "fine"}] * 50, "odd": {1: [2, 3]}}
    assert codec.decode(codec.encode(state)) == state
    assert walked == [state, state["odd"]]


def test_a_zone_of_another_library_keeps_instant_and_offset():
    class Zone(tzinfo):
        def utcoffset(self, moment):
            return timedelta(minutes=90)

        def dst(self, moment):
            return None

    moment = datetime(2024, 1, 1, tzinfo=Zone())
    kept = codec.decode(codec.encode(moment))
    assert kept == moment
    assert kept.tzinfo == timezone(timedelta(minutes=90))


def test_an_instant_wins_over_what_the_zone_s_name_means_here():
    kept = codec.decode(extension(10, b"2024-07-01T12:00:00+07:00[Europe/Paris]"))
    assert kept.isoformat() == "2024-07-01T12:00:00+07:00"


def test_an_offset_under_a_second_is_kept():
    for microseconds in (1, -1):
        moment = datetime(2024, 1, 1, tzinfo=timezone(timedelta(microseconds=microseconds)))
        assert same(codec.decode(codec.encode(moment)), moment)


def test_a_model_comes_back_without_being_changed_by_its_validators():
    model = profile("ann", visits=(1,), tags={1}, other="extra")
    assert model.user_name == "ann!"
    assert same(codec.decode(codec.encode(model)), model)


def test_a_post_init_does_not_change_what_was_kept():
    order = Order(100)
    assert order.total == 110
    assert codec.decode(codec.encode(order)).total == 110


# Registering --------------------------------------------------------------------------------------------


def test_a_type_that_is_not_registered_here_is_named_with_what_to_do():
    with pytest.raises(UnknownValueType, match="'Nope', which is not registered") as caught:
        codec.decode(extension(19, codec.pack(["Nope", {"x": 1}])))
    assert "holdfast.register_type(TheClass, name='Nope')" in caught.value.hint


def test_a_class_that_refuses_the_stored_values_is_named():
    for tag, body in (
        (19, ["Point", {"nope": 1}]),
        (21, ["Profile", {"user_name": ""}, [], None, None]),
        (18, ["Rank", "X"]),
    ):
        with pytest.raises(UnknownValueType, match=f"A stored {body[0]} can't be built again"):
            codec.decode(extension(tag, codec.pack(body)))


def test_a_name_of_another_family_is_not_built():
    with pytest.raises(UnknownValueType, match="registered for a dataclass"):
        codec.decode(extension(18, codec.pack(["Point", "x"])))


def test_a_field_added_since_gets_its_default():
    assert codec.decode(extension(19, codec.pack(["Point", {"x": 1}]))) == Point(1, 0)


def test_the_same_class_defined_again_takes_its_name_over():
    def define() -> type:
        @register_type(name="tests.Reloaded")
        @dataclasses.dataclass
        class Reloaded:
            x: int

        return Reloaded

    old, new = define(), define()
    assert type(codec.decode(codec.encode(old(1)))) is new


def test_another_class_does_not_get_a_taken_name():
    class Other(enum.Enum):
        A = 1

    with pytest.raises(DuplicateId, match="'Point' is taken by"):
        register_type(Other, name="Point")
    assert registered(Other) is None


def test_a_renamed_class_is_read_under_both_names():
    @register_type(name="tests.Old")
    class Renamed(enum.Enum):
        A = 1

    old = codec.encode(Renamed.A)
    register_type(Renamed, name="tests.New")
    assert codec.encode(Renamed.A) != old
    assert codec.decode(old) is codec.decode(codec.encode(Renamed.A)) is Renamed.A


def _needs_more() -> type:
    @dataclasses.dataclass
    class NeedsMore:
        x: int
        more: dataclasses.InitVar[int]

    return NeedsMore


@pytest.mark.parametrize(
    "cls", [int, Socket, SimpleNamespace, _needs_more(), dataclasses.dataclass(type("D", (dict,), {}))]
)
def test_a_class_that_could_not_be_built_again_is_not_registered(cls):
    with pytest.raises(InvalidArgument):
        register_type(cls)


def test_threads_that_want_one_name_get_it_once():
    classes = [enum.Enum(f"Thread{index}", "A") for index in range(8)]
    outcomes: list[bool] = []
    barrier = threading.Barrier(len(classes))

    def register(cls: type) -> None:
        barrier.wait()
        try:
            register_type(cls, name="tests.Contended")
        except DuplicateId:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=register, args=(cls,)) for cls in classes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


# Damaged and hostile bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, "a", [1, (2,)], Order(1), b"\xc1" * 5])
def test_bytes_behind_a_value_are_damage(value):
    whole = codec.encode(value)
    for more in (b"\x00", b"\xc1", b"\xc4\x01\xc1", b"\xc4\x02\xc1\xc1", whole):
        damaged(whole + more)
    damaged(codec.pack([1, (2,)])[:-3] + extension(1, codec.pack([2]) + b"\x00"))


def test_bytes_of_another_number_of_values_are_damage():
    body = codec.pack_many([1, 2, 3])
    for count in (0, 1, 2, 4, 70_000):
        with pytest.raises(Corrupt):
            codec.unpack_many(body, count)


@pytest.mark.parametrize("data", [b"", b"\xdd\xff\xff\xff\xff" * 1000, b"\xc9\xff\xff\xff\xff\x01", b"\x91" * 100_000])
def test_lengths_and_depths_that_can_not_be_are_damage(data):
    damaged(data)


def test_deep_lists_in_deep_extensions_are_refused_before_they_use_up_the_stack():
    payload = b"\xc0"
    for _ in range(codec.NESTED_MAX - 1):
        payload = extension(1, b"\x91" * 1000 + payload)
    assert "nest deeper" in damaged(payload)


def test_large_payloads_in_deep_extensions_are_refused_before_they_use_up_memory():
    payload = codec.pack(b"x" * codec.PAYLOAD_MAX)
    for _ in range(20):
        payload = extension(1, b"\x91" + payload)
    assert "nest deeper" in damaged(payload)


def test_an_unknown_extension_type_may_be_from_a_newer_version():
    with pytest.raises(Corrupt, match="no extension type 99") as caught:
        codec.decode(extension(99, b""))
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    ("tag", "payload"),
    [
        (8, b"one"),
        (9, b"x"),
        (10, b"2024-13-01"),
        (2, b"\x92\x01\x01"),
        (2, b"\x91\x90"),
        (4, b"\x92\x92\x01\x02\x92\x01\x03"),
    ],
)
def test_a_payload_that_its_type_never_has_is_damage(tag, payload):
    damaged(extension(tag, payload))


def test_an_unknown_zone_is_no_damage():
    with pytest.raises(UnknownValueType, match="Europe/Nowhere"):
        codec.decode(extension(10, b"2024-07-01T12:00:00+07:00[Europe/Nowhere]"))


def test_an_error_of_one_decoding_is_not_told_of_the_next():
    with pytest.raises(Corrupt, match="99"):
        codec.decode(extension(99, b""))
    assert "99" not in damaged(b"\x91")


def test_a_hook_of_its_own_is_asked_for_every_extension():
    def hook(tag: int, payload: bytes) -> Any:
        return payload if tag == 100 else codec.ext_hook(tag, payload)

    body = codec.pack_many([(1,)]) + ormsgpack.packb(ormsgpack.Ext(100, b"mine"))
    assert codec.unpack_many(body, 2, hook) == [(1,), b"mine"]
    with pytest.raises(HoldfastError, match="99"):
        codec.unpack_many(extension(99, b""), 1, hook)


# The format ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 65_535, 65_536])
def test_packing_many_leaves_out_exactly_the_header(count):
    values = list(range(count))
    body = codec.pack_many(values)
    assert codec.list_header(count) + body == codec.encode(values)
    assert codec.unpack_many(body, count) == values


def test_tags_and_keys_are_what_they_have_always_been():
    assert {kind.tag: kind.key for kind in KINDS} == {
        1: "$tuple", 2: "$set", 3: "$frozenset", 4: "$dict", 5: "$str", 6: "$int", 7: "$complex", 8: "$decimal",
        9: "$uuid", 10: "$datetime", 11: "$date", 12: "$time", 13: "$timedelta", 14: "$range", 15: "$deque",
        16: "$ordereddict", 17: "$counter", 18: "$enum", 19: "$dataclass", 20: "$namedtuple", 21: "$model",
    }  # fmt: skip
    assert len(BY_TAG) == len(BY_KEY) == len(KINDS)


def test_the_bytes_are_what_they_have_always_been():
    value = {"t": (1, {2}), "o": Point(1, Rank.LOW), 3: datetime(2024, 1, 1, tzinfo=UTC)}
    assert codec.encode(value).hex() == (
        "c74b049392a174c706019201d502910292a16fc71a1392a5506f696e7482a17801a179c70a1292a452616e6ba34c4f579203"
        "c7190a323032342d30312d30315430303a30303a30302b30303a3030"
    )


def test_a_model_s_name_is_its_class_s():
    assert registered(Profile).name == "Profile"

"""Images: exact, digested by content, sharing what stayed the same."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from hashlib import blake2b

import ormsgpack
import pytest

from holdfast.errors import Corrupt, HoldfastError, UnknownValueType
from holdfast.history import codec
from holdfast.history.image import CHUNK_ELEMENTS, STRANDS_MAX, TAG, Chunk, Image, Strand


def messages(count: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"message number {number}, and a few words more"} for number in range(count)]


def same(first: object, second: object) -> bool:
    """Equal in value and in type: the encoding of True is neither that of 1 nor that of 1.0."""
    return codec.pack(first) == codec.pack(second)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 65535, 65536, 65537])
def test_a_list_of_any_length_comes_back_exactly(count):
    state = {"items": list(range(count)), "after": "x"}
    image = Image.of(state)
    assert same(image.decode(), state)
    assert list(image.decode()) == ["items", "after"]
    assert Image.of(image.decode()).digest == image.digest


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"a": None},
        {"a": {"b": {"c": {"d": {"e": messages(20)}}}}},
        {"a": messages(20), "b": messages(20)},
        {"a": {"log": messages(70)}, "odd keys": {1: messages(20), (2, 3): "x"}},
        {"lone surrogate": "\ud800", "messages": messages(30)},
        {"messages": [{"content": "\ud800"}, *messages(30)], "turn": {3: 4}},
        {"\ud800": messages(20), "inner": {"messages": messages(20)}},
        {"ключ": {"é": messages(20)}},
        {f"key {number}": messages(16) for number in range(64)},
        {f"key {number}": messages(16) for number in range(65)},
        {f"a{a}": {f"b{b}": list(range(16)) for b in range(64)} for a in range(5)},
        {f"a{a}": {f"b{b}": {"c": {}} for b in range(20)} for a in range(20)},
        {"t": tuple(messages(20)), "s": {1, 2, 3}, "n": [messages(20)], "f": [float("inf"), -0.0] * 10},
    ],
    ids=range(14),
)
def test_every_shape_of_state_comes_back_exactly(state):
    image = Image.of(state)
    decoded = image.decode()
    assert same(decoded, state)
    assert image.size == len(image.skeleton) + sum(len(c.body) for s in image.strands for c in s.chunks)
    assert Image.of(decoded) == image
    assert len(image.strands) <= STRANDS_MAX


def test_long_lists_leave_the_skeleton_and_name_their_place():
    image = Image.of({"messages": messages(100), "memory": {"log": messages(16), "short": messages(15)}})
    assert [(strand.path, len(strand)) for strand in image.strands] == [(("messages",), 100), (("memory", "log"), 16)]
    assert [chunk.count for chunk in image.strands[0].chunks] == [CHUNK_ELEMENTS, 100 - CHUNK_ELEMENTS]


def test_a_wide_dict_does_not_hide_the_lists_beside_it():
    wide = {f"user {a}": {f"key {b}": {} for b in range(60)} for a in range(60)}
    image = Image.of({"users": wide, "memory": {"log": messages(20)}, "messages": messages(20)})
    assert [strand.path for strand in image.strands] == [("messages",), ("memory", "log")]


def test_the_state_is_not_touched():
    inner = {"log": messages(20)}
    state = {"a": inner, "messages": messages(20)}
    before = codec.pack(state)
    Image.of(state)
    assert codec.pack(state) == before
    assert state["a"] is inner


def test_one_more_message_makes_one_more_chunk_and_shares_the_others():
    state = {"messages": messages(200)}
    first = Image.of(state)
    state["messages"].append({"role": "user", "content": "new"})
    second = Image.of(state, like=first)
    old, new = first.strands[0].chunks, second.strands[0].chunks
    assert [a is b for a, b in zip(old, new, strict=True)] == [True, True, True, False]


def test_an_old_message_changed_in_place_is_seen():
    state = {"messages": messages(200)}
    first = Image.of(state)
    state["messages"][3]["content"] = state["messages"][3]["content"].replace("3", "4")
    second = Image.of(state, like=first)
    assert second != first
    assert same(second.decode(), state)
    assert same(first.decode(), {"messages": messages(200)})


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (1, 1.0), (True, 1.0), (0, False), (0.0, -0.0), ([], ()), ("", b"")]
)
def test_a_change_of_type_alone_is_seen(old, new):
    state = {"values": [old] * 100}
    first = Image.of(state)
    state["values"][70] = new
    second = Image.of(state, like=first)
    assert second.digest != first.digest
    assert same(second.decode(), state)


def test_a_shrunk_list_is_seen():
    state = {"messages": messages(200)}
    first = Image.of(state)
    first_digest = first.digest
    for size in (199, 192, 128, 100, 64, 16, 15, 0):
        del state["messages"][size:]
        image = Image.of(state, like=first)
        assert same(image.decode(), state)
        assert image.digest == Image.of(state).digest != first_digest


def test_the_digest_depends_on_the_content_alone():
    state = {"messages": []}
    image = None
    for message in messages(150):
        state["messages"].append(message)
        image = Image.of(state, like=image)
        if len(state["messages"]) % 3:
            assert image.digest == Image.of(state).digest
    assert image == Image.of(state)
    assert hash(image) == hash(Image.of(state))
    assert image != Image.of({**state, "more": 1})
    assert image != "something else"


def test_the_order_of_keys_is_part_of_the_content():
    assert Image.of({"a": 1, "b": 2}).digest != Image.of({"b": 2, "a": 1}).digest
    assert Image.of({"a": messages(20), "b": []}).digest != Image.of({"b": [], "a": messages(20)}).digest


def test_a_digest_of_a_grown_chunk_hashes_only_what_it_grew_by(monkeypatch):
    hashed = []

    class Counting:
        def __init__(self, data=b"", *, digest_size=16, inner=None):
            self.inner = inner or blake2b(digest_size=digest_size)
            self.update(data)

        def update(self, data):
            hashed.append(len(data))
            self.inner.update(data)

        def copy(self):
            return Counting(inner=self.inner.copy())

        def digest(self):
            return self.inner.digest()

    monkeypatch.setattr("holdfast.history.image.blake2b", Counting)
    state = {"messages": messages(1000)}
    first = Image.of(state)
    first_digest = first.digest
    whole = sum(hashed)
    state["messages"].append({"role": "user", "content": "new"})
    hashed.clear()
    assert Image.of(state, like=first).digest != first_digest
    assert sum(hashed) < whole / 50


def test_an_image_keeps_no_earlier_image_alive():
    class Watched(Image):
        __slots__ = ("__weakref__",)

    first = Image.of({"messages": messages(100)})
    watched = Watched(first.skeleton, first.strands)
    gone = weakref.ref(watched)
    second = Image.of({"messages": messages(101)}, like=watched)
    assert second.digest != watched.digest
    del watched, first
    gc.collect()
    assert gone() is None


def test_a_value_that_cannot_be_kept_is_named_by_its_whole_path():
    state = {"messages": messages(100)}
    state["messages"][70]["socket"] = object()
    with pytest.raises(UnknownValueType) as caught:
        Image.of(state)
    assert caught.value.path == "state.messages[70].socket"


def test_a_value_that_cannot_be_kept_outside_the_lists_is_named_too():
    with pytest.raises(UnknownValueType) as caught:
        Image.of({"messages": messages(100), "memory": {"log": messages(16), "socket": object()}})
    assert caught.value.path == "state.memory.socket"


def test_a_state_that_contains_itself_is_refused():
    state = {"messages": messages(20)}
    state["self"] = state
    with pytest.raises(UnknownValueType):
        Image.of(state)


def test_a_subclass_of_dict_is_left_to_the_codec():
    state = {"ordered": OrderedDict(messages=messages(20))}
    try:
        expected = codec.pack(state)
    except UnknownValueType:
        pytest.skip("the codec does not keep an OrderedDict")
    image = Image.of(state)
    assert image.skeleton == expected
    assert not image.strands


@pytest.mark.parametrize(
    "skeleton",
    [
        b"",
        b"\xc1",
        ormsgpack.packb({"a": 1}),  # does not name its list
        ormsgpack.packb({"a": ormsgpack.Ext(TAG, b"\x01")}),  # names one that is not there
        ormsgpack.packb({"a": ormsgpack.Ext(TAG, b"\x00"), "b": ormsgpack.Ext(TAG, b"\x00")}),
        ormsgpack.packb({"a": ormsgpack.Ext(TAG, b"")}),
        ormsgpack.packb({"a": ormsgpack.Ext(TAG, b"\x00\x00")}),
        b"\x81\xd4\x64\x00\xc0",  # as a key
    ],
)
def test_a_skeleton_that_does_not_fit_its_lists_is_corrupt(skeleton):
    strands = Image.of({"a": messages(20)}).strands
    with pytest.raises(Corrupt):
        Image(skeleton, strands).decode()


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x01", b"\x01\x02\x03", b"\x92\x01"])
def test_a_chunk_with_other_than_its_elements_is_corrupt(body):
    skeleton = Image.of({"a": messages(20)}).skeleton
    with pytest.raises(HoldfastError):
        Image(skeleton, (Strand(("a",), (Chunk(body, 2),)),)).decode()

"""Deltas and segments: small, exact, sharing their base's chunks, and Corrupt for whatever they are not."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from itertools import pairwise

import pytest

from holdfast.errors import Corrupt, HoldfastError, InvalidArgument, TooLarge
from holdfast.history import codec, delta, zstd
from holdfast.history.image import Image
from holdfast.history.varint import write_number

source = random.Random(5)
WORDS = [
    "".join(source.choices("etaoinshrdlucmfwypvbgk", range(22, 0, -1), k=source.randint(2, 9))) for _ in range(3000)
]
OFTEN = [1 / (rank + 3) ** 0.9 for rank in range(len(WORDS))]


def messages(count: int, size: int = 500) -> list[dict[str, str]]:
    """Messages of words that repeat about as often as words do: zlib makes a third of them."""
    text = random.Random(6)
    return [{"role": "user", "content": " ".join(text.choices(WORDS, OFTEN, k=size // 3))[:size]} for _ in range(count)]


def conversation(count: int) -> list[Image]:
    """The images of a state saved after each message."""
    state = {"turn": 0, "name": "agent", "messages": []}
    images: list[Image] = []
    for turn, message in enumerate(messages(count)):
        state["turn"] = turn
        state["messages"].append(message)
        images.append(Image.of(state, like=images[-1] if images else None))
    return images


@pytest.fixture(scope="module")
def talk() -> list[Image]:
    return conversation(400)


def round_trip(image: Image, base: Image | None) -> bytes:
    data = delta.encode(image, base)
    decoded = delta.decode(data, base)
    assert decoded == image
    assert [(s.path, len(s), s.size) for s in decoded.strands] == [(s.path, len(s), s.size) for s in image.strands]
    assert codec.pack(decoded.decode()) == codec.pack(image.decode())
    assert delta.extent(data) <= image.size
    return data


def test_an_appended_message_costs_what_it_says_compressed(talk):
    data = [round_trip(image, base) for base, image in pairwise(talk[200:240])]
    text = sum(len(zlib.compress(m["content"].encode())) for m in messages(240)[201:]) / 39
    assert sum(map(len, data)) / 39 < text < 360


def test_an_unchanged_state_costs_a_few_bytes(talk):
    assert len(round_trip(talk[99], talk[99])) <= 8


def test_a_small_change_costs_a_few_bytes():
    state = {"turn": 1, "messages": messages(200)}
    base = Image.of(state)
    state["turn"] = 2
    assert len(round_trip(Image.of(state, base), base)) <= 20


def test_decoding_an_append_shares_the_chunks_of_its_base(talk):
    decoded = delta.decode(delta.encode(talk[201], talk[200]), talk[200])
    old, new = talk[200].strands[-1].chunks, decoded.strands[-1].chunks
    assert [a is b for a, b in zip(old, new, strict=False)] == [True, True, True, False]
    assert [chunk.count for chunk in new] == [64, 64, 64, 10]
    following = Image.of(decoded.decode(), like=decoded)
    assert all(a is b for a, b in zip(following.strands[-1].chunks, new, strict=True))


def edited(change):
    state = {"turn": 1, "messages": messages(300), "memory": {"log": [[n, n * n] for n in range(100)]}}
    base = Image.of(state)
    change(state)
    return Image.of(state, like=base), base


def recase(state):
    for message in state["messages"]:
        message["role"] = "assistant"


EDITS = {
    "insert in front": (lambda s: s["messages"].insert(0, {"role": "system", "content": "x"}), 200),
    "delete in front": (lambda s: s["messages"].pop(0), 200),
    "insert in the middle": (lambda s: s["messages"].insert(150, {"role": "system", "content": "x"}), 200),
    "first and last change": (lambda s: (s["messages"][0].update(seen=1), s["messages"][-1].update(seen=1)), 100),
    "every message changes": (recase, 3000),
    "truncate": (lambda s: s["messages"].__delitem__(slice(70, None)), 30),
    "truncate at a chunk": (lambda s: s["messages"].__delitem__(slice(128, None)), 30),
    "shorten below a strand": (lambda s: s["messages"].__delitem__(slice(3, None)), 1000),
    "drop a list": (lambda s: s.pop("memory"), 30),
    "add a list": (lambda s: s.update(more=list(range(100))), 200),
    "add a list in front": (lambda s: (s.update(memory2=s.pop("memory")), s.update(memory={"log": [0] * 16})), 1000),
    "swap the order of lists": (lambda s: s.update(messages=s.pop("messages")), 60),
    "reverse": (lambda s: s["messages"].reverse(), 12_000),
    "empty": (lambda s: s.clear(), 30),
    "grow across chunks": (lambda s: s["memory"]["log"].extend([n, n * n] for n in range(100, 300)), 1100),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_kind_of_edit_round_trips_and_costs_little(name):
    change, limit = EDITS[name]
    image, base = edited(change)
    assert len(round_trip(image, base)) <= limit
    round_trip(base, image)
    round_trip(image, None)
    for sealed, first in ((delta.seal([base, image], None), None), (delta.seal([image, base], image), image)):
        assert sorted(i.digest for i in delta.unseal_all(sealed, first)) == sorted((base.digest, image.digest))


def test_a_list_that_becomes_long_is_found_again_in_the_skeleton():
    state = {"messages": messages(15)}
    base = Image.of(state)
    state["messages"].append({"role": "user", "content": "short"})
    image = Image.of(state, like=base)
    assert len(image.strands) == 1
    assert len(round_trip(image, base)) < 4000


def test_a_text_that_grows_in_the_skeleton_costs_what_was_added():
    lines = [message["content"] for message in messages(200)]
    base = Image.of({"output": "\n".join(lines), "turn": 1})
    image = Image.of({"output": "\n".join([*lines, "one more line"]), "turn": 2})
    assert len(round_trip(image, base)) < 150


def test_a_state_of_megabytes_changed_everywhere_costs_its_changes():
    state = {"messages": messages(6000)}
    base = Image.of(state)
    for number in range(0, 6000, 40):
        state["messages"][number]["note"] = number
    image = Image.of(state, like=base)
    assert base.size > 3_000_000
    assert len(round_trip(image, base)) < 20_000


def test_a_chain_gives_its_last_image(talk):
    chain = [delta.encode(image, base) for base, image in pairwise([None, *talk])]
    assert delta.decode_chain(chain) == talk[-1]
    assert delta.decode_chain(chain[:100]) == talk[99]
    assert delta.decode_chain(chain[100:], talk[99]) == talk[-1]
    assert [delta.needs_base(data) for data in chain] == [False] + [True] * (len(chain) - 1)
    with pytest.raises(Corrupt):
        delta.decode_chain([])
    with pytest.raises(Corrupt):
        delta.decode_chain(chain[100:])


def test_sealed_versions_cost_less_than_their_chain(talk):
    base, versions = talk[191], talk[192:256]
    sealed = delta.seal(versions, base)
    assert len(sealed) < 0.8 * sum(len(delta.encode(b, a)) for a, b in pairwise(talk[191:256]))
    assert delta.unseal_all(sealed, base) == versions
    assert [delta.unseal(sealed, index, base) for index in (0, 1, 40, 62, 63)] == [
        versions[i] for i in (0, 1, 40, 62, 63)
    ]
    assert delta.needs_base(sealed)
    assert not delta.needs_base(delta.seal(versions, None))


def test_large_versions_that_repeat_each_other_are_sealed_as_one():
    heap = random.Random(7).randbytes(3_000_000)
    versions = [Image.of({"first": number, "heap": heap, "last": number}) for number in range(3)]
    assert len(delta.seal(versions, None)) < 1.01 * len(heap)


def test_bytes_behind_the_end_are_corrupt(talk):
    for data, read in ((delta.encode(talk[9], None), delta.decode), (delta.seal(talk[:9], None), delta.unseal_all)):
        read(data, None)
        for more in (b"\0", data[-40:], b"\x28\xb5\x2f\xfd" + zstd.compress(b"x")):
            with pytest.raises(Corrupt):
                read(data + more, None)


def test_dead_versions_cost_nothing_and_are_not_there(talk):
    dying = [image if number % 8 == 0 else None for number, image in enumerate(talk[192:256])]
    sealed = delta.seal(dying, talk[191])
    assert delta.unseal_all(sealed, talk[191]) == dying
    assert len(delta.seal([None] * 63 + [talk[10]], None)) <= len(delta.seal([talk[10]], None)) + 8
    for index in (1, 63, 64, -1, 1 << 70):
        with pytest.raises(Corrupt):
            delta.unseal(sealed, index, talk[191])


def test_a_segment_holds_one_to_sixty_four_versions(talk):
    for images in ([], [None], talk[:65]):
        with pytest.raises(InvalidArgument):
            delta.seal(images, None)


def test_a_big_bomb_is_refused_before_it_is_made():
    image = Image.of({"zeros": bytes(50_000_000)})
    for data in (delta.encode(image, None), delta.seal([image], None)):
        assert len(data) < 10_000
        assert delta.extent(data) > 50_000_000
        tracemalloc.start()
        try:
            with pytest.raises(Corrupt):
                delta.extent(data, max_bytes=1_000_000)
            with pytest.raises(Corrupt):
                (delta.unseal_all if data[0] & 0x20 else delta.decode)(data, None, max_bytes=1_000_000)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


def test_a_state_may_not_outgrow_the_bound_by_its_base():
    base = Image.of({"a": bytes(1000)})
    data = delta.encode(Image.of({"a": bytes(1000), "b": bytes(500)}), base)
    assert delta.decode(data, base, max_bytes=1600).size > 1500
    with pytest.raises(Corrupt):
        delta.decode(data, base, max_bytes=1400)


def test_the_versions_of_a_segment_may_not_outgrow_the_bound_together():
    images = [Image.of({"a": b"a" * 1000, "b": n}) for n in range(10)]
    data = delta.seal(images, None)
    size = sum(image.size for image in images)
    assert delta.unseal_all(data, None, max_bytes=size) == images
    with pytest.raises(Corrupt):
        delta.unseal_all(data, None, max_bytes=size - 1)


def test_what_could_not_be_read_again_is_not_written(monkeypatch):
    image, other = Image.of({"a": b"a" * 1000}), Image.of({"a": b"b" * 1000})
    monkeypatch.setattr(delta, "MAX_BYTES", image.size)
    delta.encode(image, None)
    delta.seal([image], None)
    with pytest.raises(TooLarge):
        delta.seal([image, other], None)
    monkeypatch.setattr(delta, "MAX_BYTES", image.size - 1)
    for refused in (lambda: delta.encode(image, None), lambda: delta.seal([image], None)):
        with pytest.raises(TooLarge):
            refused()


def forged(*numbers: int, payload: bytes = b"", head: int = 0x18) -> bytes:
    data = bytearray([head])
    for number in numbers:
        write_number(number, data)
    return bytes(data) + payload


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x13\x00\x00",
        b"\x18" + b"\xff" * 100_000,  # a number without end
        forged(0, 4),  # flags of the future
        forged(0, 2, 65),  # too many lists
        forged(0, 2, 2, 1, 1, 0, 0),  # one list used twice
        forged(0, 2, 1, 2, 0),  # a list that the base lacks
        forged(0, 2, 1, 0, 1, 1, 0, payload=b"\xff"),  # a path in no encoding
        forged(0, 2, 1, 0, 1, 1, 97, 0),  # a new list without elements
        forged(0, 1, 9999, 0, 0),  # an edit longer than the skeleton
        forged(5, 0, 0),  # more declared than there is
        forged(5, 0, 0, payload=b"xxxxx"),  # more declared than the plan uses
        forged(0, 0, 0, payload=b"xxxxx"),  # more there than is declared
        forged(0, 0, 1, 9999, 0, 0, 0, 0, 0, 1),  # keeps more chunks than there are
        forged(0, 0, 1, 0, 9999, 0, 0, 0, 0, 1),  # replaces more than there are
        forged(0, 0, 1, 0, 0, 1 << 40, 0, 0, 0, 1),  # makes more than it has sizes for
        forged(0, 0, 1, 0, 2, 0, 0, 0, 0, 1),  # bytes, but no chunks for them
        forged(0, 0, 1, 0, 2, 1, 0, 0, 0, 65),  # a chunk of 65
        forged(0, 0, 1, 0, 2, 1, 0, 0, 0, 0),  # a chunk of none
        forged(0, 0, 1, 1, 1, 0, 0, 0, 0, 3),  # a last chunk that should count otherwise
        forged(1, 0, 1, 2, 0, 1, 0, 0, 1, 1, payload=b"\x01"),  # a chunk behind one that is not full
        forged(0, 0, 1 << 62),  # regions without end
        forged(0, 2, 1, 0, 1 << 62),  # a path without end
    ],
    ids=range(24),
)
def test_a_forged_delta_is_corrupt(data):
    base = Image.of({"a": list(range(100))})
    with pytest.raises(Corrupt):
        delta.decode(data, base)


@pytest.mark.parametrize("head", [0x20, 0x21, 0x24, 0x25, 0x28, 0x2C, 0x2E])
def test_a_forged_segment_is_corrupt(head):
    base = Image.of({"a": list(range(100))})
    plans = zstd.compress(bytes(20_000_000))
    for data in (
        forged(65, 0, 0, head=head),
        forged(1, 1, head=head),
        forged(1, 1, 0, 0, 0, head=head),
        forged(1, 1, 0, 20_000_000, len(plans), payload=plans, head=head),
        forged(1, 1, 0, 20_000_000, len(plans) + 1, payload=plans, head=head),
        forged(2, 3, 7, 2, 2, payload=b"\x00\x00", head=head),
    ):
        with pytest.raises(Corrupt):
            delta.unseal_all(data, base)
        with pytest.raises(HoldfastError):
            delta.unseal(data, 0, base)


def test_many_tiny_regions_cost_no_more_time_than_their_bytes():
    base = Image.of({"a": list(range(100_000))})
    region = bytes([0, 0, 0, 0xFF, 0x7F, 1, 0])
    data = forged(40, 0, 100_000, payload=region * 100_000 + b"\x01", head=0x1A)
    with pytest.raises(Corrupt):
        delta.decode(data, base)


# Written once, and readable for ever: not to be renewed when the test fails.
FIRST = {"turn": 1, "messages": [{"role": "user", "content": f"message {n}"} for n in range(70)]}
SECOND = {
    "turn": 2,
    "messages": [*FIRST["messages"], {"role": "assistant", "content": "an answer, to message 70"}],
    "memory": {"log": list(range(16))},
}
KEYFRAME = bytes.fromhex(
    "11bd1003000013010001086d65737361676573010000020000aa10f60e06603d071d05008287181eb0271d0ca3202d28034d"
    "3bd98f418bb458e6610aa83529534a081cbc5a0b0822222222e2ddddddddddffffff6fdbb66db76ddbb69696969696969696"
    "6989140878776d2070a863d4490e0c6492b28c22416b01201ec9240c299945237090a2d61250a821f8f6ff0cc033aa03118c"
    "8088f00a243ce80754b5aa5255abc24b2e2e1db594625969a5934aa39452282bfd27c560e2d6feff7f7c1db443bd005a15"
)
APPEND = bytes.fromhex(
    "1a630300132202010002066d656d6f7279036c6f67010101010000310701000001000010102063bd0200740483a47475726e"
    "02a873d46400a66d656d6f727981a36c6f67d46401a9617373697374616e74b8616e20616e737765722c20746f2020373000"
    "0102030405060708090a0b0c0d0e0f040044c8f5e924fd8047e038cb71"
)
SEGMENT = bytes.fromhex(
    "210305a0113e3e03000022020001086d657373616765730002066d656d6f7279036c6f67010000020000db10f60e07010000"
    "0100001010030022130101010101010031000660a0079d070032cb2729902b1dffb32f10b6b5d8c53c8d16897483940d91a5"
    "5666c64668a79452da79eae8ffffffff9fecbd034b64412101e1c0a08060402000a0c12c4ae3a4f612835b11ce54622ae331"
    "f51cc25d49babbbbbbbb9999999999777777777755555555553333333333f1f1f1f1f1f1f1f11fdfa1c1695e4d6c92e4b1f5"
    "587bb870cb21d17a3417459667e2688f8a0909d7a0055928cfc49743b92f0883610ef2228a55a821ecea5163d80eb0334aae"
    "011124040c890889b0028507fd80084222410542ca2f83604108014000200008b817522e86b4f4c26266c508955e52cca018"
    "794f1a8b09af9fc32423d2029b528b96ad02"
)


def test_what_was_written_once_is_readable_for_ever():
    first = delta.decode(KEYFRAME, None)
    second = delta.decode(APPEND, first)
    assert (first.decode(), second.decode()) == (FIRST, SECOND)
    assert first.digest.hex() == "f3258841efb9506ee653d63b7513d42a"
    assert second.digest.hex() == "ee1f56112ca26d63c72c62877ce371f5"
    assert (Image.of(FIRST), Image.of(SECOND)) == (first, second)
    assert delta.unseal_all(SEGMENT, None) == [first, None, second]


def test_a_packer_packs_a_small_append_alone_and_everything_else_as_without_one(talk):
    packer = zstd.Packer()
    for base, image in pairwise(talk[200:210]):
        data = delta.encode(image, base, packer)
        assert delta.decode(data, base) == image
        assert len(data) < len(delta.encode(image, None, packer))
        assert data != delta.encode(image, base)
    large = Image.of({"messages": messages(200), "note": "x" * 5000}, talk[199])
    for image, base in ((talk[399], None), (talk[399], talk[200]), (talk[100], talk[200]), (large, talk[199])):
        assert delta.encode(image, base, packer) == delta.encode(image, base)

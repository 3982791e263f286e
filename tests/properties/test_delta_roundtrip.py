"""Whatever is done to a state, its images come back exactly from every form in which they are stored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.history import codec, delta
from holdfast.history.image import Image

scalars = (
    st.sampled_from([0, 1, True, False, 1.0, 0.0, -0.0, None, "", b"", (), "1", b"1", 1 << 80])
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(st.characters(), max_size=40)
    | st.binary(max_size=40)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(), max_size=6) | st.integers(0, 9), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)
Edit = Callable[[dict[str, Any], tuple[str, ...], int, Any], Any]
LENGTHS = [0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 126, 127, 128, 129, 200]
PLACES = [("messages",), ("memory", "log"), ("a", "b", "c", "d"), ("a", "b", "c", "d", "e"), ("é",)]


def list_at(state: dict[str, Any], place: tuple[str, ...]) -> list[Any]:
    """The list at a place, made if it is not there; a dict in the way is kept."""
    found = state
    for key in place[:-1]:
        if type(found.get(key)) is not dict:
            found[key] = {}
        found = found[key]
    last = place[-1]
    if type(found.get(last)) is dict:
        return found[last].setdefault("list", [])
    if type(found.get(last)) is not list:
        found[last] = []
    return found[last]


def reorder(state: dict[str, Any], _place: tuple[str, ...], number: int, _value: Any) -> None:
    for key in sorted(state, reverse=bool(number % 2)):
        state[key] = state.pop(key)


def in_list(edit: Callable[[list[Any], int, Any], Any]) -> Edit:
    """An edit of the list at the place."""
    return lambda state, place, number, value: edit(list_at(state, place), number, value)


EDITS: list[Edit] = [
    reorder,
    lambda state, _place, number, value: state.update({f"k{number % 5}": value}),
    lambda state, place, _number, _value: state.pop(place[0], None),
    in_list(lambda found, _, value: found.append(value)),
    in_list(lambda found, number, value: found.insert(number % (len(found) + 1), value)),
    in_list(lambda found, number, _: found.__delitem__(slice(number % (len(found) + 1), number % 7))),
    in_list(lambda found, number, value: found.__setitem__(slice(number, number + 1), [value])),
    in_list(lambda found, number, _: found.__delitem__(slice(LENGTHS[number % len(LENGTHS)], None))),
    in_list(lambda found, number, value: found.extend([value] * (LENGTHS[number % len(LENGTHS)] - len(found)))),
    in_list(lambda found, number, _: found.extend({"n": n} for n in range(len(found), LENGTHS[number % len(LENGTHS)]))),
]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Image]]:
    """Successive states, each edited from the one before, and their images, each like the one before."""
    state: dict[str, Any] = {}
    states, images = [], []
    edit = st.tuples(st.sampled_from(EDITS), st.sampled_from(PLACES), st.integers(0, 300), values)
    for step in draw(st.lists(st.lists(edit, min_size=1, max_size=3), min_size=2, max_size=7)):
        for apply, *arguments in step:
            apply(state, *arguments)
        states.append(copy.deepcopy(state))
        images.append(Image.of(state, like=images[-1] if images else None))
    return states, images


def exactly(image: Image, state: dict[str, Any]) -> bool:
    """Equal in values, types and order: the encodings are."""
    return codec.pack(image.decode()) == codec.pack(state)


@given(histories())
def test_any_sequence_of_edits_comes_back_from_a_chain(history):
    states, images = history
    chain = [delta.encode(image, base) for base, image in pairwise([None, *images])]
    decoded = None
    for data, state, image in zip(chain, states, images, strict=True):
        decoded = delta.decode(data, decoded)
        assert decoded == image
        assert decoded.size == image.size == sum(s.size for s in Image.of(state).strands) + len(image.skeleton)
        assert exactly(decoded, state)
        assert Image.of(state, like=decoded) == image
        assert delta.extent(data) <= image.size
    assert delta.decode_chain(chain) == images[-1]


@given(histories())
def test_any_image_comes_back_on_any_base(history):
    _, images = history
    for base in images:
        for image in images:
            decoded = delta.decode(delta.encode(image, base), base)
            assert decoded.digest == image.digest
            assert [s.path for s in decoded.strands] == [s.path for s in image.strands]


@given(histories(), st.data())
def test_any_versions_come_back_from_a_segment(history, data):
    states, images = history
    alive = data.draw(st.lists(st.booleans(), min_size=len(images) - 1, max_size=len(images) - 1).filter(any))
    base = images[0] if data.draw(st.booleans()) else None
    kept = [image if living else None for image, living in zip(images[1:], alive, strict=True)]
    sealed = delta.seal(kept, base)
    assert delta.unseal_all(sealed, base) == kept
    for index, (image, state) in enumerate(zip(kept, states[1:], strict=True)):
        if image is not None:
            assert exactly(delta.unseal(sealed, index, base), state)


@given(histories())
def test_digests_are_equal_exactly_if_the_encodings_are(history):
    states, images = history
    encodings = [codec.pack(state) for state in states]
    for first, image in zip(encodings, images, strict=True):
        for second, other in zip(encodings, images, strict=True):
            assert (first == second) == (image.digest == other.digest) == (image == other)
    for state, image in zip(states, images, strict=True):
        assert Image.of(state).digest == Image.of(image.decode()).digest == image.digest


@given(histories(), st.data())
def test_damaged_bytes_raise_only_our_errors(history, data):
    _, images = history
    base = images[-2]
    for whole in (delta.encode(images[-1], base), delta.seal(images, base)):
        damaged = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(whole) - 1))
            damaged[place] ^= 1 << data.draw(st.integers(0, 7))
        tried = [bytes(damaged), whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"]
        for bytes_ in tried:
            swallow(bytes_, data.draw(st.sampled_from([base, images[0], None])))


@given(st.sampled_from([0x10, 0x11, 0x12, 0x18, 0x1A, 0x20, 0x24, 0x28, 0x2C, 0x2A]), st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_our_errors(head, rest):
    base = Image.of({"a": list(range(100)), "b": {"c": [{"x": n} for n in range(70)]}, "d": "text"})
    swallow(bytes([head]) + rest, base)
    swallow(bytes([head]) + rest, None)


def swallow(data: bytes, base: Image | None) -> None:
    """Read the bytes in every way. Forged ones may make an image, or raise our error; nothing else."""
    for read in (delta.decode, delta.unseal_all, lambda d, b, **kw: delta.unseal(d, 0, b, **kw)):
        try:
            made = read(data, base, max_bytes=1 << 20)
            for image in made if isinstance(made, list) else [made]:
                if image is not None:
                    assert image.size <= 1 << 20
                    assert len(image.digest) == 16
                    image.decode()
        except HoldfastError:
            pass

"""Patches of opaque bytes: small where they repeat their base, bounded whatever they claim."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corrupt, HoldfastError, TooLarge
from holdfast.history import patch, zstd
from holdfast.history.varint import write_number


def heap(size: int, seed: int = 1) -> bytes:
    """Something like an interpreter's heap: much of it random, some of it regular."""
    source = random.Random(seed)
    return b"".join(source.randbytes(40) + bytes(24) for _ in range(size // 64))


@given(st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_any_bytes_come_back_on_any_base(data, base):
    assert patch.decode(patch.encode(data, base), base) == data


@pytest.mark.parametrize("size", [0, 1, 7, 8, 64, 1 << 17, (1 << 17) + 64, 1 << 20, 3 << 20])
def test_what_repeats_its_base_costs_little(size):
    base = heap(size)
    middle = len(base) // 2
    data = base[:middle] + b"something new" + base[middle:] + b"and more"
    packed = patch.encode(data, base)
    assert patch.decode(packed, base) == data
    assert len(packed) < 200 + size // 1000


def test_nine_megabytes_with_scattered_changes_cost_tens_of_kilobytes():
    base = heap(9_000_000)
    source = random.Random(2)
    changed = bytearray(base)
    for _ in range(300):
        place = source.randrange(len(changed))
        changed[place : place + 8] = source.randbytes(8)
    changed[4_000_000:4_000_000] = source.randbytes(3000)
    packed = patch.encode(bytes(changed), base)
    assert len(packed) < 60_000
    assert patch.decode(packed, base) == changed


def test_random_bytes_are_kept_raw():
    data = random.Random(3).randbytes(10_000)
    assert len(patch.encode(data, None)) <= len(data) + 4


def test_the_declared_size_is_checked_before_anything_is_made():
    packed = patch.encode(bytes(10_000_000), None)
    assert patch.extent(packed) == 10_000_000
    with pytest.raises(Corrupt):
        patch.extent(packed, max_bytes=9_999_999)
    with pytest.raises(Corrupt):
        patch.decode(packed, None, max_bytes=9_999_999)


@pytest.mark.parametrize("declared", [0, 1, 1000, 9_999_999, 10_000_001, 1 << 29])
def test_a_frame_that_holds_other_than_declared_is_corrupt_and_takes_no_memory(declared):
    head = bytearray([patch.encode(bytes(1000), None)[0]])
    write_number(declared, head)
    bomb = bytes(head) + zstd.compress(bytes(10_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt):
            patch.decode(bomb, None)
        assert tracemalloc.get_traced_memory()[1] < 3 * min(declared, 10_000_000) + 3_000_000
    finally:
        tracemalloc.stop()


def test_what_could_not_be_read_again_is_not_written(monkeypatch):
    monkeypatch.setattr(patch, "MAX_BYTES", 1000)
    assert patch.decode(patch.encode(bytes(1000), None), None) == bytes(1000)
    with pytest.raises(TooLarge):
        patch.encode(bytes(1001), None)


def test_a_missing_base_is_corrupt():
    base = heap(1000)
    with pytest.raises(Corrupt):
        patch.decode(patch.encode(base + b"x", base), None)


@given(st.binary(max_size=200), st.none() | st.binary(max_size=40))
def test_hostile_bytes_raise_only_our_errors(data, base):
    with suppress(HoldfastError):
        patch.decode(data, base, max_bytes=1 << 20)


@given(st.data())
def test_a_damaged_patch_raises_only_our_errors(data):
    base = heap(2000)
    packed = bytearray(patch.encode(base[:700] + b"new" + base[700:], base))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(HoldfastError):
        patch.decode(bytes(packed), base, max_bytes=1 << 20)
    with pytest.raises(HoldfastError):
        patch.decode(bytes(packed[:place]), base)


def depth(index: int) -> int:
    base = patch.skip_base(index)
    return 0 if base is None else 1 + depth(base)


@given(st.integers(0, 1 << 40))
def test_no_version_is_more_than_six_patches_from_a_whole_one(index):
    base = patch.skip_base(index)
    assert (base is None) == (index % 64 == 0)
    assert base is None or (index // 64 == base // 64 and base < index)
    assert depth(index) <= 6


def test_what_was_written_once_is_readable_for_ever():
    assert patch.decode(bytes.fromhex("323c203c4d0000186162630100f67443"), b"abcd" * 10) == b"abc" * 20
    assert patch.decode(bytes.fromhex("3003616263"), None) == b"abc"


def test_what_follows_a_large_part_is_no_substitute_for_what_it_lacks():
    """The frame ends where a piece of the input does, so that only what was not read yet tells that there is more."""
    size = 2_000_000
    while len(zstd.compress(random.Random(size).randbytes(size))) % (64 * 1024):
        size += -len(zstd.compress(random.Random(size).randbytes(size))) % (64 * 1024)
    frame = zstd.compress(random.Random(size).randbytes(size))
    assert len(zstd.decompress(frame, size=size)) == size
    for more in (1, 100, 100_000):
        with pytest.raises(Corrupt):
            zstd.decompress(frame + bytes(more), size=size + more)

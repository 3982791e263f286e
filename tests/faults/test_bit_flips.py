"""No damaged byte makes a wrong answer: it is an error of ours, or every answer is what it was."""

import os
import random

import apsw
import pytest

from holdfast.errors import HoldfastError
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.stores import answers, copied, refused, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.slow]

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
PARTS = 2  # so that none of them takes too long
SAMPLE = 150


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flips")
    path = await small_store(folder / "original")
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    assert not refused(right)
    assert (await store.verify()).ok
    await store.close()
    return path, right


async def try_flips(original, folder, places):
    """Flips one bit after the other in a copy. Verify must not be content when an answer is not what it was."""
    path, right = original
    damaged = copied(path, folder)
    data = bytearray(path.read_bytes())
    harmless = 0
    for place, bit in places:
        data[place] ^= 1 << bit
        damaged.write_bytes(data)
        data[place] ^= 1 << bit
        store = SQLiteCheckpointStorage(damaged, read_only=True)
        given = await answers(store)
        assert wrong(given, right) == [], (place, bit)
        if refused(given):
            assert not await content(store), (place, bit, refused(given))
        harmless += not refused(given)
        await store.close()
    return harmless


async def content(store):
    try:
        return (await store.verify()).ok
    except HoldfastError:
        return False


async def test_a_flipped_bit_in_the_header_is_an_error_or_nothing(original, tmp_path):
    chance = random.Random(2)
    await try_flips(original, tmp_path, [(place, chance.randrange(8)) for place in range(100)])


async def test_a_flipped_bit_in_the_list_of_runs_is_an_error_or_nothing(original, tmp_path):
    """A run that is not found would be executed again, so every byte there is tried."""
    db = apsw.Connection(str(copied(original[0], tmp_path / "looked at")))
    [(page,)] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'runs'").fetchall()
    [(size,)] = db.execute("PRAGMA page_size").fetchall()
    db.close()
    begin = (page - 1) * size
    used = [begin + at for at, byte in enumerate(original[0].read_bytes()[begin : begin + size]) if byte]
    assert 50 < len(used) < 200
    chance = random.Random(3)
    harmless = await try_flips(original, tmp_path / "flipped", [(place, chance.randrange(8)) for place in used])
    assert harmless < len(used) / 4


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_flipped_bit_anywhere_is_an_error_or_nothing(original, tmp_path, part):
    chance = random.Random(part)
    size = len(original[0].read_bytes())
    everywhere = [place for place in range(size) if place % PARTS == part]
    places = everywhere if LONG else chance.sample(everywhere, SAMPLE)
    harmless = await try_flips(original, tmp_path, [(place, chance.randrange(8)) for place in places])
    assert 0 < harmless < len(places), "some bytes of a file mean nothing, and some do"


if LONG:
    test_a_flipped_bit_anywhere_is_an_error_or_nothing = pytest.mark.timeout(7200)(
        test_a_flipped_bit_anywhere_is_an_error_or_nothing
    )

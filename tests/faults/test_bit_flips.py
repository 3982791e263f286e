"""No damaged byte makes a wrong answer: it is an error of ours, or every answer is what it was."""

import contextlib
import random
from collections import Counter

import apsw
import pytest

from holdfast.errors import Corrupt
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit
from tests.faults.outcomes import Outcomes
from tests.faults.report import LONG, tell
from tests.faults.stores import HARMLESS, REFUSED, answers, copied, outcome, refused, small_store

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.slow]

SAMPLE = 100


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
    """Flips one bit after the other in a copy, and counts what became of each."""
    path, right = original
    damaged = copied(path, folder)
    data = bytearray(path.read_bytes())
    outcomes = Outcomes()
    for place, bit in places:
        data[place] ^= 1 << bit
        damaged.write_bytes(data)
        data[place] ^= 1 << bit
        await outcomes.add(damaged, right, (place, bit))
    return outcomes


def parts_of(path, folder):
    """What each page of the file is for, and the first byte of each page."""
    db = apsw.Connection(str(copied(path, folder)))
    pages = dict(db.execute("SELECT pageno, name FROM dbstat"))
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    [(size,)] = db.execute("PRAGMA page_size").fetchall()
    [(count,)] = db.execute("PRAGMA page_count").fetchall()
    db.close()

    def part(number):
        name = pages.get(number, "bookkeeping")
        return name if name in tables or name in ("sqlite_schema", "bookkeeping") else "indexes"

    return {(number - 1) * size: part(number) for number in range(1, count + 1)}, size


async def test_a_flipped_bit_in_the_header_is_an_error_or_nothing(original, tmp_path):
    chance = random.Random(2)
    outcomes = await try_flips(original, tmp_path, [(place, chance.randrange(8)) for place in range(100)])
    assert outcomes.wrong == []


async def test_a_flipped_bit_in_the_list_of_runs_is_an_error_or_nothing(original, tmp_path):
    """A run that is not found would be executed again, so every byte there is tried."""
    parts, size = parts_of(original[0], tmp_path / "looked at")
    [begin] = [begin for begin, part in parts.items() if part == "runs"]
    used = [begin + at for at, byte in enumerate(original[0].read_bytes()[begin : begin + size]) if byte]
    assert 50 < len(used) < 200
    chance = random.Random(3)
    outcomes = await try_flips(original, tmp_path / "flipped", [(place, chance.randrange(8)) for place in used])
    assert outcomes.wrong == []
    assert outcomes.count[HARMLESS] < len(used) / 4


async def test_an_index_that_leads_to_another_agent_is_an_error(original, tmp_path):
    """One bit does it: SQLite believes its index and reads the row that it leads to."""
    path, right = original
    damaged = copied(path, tmp_path)
    data = path.read_bytes()
    assert data.count(b"\x13\x01dee\x06") == 1
    damaged.write_bytes(data.replace(b"\x13\x01dee\x06", b"\x12\x01dee\x06"))
    assert await outcome(damaged, right, "the index of agents") == REFUSED
    store = SQLiteCheckpointStorage(damaged)
    for ask in (lambda: store.read("ghost"), lambda: commit(store, "ghost", user_id="second", hold=True)):
        with pytest.raises(Corrupt, match="ghost"):
            await ask()
    await store.close()


@pytest.mark.parametrize("half", range(2))  # so that none of them takes too long
async def test_a_flipped_bit_anywhere_is_an_error_or_nothing(original, tmp_path, half):
    chance = random.Random(half)
    places = chance.sample(range(len(original[0].read_bytes())), SAMPLE)
    outcomes = await try_flips(original, tmp_path, [(place, chance.randrange(8)) for place in places])
    assert outcomes.wrong == []
    assert outcomes.count[HARMLESS], "some bytes of a file mean nothing"
    assert outcomes.count[REFUSED], "and some do"


@pytest.mark.skipif(not LONG, reason="takes half an hour: HOLDFAST_FAULTS=long")
@pytest.mark.timeout(7200)
async def test_a_flipped_bit_in_every_byte_is_an_error_or_nothing(original, tmp_path):
    parts, size = parts_of(original[0], tmp_path / "looked at")
    chance, data = random.Random(1), original[0].read_bytes()
    total, by_part = Outcomes(), {}
    for begin, part in parts.items():
        places = [(place, chance.randrange(8)) for place in range(begin, begin + size)]
        used = [place for place in range(begin, begin + size) if data[place]]
        if len(used) < 300:  # a small table: each bit leads somewhere else
            places += [(place, bit) for place in used for bit in range(8)]
        outcomes = await try_flips(original, tmp_path / "flipped", places)
        by_part.setdefault(part, Counter()).update(outcomes.count)
        total.add_all(outcomes)
    told = {f"{part}: {what}": n for part, outcomes in sorted(by_part.items()) for what, n in outcomes.items()}
    tell(
        "Bit rot, every byte",
        "A bit flipped in each byte of a small store, and every bit of its small tables.",
        **total.figures(), **told,
    )  # fmt: skip
    assert total.wrong == []
    assert total.total > len(data)


async def test_a_file_whose_tail_is_cut_off_is_an_error_or_whole(original, tmp_path):
    path, right = original
    damaged = copied(path, tmp_path)
    data = path.read_bytes()
    lengths = range(0, len(data), 2048 if not LONG else 64)
    outcomes = Outcomes()
    for length in [*lengths, 1, 99, 100, len(data) - 1]:
        damaged.write_bytes(data[:length])
        await outcomes.add(damaged, right, length)
    tell("Tails cut off", "A small store cut off at many lengths.", **outcomes.figures())
    assert outcomes.wrong == []
    assert not outcomes.count[HARMLESS]


async def test_zeros_where_a_page_was_are_an_error_or_nothing(original, tmp_path):
    """A page that a disk lost, and one that it wrote elsewhere."""
    path, right = original
    damaged = copied(path, tmp_path)
    data = path.read_bytes()
    parts, size = parts_of(path, tmp_path / "looked at")
    chance = random.Random(4)
    outcomes = Outcomes()
    for begin, part in parts.items():
        other = chance.choice([place for place in parts if place != begin])
        for page in (bytes(size), data[other : other + size]):
            damaged.write_bytes(data[:begin] + page + data[begin + size :])
            await outcomes.add(damaged, right, (part, begin, other))
    tell("Pages lost and misplaced", "Each page zeroed, and each replaced by another.", **outcomes.figures())
    assert outcomes.wrong == []
    assert outcomes.count[REFUSED] > len(parts)


async def test_without_its_authentication_damage_would_be_believed(original, tmp_path, monkeypatch):
    """The control: the same flips, in a store that takes every MAC and hash for right, give wrong answers."""
    path, right = original
    parts, size = parts_of(path, tmp_path / "looked at")
    pages = [begin for begin, part in parts.items() if part in ("checkpoints", "records", "inbox")]
    chance = random.Random(5)
    damaged = copied(path, tmp_path)
    data = bytearray(path.read_bytes())
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: True)
    outcomes = Outcomes()
    for _ in range(30):
        place, bit = chance.choice(pages) + chance.randrange(size), chance.randrange(8)
        data[place] ^= 1 << bit
        damaged.write_bytes(data)
        data[place] ^= 1 << bit
        with contextlib.suppress(Exception):  # what is not authentic may end in anything
            await outcomes.add(damaged, right, (place, bit))
    assert outcomes.wrong

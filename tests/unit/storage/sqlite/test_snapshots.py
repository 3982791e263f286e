"""Snapshots are kept as what they add to earlier ones of their run or session."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import Corrupt
from holdfast.history.records import snapshot_of
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.snapshots import Snapshots
from holdfast.testing.runs import begun, called, ended
from holdfast.testing.samples import commit

HEAP = random.Random(1).randbytes(20_000)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointStorage]:
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    yield store
    await store.close()


async def sizes(store) -> list[int]:
    return await store.read_side.read(
        lambda reader: [size for (size,) in reader.db.execute("SELECT length(body) FROM snapshots ORDER BY key")]
    )


async def tampered(store, statement):
    await store.write_side.alone(lambda session: session.db.execute(statement))


async def test_the_runs_of_a_session_share_what_they_have_in_common(store):
    for turn in range(4):
        name, heap = f"run-{turn}", HEAP[:-turn] + bytes(turn) if turn else HEAP
        await commit(store, records=(begun(name, "s"), called(name, heap, "s"), ended(name, heap + b"!", "s")))
    whole, *rest = await sizes(store)
    assert whole > 19_000
    assert max(rest) < 300


async def test_runs_without_a_session_are_kept_apart(store):
    for name in ("one", "two"):
        await commit(store, records=(begun(name), called(name, HEAP), ended(name, HEAP)))
    large, small, other, last = await sizes(store)
    assert min(large, other) > 19_000
    assert max(small, last) < 300


async def test_one_that_is_too_large_to_be_read_again_is_not_kept_and_stops_nobody(store, monkeypatch):
    monkeypatch.setattr("holdfast.history.patch.MAX_BYTES", len(HEAP))
    await commit(store, records=(begun("a", "s"), called("a", HEAP, "s"), called("a", HEAP + b"2", "s")))
    assert len(await sizes(store)) == 1
    assert await store.snapshot("agent", 2) == HEAP
    assert await store.snapshot("agent", 3) is None


async def test_a_damaged_snapshot_is_corrupt_alone_and_with_those_built_on_it(store):
    await commit(
        store, records=(begun("a", "s"), called("a", HEAP, "s"), called("a", HEAP + b"2", "s"), called("b", HEAP))
    )
    await tampered(store, "UPDATE snapshots SET body = zeroblob(200) WHERE key & 4294967295 = 2")
    for seq in (2, 3):
        with pytest.raises(Corrupt):
            await store.snapshot("agent", seq)
    assert await store.snapshot("agent", 4) == HEAP
    assert len(await store.read("agent", snapshots=False)) == 4
    with pytest.raises(Corrupt):
        await store.read("agent")


async def test_snapshots_put_in_each_others_place_are_corrupt(store):
    await commit(store, records=(begun("a"), called("a", HEAP), begun("b"), called("b", b"other")))
    await tampered(store, "UPDATE snapshots SET key = key + 1000 WHERE key & 4294967295 = 2")
    await tampered(store, "UPDATE snapshots SET key = key - 2 WHERE key & 4294967295 = 4")
    with pytest.raises(Corrupt):
        await store.snapshot("agent", 2)


async def test_one_that_is_not_kept_any_more_is_none_and_not_marked(store):
    await commit(store, records=(begun(), called(snapshot=HEAP), ended(snapshot=b"end")))
    await tampered(store, "DELETE FROM snapshots WHERE key & 4294967295 = 3")
    assert await store.snapshot("agent", 3) is None
    assert [snapshot_of(one) for one in await store.read("agent", snapshots=False)] == [None, b"", None]
    assert [snapshot_of(one) for one in await store.read("agent")] == [None, HEAP, None]


async def test_the_snapshot_of_a_damaged_record_is_refused(store):
    await commit(store, records=(begun(), called(snapshot=HEAP)))
    await tampered(
        store, "UPDATE records SET body = CAST(substr(body, 1, 60) || 'x' AS BLOB) WHERE key & 4294967295 = 2"
    )
    with pytest.raises(Corrupt):
        await store.snapshot("agent", 2)


async def test_reading_without_snapshots_loads_none(store, monkeypatch):
    await commit(store, records=(begun(), called(snapshot=HEAP), ended(snapshot=HEAP)))
    loaded = []
    original = Snapshots.load
    monkeypatch.setattr(Snapshots, "load", lambda self, key: loaded.append(key) or original(self, key))
    await store.read("agent", snapshots=False)
    assert loaded == []
    await store.snapshot("agent", 2)
    assert len(loaded) == 1

"""A disk that fails, or is full: the store says so, loses nothing acknowledged, and goes on when it can."""

import apsw
import pytest

from holdfast.errors import DiskFull, HoldfastError, Poisoned
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued, save
from tests.faults.vfs import FaultyVFS

pytestmark = [pytest.mark.faults, pytest.mark.anyio]


async def work(store, acknowledged):
    """Some of everything that writes; returns after the first failure."""
    for n in range(3):
        acknowledged.append((await continued(store, state={"n": n, "log": ["x" * 500] * n}, id=f"chk-{n}")).id)
    await store.send("agent", "user", "hello", sender="me")
    await commit(store, delete=("chk-0",))
    acknowledged.remove("chk-0")
    acknowledged.append((await save(store, "other", id="chk-other")).id)


async def test_an_io_error_anywhere_poisons_the_store_and_loses_nothing_acknowledged(tmp_path):
    vfs = FaultyVFS()
    failures = 0
    for n in range(1, 200):
        path = tmp_path / f"{n}.db"
        store = SQLiteCheckpointStorage(path, vfs=vfs.name)
        await continued(store, id="chk-first")
        acknowledged: list[str] = ["chk-first"]
        vfs.break_after(n)
        before = vfs.failed
        failed = None
        try:
            await work(store, acknowledged)
        except HoldfastError as error:
            failed = error
        if failed is not None:
            assert isinstance(failed, Poisoned), failed
            failures += 1
            for again in (continued(store), commit(store, delete=("chk-first",))):
                with pytest.raises(Poisoned):
                    await again
        vfs.mend()
        await store.reopen()
        ids = {checkpoint.id for checkpoint in await store.list(Query(limit=None))}
        assert ids >= set(acknowledged) - {"chk-0"}, n
        report = await store.verify()
        assert report.ok, (n, report.damaged)
        assert set(report.whole) == ids
        assert (await continued(store)).agent_id == "agent"
        await store.close()
        if vfs.failed == before:
            break
    assert failures > 20
    assert vfs.failed >= failures, "the last round must be one without a fault"


async def test_a_commit_that_failed_is_there_entirely_or_not_at_all(tmp_path):
    vfs = FaultyVFS()
    seen = set()
    for n in range(1, 30):
        store = SQLiteCheckpointStorage(tmp_path / f"{n}.db", vfs=vfs.name)
        await continued(store)
        vfs.break_after(n)
        failed = False
        try:
            await save(store, "new", id="chk-new", group_id="grp-new", kind="pre_operation")
        except Poisoned:
            failed = True
        vfs.mend()
        await store.reopen()
        there = [
            await store.agent("new") is not None,
            await store.fetch("chk-new") is not None,
            await store.group("grp-new") == ["chk-new"],
            len(await store.pending("operation")) == 1,
            len(await store.read("new")) == 1,
        ]
        assert len(set(there)) == 1, (n, there)
        assert failed or there[0]
        seen.add((failed, there[0]))
        await store.close()
    assert (True, False) in seen
    assert (False, True) in seen


@pytest.fixture
def full_disk():
    vfs = FaultyVFS(lambda: apsw.FullError("database or disk is full"))
    vfs.ask_before = vfs.ask
    # Only what makes a file grow fails on a full disk.
    vfs.ask = lambda what: vfs.ask_before(what) if what == "write" else None
    return vfs


async def test_on_a_full_disk_what_was_acknowledged_stays_and_the_store_goes_on_when_there_is_room(tmp_path, full_disk):
    store = SQLiteCheckpointStorage(tmp_path / "store.db", vfs=full_disk.name)
    acknowledged = [(await continued(store, state={"n": n})).id for n in range(5)]
    full_disk.break_after(1, stays=True)
    for _ in range(3):
        with pytest.raises(DiskFull) as full:
            await continued(store, state={"n": "x" * 10_000})
        assert "gc" in full.value.hint
    assert {checkpoint.id for checkpoint in await store.list(Query())} == set(acknowledged)
    full_disk.mend()
    acknowledged.append((await continued(store, state={"n": "y"})).id)
    assert {checkpoint.id for checkpoint in await store.list(Query())} == set(acknowledged)
    assert (await store.verify()).ok
    await store.close()


async def test_garbage_collection_works_on_a_full_disk_in_the_room_of_the_ballast(tmp_path, full_disk):
    path = tmp_path / "store.db"
    ballast = tmp_path / "store.db.ballast"
    store = SQLiteCheckpointStorage(path, vfs=full_disk.name)
    ids = [(await continued(store, state={"n": n, "bulk": str(n) * 3000})).id for n in range(40)]
    await commit(store, delete=tuple(ids[1:30]))
    assert ballast.stat().st_size > 0
    asked = full_disk.ask_before

    def ask(what):
        if what == "write" and ballast.exists():  # full, but for what the ballast takes up
            full_disk.failed += 1
            raise apsw.FullError("database or disk is full")
        asked(what)

    full_disk.ask = ask
    with pytest.raises(DiskFull):
        await continued(store, state={"n": "z" * 10_000})
    assert full_disk.failed
    done = await store.collect_garbage()
    assert done["agents"] == 1
    assert done["bytes"] > 0
    full_disk.ask = asked
    assert {checkpoint.id for checkpoint in await store.list(Query())} == {ids[0], *ids[30:]}
    report = await store.verify()
    assert report.ok, report.damaged
    await store.close()

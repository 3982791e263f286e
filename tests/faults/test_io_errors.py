"""A disk that fails: the store says so, loses nothing acknowledged, and goes on when it can, power cut or not."""

import random
import shutil
from itertools import count

import apsw
import pytest

from holdfast.errors import DiskFull, HoldfastError, Poisoned, Unopenable
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.locks import Presence
from holdfast.testing.samples import commit, continued, save
from tests.faults.cuts import Findings, examined
from tests.faults.disk import recorded
from tests.faults.programs import PAYS, Effects
from tests.faults.report import LONG, tell
from tests.faults.vfs import FaultyVFS

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(3600 if LONG else 60)]

KINDS = ("write", "sync", "truncate", "read")
IMAGES = 40 if LONG else 3  # of power cuts after each fault


async def work(store, told):
    """Some of everything that writes. Raises the first failure."""
    for n in range(4):
        state = {"step": n, "log": [str(n) * 500] * n}
        told("saved", (await continued(store, state=state, id=f"chk-{n}")).id, n)
    told("mailed", "agent", await store.send("agent", "user", "hello", sender="me"), "hello")
    told("deleting", "chk-0")
    await commit(store, delete=("chk-0",))
    told("deleted", "chk-0")
    await store.collect_garbage()
    told("saved", (await save(store, "other", id="chk-other", state={"step": 9})).id, 9)


async def after_a_fault(folder, monkeypatch, kind, n):
    """Lets the n-th operation of this kind fail, goes on, opens anew, cuts the power: what was found.

    None if there were fewer operations.
    """
    async with recorded(folder / "live", monkeypatch, kinds=(kind,)) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
        vfs.break_after(n)
        failure = None
        try:
            await work(store, disk.tell)
        except HoldfastError as error:
            failure = error
        assert failure is None or isinstance(failure, Poisoned | Unopenable), failure
        if vfs.failed and failure is not None:
            await _goes_on(store, disk)
        vfs.mend()
        await store.reopen()
        first = len(disk.events)
        for listed in await store.list(Query(limit=None)):
            found = await store.fetch(listed.id)
            assert found is not None
            disk.tell("saved", listed.id, found[1].decode()["step"])  # whoever has seen it relies on it
        disk.tell("saved", (await continued(store, state={"step": 77})).id, 77)
        report = await store.verify()
        assert report.ok, (kind, n, report.damaged)
        await store.close()
    findings = await examined(disk, folder, random.Random(n), images=IMAGES, first=first)
    shutil.rmtree(folder / "live")
    return findings if vfs.failed else None


async def _goes_on(store, disk):
    """After the failure: a poisoned store refuses everything, and one that only did not open can be opened."""
    poisoned = store.write_side._poison is not None
    for step in (50, 51):
        try:
            disk.tell("saved", (await continued(store, state={"step": step})).id, step)
        except Poisoned:
            assert poisoned
        else:
            assert not poisoned


async def every(folder, monkeypatch, kind, stride):
    """What was found after a fault at the first operation of this kind, the next, and so on to the last."""
    return await all_of(lambda n: after_a_fault(folder, monkeypatch, kind, n), kind, count(1, stride))


async def all_of(try_one, kind, numbers):
    """Everything that was found until there was no such operation any more, and how many faults that were."""
    together, faults = Findings(), 0
    for n in numbers:
        found = await try_one(n)
        if found is None:
            break
        faults += 1
        together.count += found.count
        together.recovered += found.recovered
        together.broken += [f"{kind} {n} failed, then {one}" for one in found.broken]
    return together, faults


@pytest.mark.parametrize("kind", KINDS)
async def test_an_io_error_anywhere_loses_nothing_acknowledged_even_if_the_power_goes_next(folder, monkeypatch, kind):
    stride = 1 if LONG or kind == "truncate" else 5 if kind == "sync" else 13
    found, faults = await every(folder, monkeypatch, kind, stride)
    tell(
        f"I/O errors, {kind}",
        f"Every {kind} of some work fails once; the store is opened anew, is gone on with, and then the power is cut.",
        faults=faults, images=found.count.total(), lost=found.count["lost"], corrupt=found.count["corrupt"],
    )  # fmt: skip
    assert found.broken == [], found.broken[:5]
    assert faults >= 2


async def test_the_harness_sees_what_a_failed_sync_loses_without_the_first_writers_precautions(folder, monkeypatch):
    """The control: a store that trusts what it finds after a failed sync loses it when the power goes."""
    with monkeypatch.context() as careless:
        careless.setattr(Presence, "others_alive", lambda _: True)
        found, faults = await every(folder, monkeypatch, "sync", 1 if LONG else 3)
    tell(
        "I/O errors, without precautions",
        "A control: after a failed sync the log is trusted as it is, which Holdfast never does.",
        faults=faults, images=found.count.total(), lost=found.count["lost"], corrupt=found.count["corrupt"],
    )  # fmt: skip
    assert found.count["lost"] > 0


@pytest.mark.parametrize("kind", KINDS)
async def test_programs_survive_an_io_error_and_a_power_cut_after_their_recovery(folder, monkeypatch, kind):
    first, stride = (1, 1) if LONG else {"write": (9, 80), "sync": (9, 15), "truncate": (2, 2), "read": (20, 15)}[kind]
    all_found, faults = await all_of(
        lambda n: _program_after_a_fault(folder, monkeypatch, kind, n), kind, count(first, stride)
    )
    tell(
        f"I/O errors in programs, {kind}",
        f"Every {kind} of a program fails once; it is recovered from the store opened anew, and then the power is cut.",
        faults=faults, images=all_found.count.total(), recovered=all_found.recovered, lost=all_found.count["lost"],
        corrupt=all_found.count["corrupt"],
    )  # fmt: skip
    assert all_found.broken == [], all_found.broken[:5]
    assert faults


async def _program_after_a_fault(folder, monkeypatch, kind, n):
    async with recorded(folder / "live", monkeypatch, kinds=(kind,)) as (disk, vfs):
        world = Effects(disk.tell)
        path, code = folder / "live" / "store.db", PAYS.format(orders=3, bulk=2000)
        vfs.break_after(n)
        async with world.runner(SQLiteCheckpointStorage(path, vfs=vfs.name)) as runner:
            try:
                disk.tell("ended", "ada", "call_1", (await runner.run("ada", code, "call_1")).output)
            except (Poisoned, Unopenable):
                assert vfs.failed
        vfs.mend()
        first, after = len(disk.events), Effects(disk.tell)
        after.made = world.made
        async with after.runner(SQLiteCheckpointStorage(path, vfs=vfs.name)) as runner:
            for result in await runner.recover():
                assert result.status == "complete", result
                if not result.is_error:
                    disk.tell("ended", "ada", "call_1", result.output)
        assert world.twice == after.twice == []
    findings = await examined(disk, folder, random.Random(n), images=IMAGES, first=first)
    shutil.rmtree(folder / "live")
    return findings if vfs.failed else None


async def test_a_commit_that_failed_is_there_entirely_or_not_at_all(folder):
    vfs = FaultyVFS()
    seen = set()
    for n in range(1, 30):
        store = SQLiteCheckpointStorage(folder / f"{n}.db", vfs=vfs.name)
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
    assert (True, True) in seen, "one that raised may have landed: whoever looks again sees it"


async def test_a_store_never_goes_on_without_its_log(folder):
    """SQLite only says so in passing, whether the file system can't or the disk failed while it was switched on."""
    store = SQLiteCheckpointStorage(folder / "store.db", vfs="unix-none")  # it has no memory to share
    with pytest.raises(Unopenable, match="write-ahead log"):
        await save(store)
    await store.close()


@pytest.fixture
def full_disk():
    vfs = FaultyVFS(lambda: apsw.FullError("database or disk is full"))
    vfs.ask_before = vfs.ask
    # Only what makes a file grow fails on a full disk.
    vfs.ask = lambda what: vfs.ask_before(what) if what == "write" else None
    return vfs


async def test_on_a_full_disk_what_was_acknowledged_stays_and_the_store_goes_on_when_there_is_room(folder, full_disk):
    store = SQLiteCheckpointStorage(folder / "store.db", vfs=full_disk.name)
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


async def test_garbage_collection_works_on_a_full_disk_in_the_room_of_the_ballast(folder, full_disk):
    path = folder / "store.db"
    ballast = folder / "store.db.ballast"
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


async def test_a_gc_that_finds_no_room_does_not_end_an_operation(folder, full_disk):
    store = SQLiteCheckpointStorage(folder / "store.db", vfs=full_disk.name)
    first = await continued(store, hold=True)
    epoch = (await commit(store, hold=True)).epoch
    await commit(store, delete=(first.id,))
    full_disk.break_after(1, stays=True)
    with pytest.raises(DiskFull):
        await store.collect_garbage()
    full_disk.mend()
    await commit(store, epoch=epoch)  # gives back one of the two
    assert (await store.agent("agent")).owner is not None
    await store.close()

"""The power is cut after every operation of a disk: what was acknowledged is there, authentic, and goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from holdfast.history.records import UserMessage
from holdfast.storage.protocol import Change, Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage, lastcommit, opening
from holdfast.testing.samples import commit, continued, save, saving
from tests.faults.cuts import examined, opened
from tests.faults.disk import Disk, Named, Wrote, recorded
from tests.faults.programs import PAYS, Effects
from tests.faults.promises import Promises
from tests.faults.remains import Remains
from tests.faults.report import LONG, tell

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(3600 if LONG else 60)]

Work = Callable[[SQLiteCheckpointStorage, Disk], Awaitable[None]]
IMAGES_SHORT = 60  # of each kind of work


# --- work


async def saves(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """An agent that saves, hears and is written to."""
    for step in range(26):
        records = (UserMessage(content=f"message {step}"),) if step % 3 == 0 else ()
        done = await continued(store, state={"step": step, "log": [f"line {n}" for n in range(step)]}, records=records)
        disk.tell("saved", done.id, step)
        if records:
            disk.tell("said", "agent", f"message {step}")
        if step % 5 == 0:
            content = {"step": step}
            disk.tell("mailed", "agent", await store.send("agent", "user", content, sender="me"), content)


async def several(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """Agents that save at once, through two connections, and in groups."""
    other = SQLiteCheckpointStorage(store.path, vfs=store.settings.vfs)

    async def agent(name: str, through: SQLiteCheckpointStorage) -> None:
        for step in range(9):
            done = await continued(through, name, state={"step": step, "bulk": name * 100 * step})
            disk.tell("saved", done.id, step)

    await asyncio.gather(*(agent(f"agent-{n}", other if n % 2 else store) for n in range(5)))
    for step in range(3):
        group = grouped(step, disk)
        for done in await store.commit(*group):
            assert done.checkpoint is not None
            disk.tell("saved", done.checkpoint.id, step)
    await other.close()


def grouped(step: int, disk: Disk) -> list[Change]:
    """A group of three agents, of whose members either all will be there or none."""
    ids = [f"chk-{step}-{n}" for n in range(3)]
    disk.tell("grouping", f"grp_{step}", *ids)
    return [
        saving(
            f"one-{n}", id=id_, continue_newest=True, group_id=f"grp_{step}", group_place=(n, 3), state={"step": step}
        )
        for n, id_ in enumerate(ids)
    ]


async def programs(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """Programs whose calls have effects."""
    world = Effects(disk.tell)
    async with world.runner(store) as runner:
        for agent, bulk in (("ada", 10), ("bob", 3000)):
            result = await runner.run(agent, PAYS.format(orders=5, bulk=bulk), "call_1")
            assert not result.is_error, result
            disk.tell("ended", agent, "call_1", result.output)


async def deletions(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """Checkpoints, forks and whole agents that go."""
    for turn in range(3):
        ids = []
        for step in range(8):
            done = await continued(store, f"agent-{turn}", state={"step": step, "log": ["x" * 300] * step})
            disk.tell("saved", done.id, step)
            ids.append(done.id)
        fork = await save(store, f"fork-{turn}", fork_of=ids[4], parent=ids[4], state={"step": 40})
        disk.tell("saved", fork.id, 40)
        disk.tell("deleting", *ids[1:6])
        await commit(store, f"agent-{turn}", delete=tuple(ids[1:6]))
        disk.tell("deleted", *ids[1:6])
        disk.tell("erasing", f"agent-{turn}", ids[0], *ids[6:])
        await commit(store, f"agent-{turn}", erase=True)
        disk.tell("erased", f"agent-{turn}", ids[0], *ids[6:])


async def garbage(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """Garbage that is collected while an agent goes on."""
    ids: list[str] = []
    for turn in range(3):
        for step in range(turn * 10, turn * 10 + 10):
            done = await continued(store, state={"step": step, "bulk": str(step) * 900})
            disk.tell("saved", done.id, step)
            ids.append(done.id)
        going, ids = ids[:-3], ids[-3:]
        disk.tell("deleting", *going)
        await commit(store, delete=tuple(going))
        disk.tell("deleted", *going)
        await store.collect_garbage()


async def rotations(store: SQLiteCheckpointStorage, disk: Disk) -> None:
    """Keys that are added between saves, by a process that opens the store anew in between."""
    for turn in range(4):
        for step in range(turn * 4, turn * 4 + 4):
            done = await continued(store, state={"step": step})
            disk.tell("saved", done.id, step)
        disk.tell("rotated", await store.rotate_key())
        if turn % 2:
            await store.reopen()


WORK: dict[str, Work] = {
    work.__name__: work for work in (saves, several, programs, deletions, garbage, rotations)
}  # fmt: skip


# --- claims


@pytest.mark.parametrize("name", WORK)
async def test_nothing_acknowledged_is_lost_when_the_power_is_cut(folder, monkeypatch, name):
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", max_checkpoints_per_user=None, vfs=vfs.name)
        await WORK[name](store, disk)
        await store.close()
    findings = await examined(disk, folder, random.Random(name), images=None if LONG else IMAGES_SHORT)
    tell(
        f"power loss, {name}",
        f"{WORK[name].__doc__} The power is cut after every operation; each image is opened and checked.",
        operations=len(disk.events), images=findings.count.total(), **_recovered(findings), lost=findings.count["lost"],
        corrupt=findings.count["corrupt"],
    )  # fmt: skip
    assert findings.broken == [], findings.broken[:5]
    assert findings.count["whole"] > (500 if LONG else 20)


def _recovered(findings):
    """Only where there is something to recover: what is not there at all is no figure."""
    return {"recovered": findings.recovered} if findings.recovered else {}


async def test_a_store_whose_first_page_was_torn_is_begun_again(folder, monkeypatch):
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
        await store.list(Query())
        await store.close()
    remains, database = Remains(), disk.events[0]
    assert database == Named("store.db", 1)
    for event in disk.events:
        remains.follow(event)
        if isinstance(event, Wrote) and event.inode == 1:
            break
    image = remains.most()
    image["store.db"] = bytes(512) + image["store.db"][512:]
    assert "store.db-journal" in image
    assert await opened(image, folder / "image", Promises(), goes_on=True, recovers=True) == ("whole", [])


async def test_a_large_log_that_a_crash_left_is_written_anew_and_read(folder, monkeypatch):
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
        done = await save(store, state={"step": 1, "bulk": random.Random(1).randbytes(3 << 20)})
        remains, promises = Remains(), Promises()
        for event in disk.events:
            remains.follow(event)
        await store.close()
    image = remains.most()
    assert len(image["store.db-wal"]) > 3 << 20
    promises.add(("saved", done.id, 1))
    assert await opened(image, folder / "image", promises, goes_on=True, recovers=True) == ("whole", [])


async def test_the_harness_sees_a_part_of_a_group(folder, monkeypatch):
    """A control: members that are committed one after the other are there without the others after a cut."""
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
        for change in grouped(1, disk):
            await store.commit(change)
        await store.close()
    findings = await examined(disk, folder, random.Random(1), images=IMAGES_SHORT)
    assert any("of the group grp_1 there is" in one for one in findings.broken), findings.broken


@pytest.mark.parametrize("mode", ["NORMAL", "OFF"])
async def test_the_harness_sees_what_weaker_syncs_lose(folder, monkeypatch, mode):
    """The control: where SQLite is told to sync less, the same cuts must find losses, else they prove nothing."""

    def connect(path, *, vfs):
        db = connect_writer(path, vfs=vfs)
        db.execute(f"PRAGMA synchronous={mode}")
        return db

    connect_writer = opening.connect_writer
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        with monkeypatch.context() as weaker:
            weaker.setattr(opening, "connect_writer", connect)
            store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
            await saves(store, disk)
            await store.close()
    monkeypatch.setattr(lastcommit, "read", lambda _: None)  # which would turn losses into refusals
    findings = await examined(disk, folder, random.Random(mode), images=None if LONG else IMAGES_SHORT)
    tell(
        f"power loss, synchronous={mode}",
        "A control: the same cuts where SQLite is told to sync less, which Holdfast never does.",
        operations=len(disk.events), images=findings.count.total(), lost=findings.count["lost"],
        corrupt=findings.count["corrupt"],
    )  # fmt: skip
    assert findings.count["lost"] > 0
    if mode == "OFF":
        assert findings.count["corrupt"] > 0

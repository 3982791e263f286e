"""The files beside the database fail: keys, locks, anchors and notes. It is an error of ours, and nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections import Counter
from itertools import count

import pytest

from holdfast.errors import DiskFull, HoldfastError, ReadOnly, StorageFailed
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.backup import restore_backup
from holdfast.storage.sqlite.locks import Presence
from holdfast.storage.sqlite.rekey import reset
from holdfast.testing.samples import commit, continued
from tests.faults.disk import failing
from tests.faults.report import LONG, tell

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(600 if LONG else 60)]


class World:
    """A store with an anchor, what was acknowledged of it, and what its users were told of failures."""

    def __init__(self, folder) -> None:
        self.path, self.anchor = folder / "store.db", folder / "anchor"
        self.saved: set[str] = set()
        self.told: Counter[str] = Counter()
        self.keys = 1
        self.storage = self.opened()

    def opened(self):
        return SQLiteCheckpointStorage(self.path, anchor=self.anchor, max_checkpoints_per_user=None)

    async def tried(self, step, action) -> bool:
        try:
            await action()
        except HoldfastError as error:
            self.told[f"{step}: {type(error).__name__}" if error.hint else "without a hint"] += 1
            return False
        return True

    async def save(self) -> None:
        self.saved.add((await continued(self.storage)).id)

    async def rotate(self) -> None:
        self.keys = await self.storage.rotate_key()

    async def room(self) -> None:
        await commit(self.storage, "other", room_bytes=1 << 20)
        await commit(self.storage, "other", room_bytes=-(1 << 20))

    async def work(self) -> None:
        """Everything that touches a file beside the database; a storage that failed is opened anew."""
        for step in ("save", "rotate", "room", "save", "close", "save", "rotate", "reopen", "save", "close"):
            if step in ("close", "reopen"):
                await self.tried(step, getattr(self.storage, step))
                self.storage = self.opened()
            elif not await self.tried(step, getattr(self, step)):
                await self.tried("close", self.storage.close)
                self.storage = self.opened()

    async def lost(self) -> int:
        """With a disk that works again, on which it goes on: how many of the acknowledged checkpoints are gone."""
        await self.save()
        report = await self.storage.verify()
        assert report.ok, report.damaged
        lost = self.saved - ({*report.whole} & {found.id for found in await self.storage.list(Query(limit=None))})
        assert self.storage.write_side.session.cells.ring.current >= self.keys
        await self.storage.close()
        return len(lost)


async def tried(folder, monkeypatch, number, fail_at):
    """What users were told when this operation failed, which one it was, and what was lost. None: there were fewer."""
    (folder / "here").mkdir()
    world = World(folder / "here")
    with failing(monkeypatch) as system:
        system.number, system.fail_at = number, fail_at
        await world.work()
        await world.storage.close()
    world.storage = world.opened()
    lost = await world.lost()
    shutil.rmtree(folder / "here")
    return (world.told, system.failed[0], lost) if system.failed else None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES], ids=["EIO", "ENOSPC", "EACCES"])
async def test_an_error_of_the_system_anywhere_is_ours_and_loses_nothing(folder, monkeypatch, number):
    told: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    lost = 0
    for fail_at in count(1, 1 if LONG else 3 if number == errno.EIO else 11):
        found = await tried(folder, monkeypatch, number, fail_at)
        if found is None:
            break
        told += found[0]
        failed[found[1]] += 1
        lost += found[2]
    tell(
        f"Errors of the system, {errno.errorcode[number]}",
        "Each operation on keys, locks, anchors, notes and room fails once; the store is gone on with.",
        faults=failed.total(), told=told.total(), lost=lost,
    )  # fmt: skip
    assert not lost
    assert len(failed) > 3, "operations of several kinds"
    assert told
    assert "without a hint" not in told


async def test_a_key_that_can_t_be_added_says_which_file_failed(folder, monkeypatch):
    store = SQLiteCheckpointStorage(folder / "store.db")
    await continued(store)
    with failing(monkeypatch) as system:
        for number, expected in ((errno.EIO, StorageFailed), (errno.EROFS, ReadOnly), (errno.ENOSPC, DiskFull)):
            system.number, system.fail_at = number, system.asked + 2  # the turn's lock, then the new file
            with pytest.raises(expected) as failed:
                await store.rotate_key()
            assert failed.value.path == f"{store.path}.key"
            assert failed.value.hint
            await continued(store)
    assert await store.rotate_key() == 2
    await store.close()


@pytest.mark.parametrize("operation", ["flock", "unlink", "rmdir"])
async def test_a_store_that_can_t_be_closed_in_order_is_left_as_after_a_crash(folder, monkeypatch, operation):
    store = SQLiteCheckpointStorage(folder / "store.db")
    saved = await continued(store)
    with failing(monkeypatch) as system:
        system.always = operation
        await store.close()
    assert system.failed
    others = Presence(folder / "store.db.writers")
    assert not await asyncio.to_thread(others.others_alive), "whoever is gone must not look alive"
    store = SQLiteCheckpointStorage(folder / "store.db")
    await continued(store)
    assert saved.id in (await store.verify()).whole
    await store.close()


@pytest.mark.parametrize("what", ["reset", "restore"])
async def test_a_key_reset_or_a_backup_put_back_that_fails_leaves_a_whole_store(folder, monkeypatch, what):
    path, backup = folder / "store.db", folder / "backup.db"
    store = SQLiteCheckpointStorage(path)
    ids = {(await continued(store)).id}
    await store.backup(backup)
    await store.close()

    def act():
        if what == "reset":
            return reset(SQLiteCheckpointStorage(path).settings)
        return restore_backup(backup, path, overwrite=True)

    failures = 0
    for fail_at in count(1):
        with failing(monkeypatch) as system:
            system.fail_at = fail_at
            try:
                await asyncio.to_thread(act)
            except HoldfastError as error:
                failures += bool(error.hint)
        store = SQLiteCheckpointStorage(path)
        report = await store.verify()
        assert report.ok, (fail_at, system.failed, report.damaged)
        assert ids <= {*report.whole}
        await store.close()
        if not system.failed:
            break
    assert failures > 5

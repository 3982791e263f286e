"""Backups are whole, of one moment, and come with their key."""

import asyncio

import pytest

from holdfast.errors import InvalidArgument, Unopenable, WrongKey
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.backup import restore_backup
from holdfast.testing.samples import continued, save, saving


@pytest.fixture
async def store(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store" / "store.db")
    await save(store, id="chk-first")
    yield store
    await store.close()


async def test_a_backup_is_of_one_commit_while_others_write(store, tmp_path):
    async def write_pairs():
        for n in range(60):
            await store.commit(saving("one", id=f"chk-1-{n}"), saving("two", id=f"chk-2-{n}"))

    writing = asyncio.create_task(write_pairs())
    made = []
    while not writing.done():
        made.append(await store.backup(tmp_path / f"{len(made)}.db"))
    await writing
    assert len(made) > 1
    for one in made:
        copy = SQLiteCheckpointStorage(one["path"], read_only=True)
        counts = {info.agent_id: info.checkpoints for info in await copy.agents()}
        assert counts.get("one") == counts.get("two")
        assert (await copy.verify()).ok
        await copy.close()


async def test_a_backup_is_one_clean_file_and_a_key_that_nobody_else_may_read(store, tmp_path):
    folder = tmp_path / "backups"
    await store.rotate_key()
    made = await store.backup(folder / "copy.db")
    assert made["key_file"] == str(folder / "copy.db.key")
    assert sorted(path.name for path in folder.iterdir()) == ["copy.db", "copy.db.key"]
    assert (folder / "copy.db.key").stat().st_mode & 0o777 == 0o600
    assert (folder / "copy.db").read_bytes()[18:20] == b"\1\1", "it needs no log"
    copy = SQLiteCheckpointStorage(folder / "copy.db")
    await continued(copy)
    assert len(await copy.list(Query())) == 2
    await copy.close()
    assert len(await store.list(Query())) == 1


async def test_a_backup_overwrites_a_store_only_when_told_to_and_nothing_else(store, tmp_path):
    target = tmp_path / "copy.db"
    await store.backup(target)
    with pytest.raises(InvalidArgument, match="exists already"):
        await store.backup(target)
    await continued(store, id="chk-second")
    await store.backup(target, overwrite=True)
    copy = SQLiteCheckpointStorage(target, read_only=True)
    assert len(await copy.list(Query())) == 2
    await copy.close()
    diary = tmp_path / "diary.txt"
    diary.write_text("dear diary " * 20)
    with pytest.raises(Unopenable, match="not a Holdfast store"):
        await store.backup(diary, overwrite=True)
    with pytest.raises(InvalidArgument, match="the store itself"):
        await store.backup(store.path, overwrite=True)
    with pytest.raises(InvalidArgument, match="is a directory"):
        await store.backup(tmp_path, overwrite=True)
    assert diary.read_text().startswith("dear diary")
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))


async def test_a_key_that_was_given_is_not_written_beside_a_backup(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db", key="a secret that is long enough")
    await save(store)
    made = await store.backup(tmp_path / "copy.db")
    await store.close()
    assert made["key_file"] is None
    assert not (tmp_path / "copy.db.key").exists()
    with pytest.raises(WrongKey):
        await asyncio.to_thread(restore_backup, tmp_path / "copy.db", tmp_path / "new.db", key="another long secret")
    made = await asyncio.to_thread(
        restore_backup, tmp_path / "copy.db", tmp_path / "new.db", key="a secret that is long enough"
    )
    assert made["key_file"] is None
    copy = SQLiteCheckpointStorage(tmp_path / "new.db", key="a secret that is long enough")
    assert len(await copy.list(Query())) == 1
    await copy.close()


async def test_a_backup_put_back_is_the_store_as_it_was(store, tmp_path):
    await store.backup(tmp_path / "copy.db")
    await continued(store, id="chk-later")
    await store.close()
    with pytest.raises(InvalidArgument):
        await asyncio.to_thread(restore_backup, tmp_path / "copy.db", store.path)
    with pytest.raises(Unopenable):
        await asyncio.to_thread(restore_backup, tmp_path / "none.db", store.path, overwrite=True)
    await asyncio.to_thread(restore_backup, tmp_path / "copy.db", store.path, overwrite=True)
    again = SQLiteCheckpointStorage(store.path)
    assert [one.id for one in await again.list(Query())] == ["chk-first"]
    await continued(again)
    assert (await again.verify()).ok
    await again.close()


async def test_a_backup_takes_the_place_of_a_damaged_store_and_its_log(store, tmp_path):
    await store.backup(tmp_path / "copy.db")
    await store.close()
    data = bytearray(store.path.read_bytes())
    data[100:600] = bytes(500)
    store.path.write_bytes(data)
    store.path.with_name("store.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(2000))
    await asyncio.to_thread(restore_backup, tmp_path / "copy.db", store.path, overwrite=True)
    again = SQLiteCheckpointStorage(store.path)
    assert [one.id for one in await again.list(Query())] == ["chk-first"]
    assert (await again.verify()).ok
    await again.close()

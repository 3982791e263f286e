"""What can't be opened is refused with one clear error; what is only read is not written to."""

import hashlib
import shutil
import sqlite3
from pathlib import Path

import apsw
import pytest

from holdfast.errors import KeyMissing, ReadOnly, Unopenable, WrongKey
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage, opening
from holdfast.testing.samples import continued, save
from tests.faults.children import line, running
from tests.faults.stores import answers, copied, refused, small_store

pytestmark = [pytest.mark.faults, pytest.mark.anyio]


async def refusal(path, error=Unopenable, **options):
    """The error of a read and of a write, which must be the same."""
    messages = []
    for attempt in (lambda store: store.list(Query()), save):
        store = SQLiteCheckpointStorage(path, **options)
        with pytest.raises(error) as refused:
            await attempt(store)
        await store.close()
        assert refused.value.path == str(path)
        assert refused.value.hint
        messages.append(refused.value.message)
    assert messages[0] == messages[1]
    return messages[0]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


async def test_a_newer_format_is_refused_and_left_alone(tmp_path):
    path = await small_store(tmp_path)
    data = bytearray(path.read_bytes())
    data[60:64] = (2).to_bytes(4, "big")
    path.write_bytes(data)
    assert "has format 2" in await refusal(path)
    assert path.read_bytes() == data


async def test_what_is_no_store_is_refused_and_left_alone(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "is a directory" in await refusal(folder)
    text = tmp_path / "text.db"
    text.write_text("My diary. " * 50)
    assert "no SQLite file" in await refusal(text)
    short = tmp_path / "short.db"
    short.write_bytes(b"SQLite format 3\0")
    assert "no SQLite file" in await refusal(short)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    before = other.read_bytes()
    assert "not a Holdfast store" in await refusal(other)
    assert other.read_bytes() == before
    assert text.read_text().startswith("My diary")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "other.db", "short.db", "text.db"]


async def test_a_path_that_is_not_there_is_a_new_store_for_writing_and_an_error_for_reading(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "deeper" / "store.db", read_only=True)
    with pytest.raises(Unopenable, match="does not exist"):
        await store.list(Query())
    store = SQLiteCheckpointStorage(tmp_path / "deeper" / "store.db")
    assert await store.list(Query()) == []
    await store.close()


async def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "store.db"
    path.touch()
    store = SQLiteCheckpointStorage(path)
    saved = await save(store)
    assert [one.id for one in await store.list(Query())] == [saved.id]
    await store.close()


async def test_without_its_key_a_store_is_read_but_not_written(tmp_path):
    path = await small_store(tmp_path)
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    await store.close()
    (tmp_path / "store.db.key").unlink()
    store = SQLiteCheckpointStorage(path)
    assert await answers(store) == right
    assert not refused(right)
    with pytest.raises(KeyMissing) as missing:
        await save(store)
    assert "key reset" in missing.value.hint
    report = await store.verify()
    assert report.ok, report.damaged
    await store.close()
    assert not (tmp_path / "store.db.key").exists()


async def test_a_wrong_key_and_a_garbage_key_are_refused(tmp_path):
    path = await small_store(tmp_path / "one")
    other = await small_store(tmp_path / "two")
    key = path.with_name("store.db.key")
    assert key.stat().st_mode & 0o777 == 0o600
    good = key.read_bytes()
    shutil.copyfile(other.with_name("store.db.key"), key)
    assert "did not write" in await refusal(path, WrongKey)
    for garbage in (b"", b"hello", b"1:00", b"\xff\xfe", good[:-9]):
        key.write_bytes(garbage)
        store = SQLiteCheckpointStorage(path)
        with pytest.raises(Unopenable, match="key"):
            await store.list(Query())
        with pytest.raises(Unopenable, match="key"):
            await save(store)
        await store.close()
    key.write_bytes(good)
    store = SQLiteCheckpointStorage(path)
    await save(store)
    await store.close()


async def test_the_environments_key_overrides_the_file_and_none_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_KEY", "correct horse battery staple")
    path = tmp_path / "store.db"
    store = SQLiteCheckpointStorage(path)
    saved = await save(store)
    await store.close()
    assert not path.with_name("store.db.key").exists()
    monkeypatch.setenv("HOLDFAST_KEY", "another secret of this length")
    assert "did not write" in await refusal(path, WrongKey)
    monkeypatch.delenv("HOLDFAST_KEY")
    store = SQLiteCheckpointStorage(path, key="correct horse battery staple")
    assert (await store.fetch(saved.id)) is not None
    await store.close()


async def test_a_network_file_system_is_refused_unless_allowed(tmp_path, monkeypatch):
    real = Path.read_text

    def read_text(path, *arguments, **options):
        if str(path) == "/proc/self/mountinfo":
            return f"36 35 98:0 / {tmp_path} rw - nfs4 server:/export rw\n"
        return real(path, *arguments, **options)

    monkeypatch.setattr(opening.Path, "read_text", read_text)
    monkeypatch.setattr(opening.sys, "platform", "linux")
    path = tmp_path / "store.db"
    assert "network file system (nfs4)" in await refusal(path)
    assert not path.exists()
    store = SQLiteCheckpointStorage(path, allow_network=True)
    await save(store)
    await store.close()
    monkeypatch.setenv("HOLDFAST_ALLOW_NETWORK", "1")
    store = SQLiteCheckpointStorage(path)
    assert len(await store.list(Query())) == 1
    await store.close()


async def test_reading_only_changes_nothing(tmp_path):
    path = copied(await small_store(tmp_path / "made"), tmp_path / "store")
    before = contents(path.parent)
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    assert not refused(right)
    assert (await store.verify()).ok
    await store.stats()
    with pytest.raises(ReadOnly):
        await save(store)
    with pytest.raises(ReadOnly):
        await store.collect_garbage()
    with pytest.raises(ReadOnly):
        await store.rotate_key()
    await store.close()
    assert contents(path.parent) == before


async def test_reading_only_leaves_a_log_as_it_is_and_reads_it(tmp_path):
    """A killed writer leaves its log behind: what is only in there was acknowledged."""
    path = tmp_path / "store" / "store.db"
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path)
        for n in range(5):
            saved = await continued(store, state={"n": n})
        say(saved.id)
        sys.stdin.readline()
    asyncio.run(main())
    """
    with running(program, path) as child:
        newest = line(child)
        child.kill()
        child.wait()
    kept = ("store.db", "store.db-wal", "store.db.key")
    before = {name: digest for name, digest in contents(path.parent).items() if name in kept}
    assert len(before) == 3
    store = SQLiteCheckpointStorage(path, read_only=True)
    assert [one.id for one in await store.list(Query(limit=1))] == [newest]
    assert (await store.verify()).checkpoints == 5
    await store.close()
    assert {name: digest for name, digest in contents(path.parent).items() if name in kept} == before


async def test_a_reader_sees_what_a_writer_does_meanwhile(tmp_path):
    path = tmp_path / "store.db"
    writer = SQLiteCheckpointStorage(path)
    await save(writer)
    await writer.close()
    reader = SQLiteCheckpointStorage(path, read_only=True)
    assert len(await reader.list(Query())) == 1
    writer = SQLiteCheckpointStorage(path)
    for expected in (2, 3):
        await continued(writer)
        assert len(await reader.list(Query())) == expected
    await writer.close()
    assert len(await reader.list(Query())) == 3
    await reader.close()


@pytest.mark.parametrize("data", [b"", None])
async def test_a_file_in_which_no_store_was_made_yet_is_not_called_damaged(tmp_path, data):
    """A reader may come while the first writer makes the store, or after one that died before its first commit."""
    path = tmp_path / "store.db"
    if data is None:
        db = apsw.Connection(str(path))
        db.execute("PRAGMA journal_mode=WAL")
        db.close()
    else:
        path.write_bytes(data)
    store = SQLiteCheckpointStorage(path, read_only=True)
    with pytest.raises(Unopenable, match="no store was made there yet"):
        await store.agents()
    await store.close()


async def test_what_waits_in_the_log_is_read_through_a_symbolic_link_as_well(tmp_path):
    path, link = tmp_path / "real" / "store.db", tmp_path / "link.db"
    store = SQLiteCheckpointStorage(path, key="a key of some length")
    saved = await save(store)
    link.symlink_to(path)
    reader = SQLiteCheckpointStorage(link, key="a key of some length", read_only=True)
    assert [found.id for found in await reader.list(Query())] == [saved.id]
    await reader.close()
    await store.close()

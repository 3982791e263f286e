"""An older copy of a store in its place: authentic in every byte, and known by what is kept elsewhere."""

import asyncio
import shutil

import pytest

from holdfast.cli.app import main
from holdfast.errors import RolledBack, Unopenable
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.anchor import Anchor
from holdfast.storage.sqlite.rekey import reset
from holdfast.testing.samples import commit, continued
from tests.faults.children import ended, line, running, tell

pytestmark = [pytest.mark.faults, pytest.mark.anyio]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "store.db"


@pytest.fixture
def anchor(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "store.anchor"


async def saved(path, anchor=None, saves=1):
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    try:
        for _ in range(saves):
            await continued(store)
    finally:
        await store.close()


async def refused(path, anchor):
    """Whether every way in is refused: a writer's, a reader's and the command line's."""
    before = path.read_bytes()[100:]  # SQLite's header counts openings
    for read_only in (False, True):
        store = SQLiteCheckpointStorage(path, anchor=anchor, read_only=read_only)
        with pytest.raises(RolledBack) as told:
            await (store.agents() if read_only else continued(store))
        assert told.value.path == str(path)
        await store.close()
    assert path.read_bytes()[100:] == before
    return True


async def test_a_store_that_went_on_is_what_its_anchor_says(path, anchor):
    for _ in range(3):
        await saved(path, anchor, saves=2)
    await saved(path, saves=2)  # a program that does not know of it
    store = SQLiteCheckpointStorage(path, anchor=anchor, read_only=True)
    assert (await store.verify()).ok
    await store.close()
    assert anchor.stat().st_size == 256
    await saved(path, anchor)


async def test_without_an_anchor_an_old_copy_is_taken_for_the_store(path, tmp_path):
    await saved(path)
    shutil.copyfile(path, tmp_path / "old")
    await saved(path)
    shutil.copyfile(tmp_path / "old", path)
    store = SQLiteCheckpointStorage(path)
    assert (await store.verify()).ok, "nothing in the file itself can tell"
    assert len(await store.read("agent")) == 1
    await store.close()


@pytest.mark.parametrize("more", [0, 1, 5])
async def test_an_old_copy_is_refused_even_after_others_went_on_from_it(path, anchor, tmp_path, more):
    await saved(path, anchor)
    shutil.copyfile(path, tmp_path / "old")
    await saved(path, anchor, saves=3)
    shutil.copyfile(tmp_path / "old", path)
    if more:
        await saved(path, saves=more)  # until its commit number is below, at and above the anchor's
    assert await refused(path, anchor)


async def test_a_copy_from_within_one_opening_is_refused_as_well(path, anchor, tmp_path):
    """The store's own history is the same then up to where it was opened again."""
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    await continued(store)
    await store.backup(tmp_path / "old.db")
    for _ in range(3):
        await continued(store)
    await store.close()
    shutil.copyfile(tmp_path / "old.db", path)
    assert await refused(path, anchor)
    await saved(path, saves=9)
    assert await refused(path, anchor)


@pytest.mark.parametrize("what", ["gone", "empty", "another"])
async def test_another_store_or_none_in_its_place_is_refused(path, anchor, tmp_path, what):
    await saved(path, anchor)
    key = path.with_name("store.db.key")
    if what == "another":
        await saved(tmp_path / "other.db", saves=9)
        shutil.copyfile(tmp_path / "other.db", path)
        shutil.copyfile(tmp_path / "other.db.key", key)
        assert await refused(path, anchor)
        return
    path.write_bytes(b"") if what == "empty" else path.unlink()
    with pytest.raises(RolledBack):
        await saved(path, anchor)


async def test_a_kill_between_a_commit_and_its_anchor_raises_no_alarm(path, anchor):
    program = """
    from holdfast.storage.sqlite import anchor
    async def main():
        store = SQLiteCheckpointStorage(path, anchor=sys.argv[2])
        await continued(store)
        anchor.Anchor.try_to_follow = lambda *_: os.kill(os.getpid(), 9)
        await continued(store)
    asyncio.run(main())
    """
    with running(program, path, anchor) as child:
        assert child.wait() == -9
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    assert len(await store.read("agent")) == 2
    await store.close()


async def test_processes_that_share_an_anchor_move_it_forward_only(path, anchor):
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path, anchor=sys.argv[2])
        for _ in range(40):
            await continued(store, sys.argv[3])
        say("done")
        sys.stdin.readline()
        await store.close()
    asyncio.run(main())
    """
    with running(program, path, anchor, "one") as one, running(program, path, anchor, "other") as other:
        assert line(one) == line(other) == "done"
        for child in (one, other):
            tell(child)
            assert ended(child) == []
    old = anchor.read_bytes()
    await saved(path, anchor, saves=0)
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    await store.agents()
    assert '"commit": ' + str((await commit(store, hold=True)).commit_number) in anchor.read_text()
    assert anchor.read_bytes() != old
    await store.close()


@pytest.mark.blocks_the_loop("the command line has a loop of its own, on a thread of its own")
async def test_verify_alone_keeps_an_anchor(path, anchor, tmp_path, capsys):
    await saved(path)
    shutil.copyfile(path, tmp_path / "old")
    command = ["--store", str(path), "verify", "--anchor", str(anchor)]
    assert await in_a_thread(command) == 0
    await saved(path)
    assert await in_a_thread(command) == 0
    shutil.copyfile(tmp_path / "old", path)
    assert await in_a_thread(command) == 3
    assert "anchor" in capsys.readouterr().err
    assert await refused(path, anchor)


async def in_a_thread(arguments):
    return await asyncio.to_thread(main, arguments)


async def test_a_damaged_store_does_not_move_its_anchor(path, anchor):
    await saved(path, anchor)
    await saved(path, saves=3)
    import apsw

    db = apsw.Connection(str(path))
    db.execute("UPDATE checkpoints SET state = zeroblob(40) WHERE key = (1 << 32) + 3")
    assert db.total_changes() == 1
    db.close()
    before = anchor.read_bytes()
    store = SQLiteCheckpointStorage(path, anchor=anchor, read_only=True)
    assert not (await store.verify()).ok
    await store.close()
    assert anchor.read_bytes() == before


@pytest.mark.parametrize("data", [b"no anchor", bytes(256), b"[1]", b'{"check": 1}', None])
async def test_a_damaged_anchor_says_so_and_is_not_replaced(path, anchor, data):
    await saved(path, anchor)
    if data is None:
        flipped = bytearray(anchor.read_bytes())
        flipped[anchor.read_text().index('"commit": ') + 10] ^= 1
        data = bytes(flipped)
    anchor.write_bytes(data)
    with pytest.raises(Unopenable, match="anchor"):
        await saved(path, anchor)
    assert anchor.read_bytes() == data
    anchor.unlink()
    await saved(path, anchor)


async def test_an_anchor_that_can_t_be_written_any_more_fails_no_save(path, anchor, caplog):
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    await continued(store)
    anchor.unlink()
    anchor.mkdir()  # as when its disk is gone; a mode would not stop root
    await continued(store)
    assert "stays behind" in caplog.text
    await store.close()
    anchor.rmdir()


async def test_a_rotated_key_keeps_the_anchor_and_a_reset_one_does_not(path, anchor):
    store = SQLiteCheckpointStorage(path, anchor=anchor)
    await continued(store)
    await store.rotate_key()
    await continued(store)
    await store.close()
    await saved(path, anchor)
    path.with_name("store.db.key").unlink()
    await asyncio.to_thread(reset, SQLiteCheckpointStorage(path).settings)
    assert await refused(path, anchor)


async def test_a_reader_that_is_behind_does_not_move_an_anchor_back(path, anchor, tmp_path):
    await saved(path)
    shutil.copyfile(path, tmp_path / "old")
    await saved(path, anchor)
    before = anchor.read_bytes()
    store = SQLiteCheckpointStorage(tmp_path / "old", key=path.with_name("store.db.key").read_text(), read_only=True)
    file = Anchor(anchor, path)
    await store._read(lambda reader: file.follow(reader.db, reader.cells))
    await store.close()
    assert anchor.read_bytes() == before


async def test_an_opening_with_an_anchor_leaves_a_record_even_beside_other_writers(path, anchor):
    """By these records an old copy is known; whoever can write to the folder can pretend to have the store open."""
    other = SQLiteCheckpointStorage(path)
    await continued(other)
    before = await own_records(other)
    await saved(path, saves=0)
    await saved(path, anchor)
    await saved(path, anchor)
    assert await own_records(other) == before + 2
    await other.close()


async def own_records(store):
    return await store._read(lambda reader: reader.rows.store().seq)

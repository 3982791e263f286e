"""A log that lost what was acknowledged, and a store that lost everything: refused by name, and left as it is."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import apsw
import pytest

from holdfast.cli.app import main
from holdfast.errors import HoldfastError, RolledBack, Unopenable
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage, lastcommit, opening
from holdfast.storage.sqlite.backup import restore_backup
from holdfast.storage.sqlite.rekey import reset
from holdfast.testing.samples import continued, save
from tests.faults.children import ended, line, running, tell
from tests.faults.disk import recorded
from tests.faults.remains import Remains
from tests.faults.report import LONG
from tests.faults.report import tell as report

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(3600 if LONG else 60)]

DETECTED, WHOLE, LOST = "detected", "everything acknowledged is there", "lost"
HEADER, FRAME_HEADER, PAGE = 32, 24, 2048
PARTS = ("", "-wal", ".key", ".last")

SAVES = """
async def main():
    store = SQLiteCheckpointStorage(path)
    for n in range(8):
        say((await continued(store, state={"n": n})).id)
    say("done")
    sys.stdin.readline()
asyncio.run(main())
"""


def killed(path: Path) -> list[str]:
    """A store that its writer saved to, and was killed; the ids that were acknowledged."""
    ids: list[str] = []
    with running(SAVES, path) as child:
        while (said := line(child)) != "done":
            ids.append(said)
        child.kill()
        child.wait()
    return ids


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("killed") / "store.db"
    return path, killed(path)


def copied(path: Path, folder: Path, log: bytes | None = None) -> Path:
    """The same files elsewhere, with this log if one is given. SQLite makes the log's index anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix in PARTS:
        shutil.copyfile(f"{path}{suffix}", folder / f"{path.name}{suffix}")
    copy = folder / path.name
    if log is not None:
        log_of(copy).write_bytes(log)
    return copy


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def note_of(path: Path) -> Path:
    return path.with_name(path.name + ".last")


async def outcome(path: Path, ids: list[str], *, read_only: bool) -> str:
    """What becomes of whoever opens the store as it lies there, and reads everything or goes on."""
    store = SQLiteCheckpointStorage(path, read_only=read_only)
    try:
        if not read_only:
            await continued(store, state={"n": "more"})
        report = await store.verify()
        listed = {found.id for found in await store.list(Query(limit=None))}
    except HoldfastError:
        return DETECTED
    finally:
        await store.close()
    return WHOLE if report.ok and listed >= {*ids} else LOST if report.ok else DETECTED


async def outcomes(original, folder, logs) -> Counter[str]:
    """What became of a reader and of a writer, with each of these logs. Whoever refuses leaves everything as it is."""
    path, ids = original
    found: Counter[str] = Counter()
    for log in logs:
        for read_only in (True, False):
            copy = copied(path, folder / "copy", log)
            found[told := await outcome(copy, ids, read_only=read_only)] += 1
            if told == DETECTED:
                assert log_of(copy).read_bytes() == log
                assert copy.read_bytes() == path.read_bytes()
    return found


def frames(log: bytes) -> range:
    """Where each frame begins."""
    return range(HEADER, len(log), FRAME_HEADER + PAGE)


def flipped(log: bytes, chance: random.Random, places) -> list[bytes]:
    return [log[:at] + bytes([log[at] ^ 1 << chance.randrange(8)]) + log[at + 1 :] for at in places]


def every(log: bytes) -> list[int]:
    """Every byte of the log's header and of its frames' headers, and many of their pages."""
    places = [*range(HEADER)]
    for at in frames(log):
        places += [*range(at, at + FRAME_HEADER), *range(at + FRAME_HEADER, at + FRAME_HEADER + PAGE, 32)]
    return places


def sample(log: bytes, chance: random.Random) -> list[int]:
    """Bytes of the log's header, and one of the header and the page of some frames."""
    begins = frames(log)[::4]
    within = [at + chance.randrange(FRAME_HEADER) for at in begins]
    pages = [at + FRAME_HEADER + chance.randrange(PAGE) for at in begins]
    return [*range(0, HEADER, 3), *within, *pages]


# --- damage to the log


async def test_a_log_that_a_kill_left_is_read_to_its_end(original, folder):
    path, ids = original
    assert len(frames(log_of(path).read_bytes())) > 8
    assert await outcomes(original, folder, [log_of(path).read_bytes()]) == {WHOLE: 2}
    assert len(ids) == 8


async def test_a_flipped_bit_of_the_log_loses_nothing_unnoticed(original, folder):
    log, chance = log_of(original[0]).read_bytes(), random.Random(1)
    places = every(log) if LONG else sample(log, chance)
    found = await outcomes(original, folder, flipped(log, chance, places))
    report(
        "Logs with a flipped bit",
        "A bit flipped in every byte of a header and many of a page, in a log that a kill left; read, and written to.",
        **{LOST: found[LOST], **found},
    )
    assert not found[LOST]
    assert found[DETECTED] > len(places)


async def test_a_log_cut_off_anywhere_loses_nothing_unnoticed(original, folder):
    log = log_of(original[0]).read_bytes()
    begins = frames(log)[:: 1 if LONG else 5]
    lengths = {0, 1, HEADER - 1, len(log) - 1} | {at + more for at in begins for more in (0, 10, FRAME_HEADER + 1000)}
    found = await outcomes(original, folder, [log[:length] for length in sorted(lengths)])
    report(
        "Logs cut off",
        "A log that a kill left, cut off at each frame and within; read, and written to.",
        **{LOST: found[LOST], **found},
    )
    assert found == {DETECTED: 2 * len(lengths)}


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_log_that_is_gone_is_missed(original, folder, read_only):
    path, ids = original
    copy = copied(path, folder / "copy")
    log_of(copy).unlink()
    assert await outcome(copy, ids, read_only=read_only) == DETECTED


async def test_without_the_note_a_shorter_log_would_be_believed(original, folder, monkeypatch):
    """The control: the same flips lose what was acknowledged when nobody has noted how far the store was."""
    monkeypatch.setattr(lastcommit, "read", lambda _: None)
    log, chance = log_of(original[0]).read_bytes(), random.Random(1)
    copy, lost = folder / "copy" / "store.db", 0
    for damaged in flipped(log, chance, sample(log, chance)[::3]):
        copied(original[0], copy.parent, damaged)
        lost += await outcome(copy, original[1], read_only=False) == LOST
    assert lost > 10


# --- what is told, and how to go on


@pytest.mark.blocks_the_loop("the command line has a loop of its own, on a thread of its own")
async def test_verify_and_every_way_in_say_what_is_lost(original, folder, capsys):
    path, _ = original
    copy = copied(path, folder / "copy", log_of(path).read_bytes()[:10_000])
    assert await asyncio.to_thread(main, ["--store", str(copy), "verify"]) == 3
    told = capsys.readouterr().err
    assert "was at 9" in told
    assert "write-ahead log" in told
    copy.with_name("store.db.key").unlink()
    for read_only in (True, False):
        store = SQLiteCheckpointStorage(copy, read_only=read_only)
        with pytest.raises(RolledBack) as lost:
            await store.agents()
        assert lost.value.path == str(copy)
        assert "store.db.last" in lost.value.hint
        await store.close()
    with pytest.raises(RolledBack):
        await asyncio.to_thread(reset, SQLiteCheckpointStorage(copy).settings)
    with pytest.raises(RolledBack):
        await asyncio.to_thread(restore_backup, copy, folder / "elsewhere.db")
    assert log_of(copy).stat().st_size == 10_000


async def test_who_accepts_the_loss_goes_on_with_what_is_there(original, folder):
    path, ids = original
    copy = copied(path, folder / "copy", log_of(path).read_bytes()[:30_000])
    note_of(copy).unlink()
    store = SQLiteCheckpointStorage(copy)
    await continued(store)
    listed = await store.list(Query(limit=None))
    assert 1 < len(listed) < len(ids)
    assert (await store.verify()).ok
    await store.close()


@pytest.mark.parametrize("lost", ["nothing", "log", "content", "database"])
async def test_a_backup_takes_the_place_of_a_store_that_was_killed(original, folder, tmp_path, lost):
    path, ids = original
    copy = copied(path, folder / "copy")
    store = SQLiteCheckpointStorage(copy, read_only=True)
    await store.backup(tmp_path / "backup.db")
    await store.close()
    with running(SAVES, copy) as child:
        while line(child) != "done":
            pass
    if lost == "database":
        copy.unlink()
    elif lost != "nothing":
        (log_of(copy) if lost == "log" else copy).write_bytes(b"")
    await asyncio.to_thread(restore_backup, tmp_path / "backup.db", copy, overwrite=True)
    store = SQLiteCheckpointStorage(copy, read_only=True)
    assert {found.id for found in await store.list(Query(limit=None))} == {*ids}, "as the backup was, and no more"
    await store.close()
    for read_only in (True, False):
        assert await outcome(copy, ids, read_only=read_only) == WHOLE


async def test_a_reset_key_leaves_no_note_that_is_ahead(original, folder):
    copy = copied(original[0], folder / "copy")
    copy.with_name("store.db.key").unlink()
    await asyncio.to_thread(reset, SQLiteCheckpointStorage(copy).settings)
    for read_only in (True, False):
        assert await outcome(copy, original[1], read_only=read_only) == WHOLE


async def test_a_key_reset_that_finds_less_than_was_noted_leaves_no_note_that_is_ahead(folder):
    """The head is lost, and of the messages nothing says in which commit they came."""
    store = SQLiteCheckpointStorage(folder / "live.db")
    await continued(store)
    for n in range(9):
        await store.send("agent", "user", n, sender="me")
    shutil.copyfile(note_of(store.path), folder / "note")
    await store.close()
    path = (folder / "live.db").rename(folder / "store.db")
    shutil.copyfile(folder / "note", note_of(path))
    db = apsw.Connection(str(path))
    db.execute("UPDATE agents SET head = zeroblob(9) WHERE number = 0")
    db.close()
    await asyncio.to_thread(reset, SQLiteCheckpointStorage(path).settings)
    store = SQLiteCheckpointStorage(path)
    assert (await store.verify()).ok
    assert (await commit_and_note(store))[0] < 11
    await store.close()


async def test_a_writer_that_can_t_empty_its_log_leaves_the_number_there(folder, monkeypatch):
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0)
    store = SQLiteCheckpointStorage(folder / "store.db")
    await continued(store)
    reader = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READWRITE)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM agents").fetchall()
    await continued(store)
    await store.close()
    assert log_of(store.path).stat().st_size
    assert lastcommit.read(store.path).commit == 3
    reader.close()


async def test_a_reader_that_a_backup_overtakes_raises_no_alarm(original, folder, monkeypatch):
    """It may read the note of the store that was there, and then open the one that was put there."""
    copy = copied(original[0], folder / "copy")
    stale = lastcommit.Last(lastcommit.read(copy).store_id, 99)
    real = lastcommit.read
    answers = [stale]
    monkeypatch.setattr(lastcommit, "read", lambda path: answers.pop() if answers else real(path))
    assert await outcome(copy, original[1], read_only=True) == WHOLE
    assert not answers


# --- the note


async def commit_and_note(store):
    there = await store._read(lambda reader: reader.rows.store().commit_number)
    return there, lastcommit.read(store.path).commit


async def test_the_note_follows_every_commit_and_says_so_little_after_a_clean_end(folder):
    store = SQLiteCheckpointStorage(folder / "store.db")
    await store.agents()
    assert await commit_and_note(store) == (1, 1)
    await continued(store)
    await store.send("agent", "user", "hello", sender="me")
    assert await commit_and_note(store) == (3, 3)
    await asyncio.gather(*(continued(store, f"agent-{n}") for n in range(5)))
    there, noted = await commit_and_note(store)
    assert there == noted == 8
    await store.rotate_key()
    assert await commit_and_note(store) == (9, 9)
    await store.close()
    assert lastcommit.read(store.path).commit == 0


async def test_a_power_cut_leaves_the_note_that_a_store_was_made_and_takes_no_forgetting_back(folder, monkeypatch):
    async with recorded(folder / "live", monkeypatch) as (disk, vfs):
        store = SQLiteCheckpointStorage(folder / "live" / "store.db", vfs=vfs.name)
        await continued(store)
        remains = Remains()
        for event in disk.events:
            remains.follow(event)
        assert remains.least()["store.db.last"].startswith(b"store ")
        done = len(disk.events)
        await store.close()
        await asyncio.to_thread(lastcommit.forget, store.path)
        for event in disk.events[done:]:
            remains.follow(event)
        assert remains.least()["store.db.last"] == remains.most()["store.db.last"] == b""


async def test_a_refused_commit_is_not_noted(folder):
    store = SQLiteCheckpointStorage(folder / "store.db")
    done = await continued(store)
    before = await commit_and_note(store)
    with pytest.raises(HoldfastError):
        await save(store, "other", id=done.id)
    assert await commit_and_note(store) == before
    await store.close()


async def test_a_kill_between_a_commit_and_its_note_raises_no_alarm(folder):
    path = folder / "store.db"
    program = """
    from holdfast.storage.sqlite import lastcommit
    async def main():
        store = SQLiteCheckpointStorage(path)
        await continued(store)
        lastcommit.LastCommit.put = lambda *_: os.kill(os.getpid(), 9)
        await continued(store)
    asyncio.run(main())
    """
    with running(program, path) as child:
        assert child.wait() == -9
    assert lastcommit.read(path).commit == 2
    store = SQLiteCheckpointStorage(path)
    assert len(await store.read("agent")) == 2
    await store.close()


async def test_what_a_killed_writer_noted_outlives_those_who_go_on_without_it(folder):
    """Its own files are swept away by the others, but this one belongs to all of them."""
    path = folder / "store.db"
    other = SQLiteCheckpointStorage(path)
    await continued(other)
    ids = killed(path)
    assert await other.agent("agent") is not None
    there, noted = await commit_and_note(other)
    assert there == noted > len(ids)
    await continued(other)
    assert await commit_and_note(other) == (there + 1, there + 1)
    await other.close()


async def test_writers_that_end_cleanly_beside_others_leave_the_number_there(folder):
    path = folder / "store.db"
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path)
        await continued(store)
        say("open")
        sys.stdin.readline()
        await store.close()
    asyncio.run(main())
    """
    store = SQLiteCheckpointStorage(path)
    await continued(store)
    with running(program, path) as child:
        assert line(child) == "open"
        tell(child)
        assert ended(child) == []
    assert lastcommit.read(path).commit == 3
    await store.close()
    assert lastcommit.read(path).commit == 0


async def test_a_damaged_note_is_no_reason_to_refuse_a_store(original, folder, caplog):
    path, ids = original
    data = note_of(path).read_bytes()
    assert len(data) < 512, "a sector is written whole or not at all"
    chance = random.Random(2)
    for at in range(0, len(data), 1 if LONG else 7):
        copy = copied(path, folder / "copy")
        note_of(copy).write_bytes(flipped(data, chance, [at])[0])
        assert await outcome(copy, ids, read_only=True) == WHOLE
        assert "store.db.last is damaged" in caplog.text
        caplog.clear()
    for nothing in (b"", bytes(len(data)), None):
        copy = copied(path, folder / "copy")
        note_of(copy).unlink() if nothing is None else note_of(copy).write_bytes(nothing)
        assert await outcome(copy, ids, read_only=False) == WHOLE
    assert caplog.text == ""


async def test_the_note_of_another_store_says_nothing_about_this_one(original, folder):
    path, ids = original
    copy = copied(path, folder / "copy")
    other = SQLiteCheckpointStorage(folder / "other.db")
    for _ in range(20):
        await continued(other)
    shutil.copyfile(note_of(folder / "other.db"), note_of(copy))
    await other.close()
    assert await outcome(copy, ids, read_only=True) == WHOLE
    assert await outcome(copy, ids, read_only=False) == WHOLE
    assert lastcommit.read(copy).store_id == lastcommit.read(path).store_id


async def test_a_note_that_can_t_be_written_fails_no_save(folder, monkeypatch, caplog):
    store = SQLiteCheckpointStorage(folder / "store.db")
    await continued(store)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lastcommit.os, "pwrite", full)
    await continued(store)
    await continued(store)
    monkeypatch.undo()
    assert caplog.text.count("stays behind") == 1
    assert await commit_and_note(store) == (4, 2)
    await continued(store)
    assert await commit_and_note(store) == (5, 5)
    await store.close()


async def test_a_note_that_can_t_be_read_says_so(original, folder):
    copy = copied(original[0], folder / "copy")
    note_of(copy).unlink()
    note_of(copy).mkdir()
    for read_only in (True, False):
        store = SQLiteCheckpointStorage(copy, read_only=read_only)
        with pytest.raises(Unopenable, match=r"store\.db\.last can't be read"):
            await store.agents()
        await store.close()


# --- a database that is empty or gone


@pytest.fixture(params=["killed", "closed"])
async def made(request, original, folder):
    """A store with what belongs to it, in which something was saved."""
    if request.param == "killed":
        return copied(original[0], folder / "copy")
    store = SQLiteCheckpointStorage(folder / "store.db")
    await continued(store)
    await store.close()
    return folder / "store.db"


@pytest.mark.parametrize("gone", [True, False])
async def test_a_store_that_lost_everything_is_not_made_anew(made, gone):
    made.unlink() if gone else os.truncate(made, 0)
    log = log_of(made).read_bytes() if log_of(made).exists() else None
    for read_only in (True, False, True):
        store = SQLiteCheckpointStorage(made, read_only=read_only)
        with pytest.raises(Unopenable) as refused:
            await (store.agents() if read_only else save(store))
        assert refused.value.path == str(made)
        await store.close()
        if not (gone and read_only):
            assert "store.db.last" in refused.value.hint
    with pytest.raises(Unopenable):
        await asyncio.to_thread(reset, SQLiteCheckpointStorage(made).settings)
    assert made.exists() != gone
    assert (log_of(made).read_bytes() if log_of(made).exists() else None) == log, "it may be all that is left"
    note_of(made).unlink()
    store = SQLiteCheckpointStorage(made)
    await save(store)
    assert len(await store.list(Query())) == 1
    await store.close()


async def test_a_store_whose_tables_are_gone_is_not_made_anew(made):
    made.unlink()
    log_of(made).unlink(missing_ok=True)
    db = apsw.Connection(str(made))
    db.execute("PRAGMA journal_mode=WAL")
    db.close()
    for read_only in (True, False):
        store = SQLiteCheckpointStorage(made, read_only=read_only)
        with pytest.raises(Unopenable, match="a store was made there"):
            await store.agents()
        await store.close()


@pytest.mark.parametrize("moment", ["create", "note"])
async def test_a_store_whose_making_was_interrupted_is_begun_again(folder, moment):
    """Killed between its key file and its first commit, or between that and the note of it."""
    path = folder / "store.db"
    program = """
    from holdfast.storage.sqlite import lastcommit, session
    die = lambda *_: os.kill(os.getpid(), 9)
    if sys.argv[2] == "create":
        session.create = die
    else:
        lastcommit.LastCommit.put = die
    asyncio.run(save(SQLiteCheckpointStorage(path)))
    """
    with running(program, path, moment) as child:
        assert child.wait() == -9
    assert path.with_name("store.db.key").exists()
    store = SQLiteCheckpointStorage(path)
    await save(store)
    assert (await store.verify()).ok
    await store.close()


async def test_a_key_from_elsewhere_makes_no_difference(folder):
    path, key = folder / "store.db", "a key of some length"
    store = SQLiteCheckpointStorage(path, key=key)
    await save(store)
    await store.close()
    os.truncate(path, 0)
    store = SQLiteCheckpointStorage(path, key=key)
    with pytest.raises(Unopenable, match="a store was made there"):
        await save(store)
    await store.close()

"""Files: their names, what they say, damage, home-made ones, and two writers at once."""

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import CheckpointManager
from holdfast.errors import Corrupt, InvalidArgument, ReadOnly, StorageFailed, UnknownCheckpoint
from holdfast.storage import filenames
from holdfast.storage.files import FileCheckpointStorage
from holdfast.testing.samples import NOON, ODD_STATE, checkpoint
from tests.unit.durable.samples import Agent

# That the async methods never block is a matter of tests/conformance.
pytestmark = pytest.mark.blocks_the_loop("the plain methods are called between the async ones")

HOME_MADE = {
    "agent_id": "agent-3",
    "timestamp": "2026-03-01T12:00:00",
    "checkpoint_type": "routine",
    "version": "1.0",
    "state": {"memory": ["a"]},
}


@pytest.fixture
def storage(tmp_path):
    return FileCheckpointStorage(tmp_path / "runtime" / "checkpoints")


def put(storage, name, document):
    storage.directory.mkdir(parents=True, exist_ok=True)
    path = storage.directory / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def damage(path, old=b'"agent"', new=b'"Agent"', count=1):
    """Changes a few bytes, as a disk would, without a program's atomic replacement."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, count))


# --- what a file is


def test_nothing_is_made_before_the_first_save(storage):
    assert storage.entries() == []
    assert storage.path_of("chk_x") is None
    assert not storage.directory.parent.exists()
    storage.write(checkpoint())
    assert storage.directory.is_dir()


def test_a_file_is_named_after_agent_moment_in_utc_and_kind(storage):
    east = NOON.astimezone(datetime.strptime("+0530", "%z").tzinfo)
    path = storage.write(checkpoint("agent-3", timestamp=east, kind="pre_operation"))
    assert path == storage.directory / "agent-3_20260301120000_pre_operation.checkpoint"
    again = storage.write(checkpoint("agent-3", timestamp=NOON, kind="pre_operation"))
    assert again.name == "agent-3_20260301120000_pre_operation_2.checkpoint"
    assert storage.read(path).timestamp == NOON


def test_a_file_is_json_that_a_person_can_read(storage):
    path = storage.write(checkpoint("agent-3", state={"memory": ["naïve"]}, kind="routine", timestamp=NOON))
    text = path.read_text()
    document = json.loads(text)
    assert list(document)[:5] == ["agent_id", "timestamp", "checkpoint_type", "version", "state"]
    assert list(document)[-1] == "integrity"
    assert document["agent_id"] == "agent-3"
    assert document["timestamp"] == "2026-03-01T12:00:00+00:00"
    assert document["checkpoint_type"] == "routine"
    assert document["state"] == {"memory": ["naïve"]}
    assert "naïve" in text
    assert text.startswith('{\n  "agent_id": "agent-3",\n')


def test_reformatting_a_file_does_not_damage_it(storage):
    saved = checkpoint(state=ODD_STATE)
    path = storage.write(saved)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(document.items()))))
    read = storage.read(path)
    assert read.id == saved.id
    assert read.verified


async def test_what_was_listed_is_the_callers_own(storage):
    await storage.save(checkpoint(metadata={"labels": ["a"]}))
    [listed] = await storage.list_by_user("user", 10, 0)
    listed.metadata["labels"].append("b")
    [again] = await storage.list_by_user("user", 10, 0)
    assert again.metadata == {"labels": ["a"]}
    assert again.state is None


def test_a_kind_that_is_none_is_refused(storage):
    with pytest.raises(InvalidArgument):
        storage.write(checkpoint(kind="sometimes"))
    assert storage.entries() == []


# --- names


@given(st.text(max_size=60), st.text(max_size=60))
def test_different_agents_have_different_names_that_lead_back(one, two):
    assert (filenames.escape(one) == filenames.escape(two)) == (one == two)
    assert filenames.unescape(filenames.escape(one)) in (one, None)
    name = next(filenames.names_for(one, NOON, "manual"))
    assert len(name.encode()) <= 255
    assert "/" not in name
    assert not name.startswith(".")
    parts = filenames.parts_of(name)
    assert parts is not None
    assert (parts.agent, parts.kind) == (filenames.escape(one), "manual")
    assert filenames.may_be_of(name, one)


@pytest.mark.parametrize("agent_id", ["a_20260301120000_manual", "a_2", "_", "x" * 1000, "\ud800", "%41", "~", "a\0b"])
def test_an_odd_agent_is_told_from_every_other_by_its_files_names(storage, agent_id):
    mine, other = storage.write(checkpoint(agent_id)), storage.write(checkpoint("a"))
    assert storage.entries(agent_id) == [mine]
    assert storage.entries("a") == [other]
    assert storage.read(mine).agent_id == agent_id


def test_agents_that_differ_in_case_have_files_that_differ_by_more(storage):
    """So that the folder can be copied to a file system that does not know the difference."""
    paths = [storage.write(checkpoint(name, timestamp=NOON)) for name in ("agent", "Agent", "AGENT")]
    assert len({path.name.casefold() for path in paths}) == 3
    assert [storage.entries(name) for name in ("agent", "Agent", "AGENT")] == [[path] for path in paths]


def test_a_year_before_1000_has_four_digits(storage):
    path = storage.write(checkpoint(timestamp=datetime(33, 4, 3, tzinfo=UTC)))
    assert path.name == "agent_00330403000000_manual.checkpoint"


# --- order


def test_entries_are_of_an_agent_and_kind_and_newest_saved_first(storage):
    old = storage.write(checkpoint(kind="routine", timestamp=NOON))
    storage.write(checkpoint(kind="recovery"))
    storage.write(checkpoint("other", kind="routine"))
    new = storage.write(checkpoint(kind="routine", timestamp=NOON - timedelta(days=9)))
    assert storage.entries("agent", "routine") == [new, old]
    assert len(storage.entries("agent")) == 3
    assert len(storage.entries(kind="routine")) == 3
    assert len(FileCheckpointStorage(storage.directory).entries()) == 4


async def test_numbers_are_never_given_twice_even_if_the_newest_was_deleted(storage):
    await storage.save(checkpoint())
    gone = await storage.save(checkpoint())
    await storage.delete(gone)
    again = storage.read(FileCheckpointStorage(storage.directory).write(checkpoint()))
    assert again.commit_number == 3


def test_numbers_go_on_without_the_lock_file(storage):
    for _ in range(3):
        storage.write(checkpoint())
    (storage.directory / ".holdfast.lock").write_text("")
    assert storage.read(FileCheckpointStorage(storage.directory).write(checkpoint())).commit_number == 4


def test_a_replaced_id_leaves_one_file(storage):
    saved = checkpoint(timestamp=NOON)
    first = storage.write(saved)
    assert storage.write(saved.evolve(state={"again": 1})) == first
    moved = storage.write(saved.evolve(timestamp=NOON + timedelta(seconds=1)))
    assert moved != first
    assert storage.entries() == [moved]
    assert not first.exists()


def test_of_two_files_with_one_id_the_newer_counts(storage):
    """What a crash between the new file and the removal of the old one leaves."""
    saved = checkpoint(timestamp=NOON, state={"turn": 1})
    old = storage.write(saved)
    kept = old.read_bytes()
    new = storage.write(saved.evolve(timestamp=NOON + timedelta(seconds=1), state={"turn": 2}))
    old.write_bytes(kept)
    fresh = FileCheckpointStorage(storage.directory)
    assert fresh.entries() == [new]
    assert fresh.path_of(saved.id) == new


def test_writers_in_two_processes_give_different_numbers_and_names(tmp_path):
    program = (
        "import sys\nfrom holdfast.storage.files import FileCheckpointStorage\n"
        "from holdfast.testing.samples import checkpoint, NOON\n"
        "storage = FileCheckpointStorage(sys.argv[1])\n"
        "for _ in range(15): storage.write(checkpoint(timestamp=NOON))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    storage = FileCheckpointStorage(tmp_path)
    numbers = [storage.read(path).commit_number for path in storage.entries()]
    assert numbers == list(range(30, 0, -1))


# --- home-made files


async def test_a_home_made_file_is_read_as_not_verified(storage):
    path = put(storage, "agent-3_20260301120000_routine.checkpoint", HOME_MADE)
    [listed] = await storage.list_by_agent("agent-3", 10, 0)
    assert (listed.kind, listed.verified, listed.user_id, listed.timestamp) == ("routine", False, "default", NOON)
    assert listed.id.startswith("chk_")
    loaded = await FileCheckpointStorage(storage.directory).load(listed.id)
    assert loaded is not None
    assert loaded.state == {"memory": ["a"]}
    assert storage.read(path) == loaded
    assert (await storage.verify()).ok


def test_home_made_files_are_in_the_order_of_their_moments_and_older_than_numbered_ones(storage):
    second = put(storage, "b.checkpoint", {**HOME_MADE, "timestamp": NOON.timestamp() + 1})
    first = put(storage, "a.checkpoint", {**HOME_MADE, "timestamp": "2026-03-01T12:00:00Z"})
    numbered = storage.write(checkpoint("agent-3", timestamp=NOON - timedelta(days=9)))
    assert storage.entries("agent-3") == [numbered, second, first]


@pytest.mark.parametrize("missing", sorted(HOME_MADE))
async def test_a_file_without_a_needed_key_is_damaged(storage, missing):
    path = put(storage, "x.checkpoint", {key: value for key, value in HOME_MADE.items() if key != missing})
    with pytest.raises(Corrupt, match=missing):
        storage.read(path)
    assert [damage.reason.count(missing) for damage in (await storage.verify()).damaged] == [1]


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "null",
        "[" * 100_000,
        '{"a": 1',
        "\udcff",
        {**HOME_MADE, "state": []},
        {**HOME_MADE, "agent_id": 3},
        {**HOME_MADE, "timestamp": "yesterday"},
        {**HOME_MADE, "timestamp": 1e300},
        {**HOME_MADE, "timestamp": None},
        {**HOME_MADE, "commit_number": "9"},
        {**HOME_MADE, "integrity": {"algorithm": "none"}},
        {**HOME_MADE, "integrity": {"algorithm": "sha256", "hash": "00"}},
    ],
)
async def test_a_file_that_is_no_checkpoint_is_named_and_hides_no_other(storage, document, caplog):
    whole = storage.write(checkpoint())
    storage.directory.joinpath("x.checkpoint").write_bytes(
        document.encode("utf-8", "surrogateescape") if isinstance(document, str) else json.dumps(document).encode()
    )
    path = storage.directory / "x.checkpoint"
    with pytest.raises(Corrupt) as refused:
        storage.read(path)
    assert refused.value.path == str(path)
    assert [one.agent_id for one in await storage.list_by_user("user", 10, 0)] == ["agent"]
    assert storage.entries("agent") == [whole]
    report = await storage.verify()
    assert [str(path) in damage.reason for damage in report.damaged] == [True]
    assert len(report.whole) == 1
    assert str(path) in caplog.text


# --- damage


async def test_whatever_asks_for_a_damaged_state_is_told_its_file_and_agent(storage, caplog):
    kept = checkpoint(state={"kept": 1})
    storage.write(kept)
    saved = checkpoint(state={"secret": "agent"})
    path = storage.write(saved)
    damage(path, b'"secret": "agent"', b'"secret": "Agent"')
    for fresh in (storage, FileCheckpointStorage(storage.directory)):
        for ask in (fresh.list_by_user("user", 10, 0), fresh.list_by_agent("agent", 1, 0)):
            with pytest.raises(Corrupt) as refused:
                await ask
            assert (refused.value.checkpoint_id, refused.value.path) == (saved.id, str(path))
            assert refused.value.agent_id == "agent"
        with pytest.raises(Corrupt):
            fresh.entries("agent")
        with pytest.raises(Corrupt) as refused:
            await fresh.load(saved.id)
        assert (refused.value.checkpoint_id, refused.value.path) == (saved.id, str(path))
        assert (await fresh.load(kept.id)).state == {"kept": 1}, "what is whole can be loaded"
        [named] = (await fresh.verify()).damaged
        assert (named.id, named.agent_id) == (saved.id, "agent")
    assert str(path) in caplog.text
    assert path.exists(), "what is damaged is kept"


async def test_damage_behind_a_listings_back_is_found_by_verify(storage):
    saved = checkpoint(state={"value": "a" * 100})
    path = storage.write(saved)
    assert len(await storage.list_by_user("user", 10, 0)) == 1
    status = path.stat()
    with path.open("r+b") as file:  # the same inode, size and time: as a disk would
        data = file.read()
        file.seek(data.index(b"aaaa"))
        file.write(b"aaab")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [named.id for named in (await storage.verify()).damaged] == [saved.id]


async def test_a_truncated_file_is_remembered_by_its_id(storage):
    saved = checkpoint(state={"value": "a" * 1000})
    path = storage.write(saved)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(Corrupt) as refused:
        await storage.load(saved.id)
    assert refused.value.checkpoint_id == saved.id


async def test_damage_of_one_agent_is_no_other_agents(storage):
    others = [checkpoint("other", user_id="her"), checkpoint("third")]
    for one in others:
        storage.write(one)
    storage.write(checkpoint("agent"))
    storage.write(checkpoint("agent")).write_text("{}")
    assert [one.id for one in await storage.list_by_agent("other", 10, 0)] == [others[0].id]
    assert [one.id for one in await storage.list_by_agent("third", 10, 0)] == [others[1].id]
    assert [one.id for one in await storage.list_by_user("her", 10, 0)] == [others[0].id]
    with pytest.raises(Corrupt):
        await storage.list_by_user("user", 10, 0)


async def test_a_damaged_file_of_an_agent_that_nobody_else_knows_may_be_anybodys(storage):
    storage.write(checkpoint("agent"))
    alone = storage.write(checkpoint("alone", user_id="her"))
    damage(alone, b'"her"', b'"hex"')
    for user_id in ("her", "user"):
        with pytest.raises(Corrupt) as refused:
            await storage.list_by_user(user_id, 10, 0)
        assert refused.value.agent_id == "alone"
    alone.unlink()
    assert len(await storage.list_by_user("user", 10, 0)) == 1


async def test_who_has_saved_before_goes_on_saving_and_who_has_not_is_told(storage):
    manager = CheckpointManager(storage)
    agent, other = Agent("ada"), Agent("bob")
    await manager.save(agent)
    second = await manager.save(agent)
    damage(storage.path_of(second), b'"steps"', b'"stops"')
    third = await manager.save(agent)
    assert (await manager.load(third)).position == 3
    assert await manager.save(other)
    newcomer = CheckpointManager(FileCheckpointStorage(storage.directory))
    for ask in (lambda: newcomer.latest("ada"), lambda: newcomer.save(Agent("ada"))):
        with pytest.raises(Corrupt, match="ada"):
            await ask()
    assert await newcomer.save(other)
    storage.path_of(second).unlink()
    assert (await newcomer.latest("ada")).id == third


@pytest.mark.parametrize("at", range(0, 1200, 37))
async def test_no_flipped_bit_goes_unnoticed(storage, at):
    storage.write(checkpoint("other", user_id="her"))
    saved = checkpoint(state={"value": "a" * 200})
    path = storage.write(saved)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.write_bytes(data)
    try:
        read = storage.read(path)
    except Corrupt:
        assert not (await storage.verify()).ok
        for ask in (storage.list_by_agent("agent", 1, 0), storage.list_by_user("user", 1, 0)):
            with pytest.raises(Corrupt, match="agent"):
                await ask
        assert len(await storage.list_by_agent("other", 9, 0)) == 1
    else:
        # Only a space may have become another character that JSON passes over, or the integrity another key.
        assert read.evolve(verified=True) == saved.evolve(commit_number=1)


def test_a_warning_comes_once_for_a_damaged_file(storage, caplog):
    put(storage, "x.checkpoint", "{")
    with caplog.at_level(logging.WARNING, "holdfast"):
        storage.entries()
        storage.entries()
    assert len(caplog.records) == 1


async def test_a_damaged_file_can_be_deleted_by_its_id(storage):
    saved = checkpoint()
    damage(storage.write(saved))
    assert await storage.delete(saved.id)
    assert (await storage.verify()).ok


# --- the folder


async def test_other_files_are_left_alone(storage):
    storage.write(checkpoint())
    for name in ("notes.txt", "README", ".checkpoint", "x.checkpoint.bak"):
        put(storage, name, "not json")
    (storage.directory / "folder.checkpoint").mkdir()
    storage.write(checkpoint())
    assert len(storage.entries()) == 2
    assert (await storage.verify()).ok
    assert sorted(path.name for path in storage.directory.iterdir() if "agent" not in path.name) == [
        ".checkpoint", ".holdfast.lock", "README", "folder.checkpoint", "notes.txt", "x.checkpoint.bak",
    ]  # fmt: skip


def test_what_a_crash_left_is_ignored_and_later_removed(storage):
    storage.write(checkpoint())
    old = put(storage, ".agent_x_manual.checkpoint.0123456789ab.tmp", "{")
    young = put(storage, ".agent_y_manual.checkpoint.0123456789ab.tmp", "{")
    mine = put(storage, ".vimrc.tmp", "{")
    for path in (old, mine):
        os.utime(path, (0, 0))
    assert len(storage.entries()) == 1
    storage.write(checkpoint())
    assert (old.exists(), young.exists(), mine.exists()) == (False, True, True)


async def test_what_another_object_does_is_seen_at_once(storage):
    other = FileCheckpointStorage(str(storage.directory))
    saved = checkpoint()
    storage.write(saved)
    assert len(other.entries()) == 1
    storage.write(saved.evolve(state={"turn": 2}))
    loaded = await other.load(saved.id)
    assert loaded is not None
    assert loaded.state == {"turn": 2}
    await storage.delete(saved.id)
    assert await other.load(saved.id) is None
    assert other.entries() == []


def test_an_unknown_path_is_an_unknown_checkpoint(storage):
    with pytest.raises(UnknownCheckpoint) as refused:
        storage.load_path(storage.directory / "none.checkpoint")
    assert refused.value.path is not None


async def test_a_folder_that_is_none_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    storage = FileCheckpointStorage(tmp_path / "file")
    with pytest.raises(StorageFailed):
        await storage.list_by_user("user", 1, 0)
    with pytest.raises(StorageFailed):
        await storage.save(checkpoint())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cant_be_written_to_says_so(storage):
    storage.write(checkpoint())
    storage.directory.chmod(0o500)
    try:
        with pytest.raises(ReadOnly):
            storage.write(checkpoint())
        assert len(storage.entries()) == 1
    finally:
        storage.directory.chmod(0o700)

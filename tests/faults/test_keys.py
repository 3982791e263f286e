"""A crash in the middle of changing keys, or of putting a backup in place, leaves a store that opens."""

import shutil
from asyncio import to_thread

import pytest

from holdfast.errors import KeyMissing, StorageFailed, Unopenable
from holdfast.history.records import snapshot_of
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.backup import restore_backup
from holdfast.storage.sqlite.rekey import reset
from holdfast.testing.samples import continued, save
from tests.faults.children import line, running
from tests.faults.stores import answers, copied, refused, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

# Every step that changes the disk for good goes through one of these; the child dies before the n-th of them.
DIES_BEFORE_STEP = """
import apsw, itertools, signal
left = int(sys.argv[2])
def step(real):
    def stepped(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return stepped
for name in ("replace", "unlink", "rename", "link"):
    setattr(os, name, step(getattr(os, name)))
class Dying(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("unix", name, flags)
    def xWrite(self, data, offset):
        step(super().xWrite)(data, offset)
    def xSync(self, flags):
        step(super().xSync)(flags)
class DyingVFS(apsw.VFS):
    def __init__(self):
        super().__init__("dying", "unix", makedefault=True)
    def xOpen(self, name, flags):
        return Dying(name, flags)
vfs = DyingVFS()
"""

ROTATES = (
    DIES_BEFORE_STEP
    + """
async def main():
    store = SQLiteCheckpointStorage(path)
    global left
    left = -1
    await continued(store, "ada", user_id="first")
    left = int(sys.argv[2])
    await store.rotate_key()
    await continued(store, "ada", user_id="first")
    say("done")
asyncio.run(main())
"""
)

RESETS = (
    DIES_BEFORE_STEP
    + """
from holdfast.storage.sqlite.rekey import reset
reset(SQLiteCheckpointStorage(path).settings)
say("done")
"""
)

RESTORES = (
    DIES_BEFORE_STEP
    + """
from holdfast.storage.sqlite.backup import restore_backup
restore_backup(sys.argv[3], path, overwrite=True)
say("done")
"""
)


def run_until(program, step, path, *arguments):
    """Whether the child got to its end before that step."""
    with running(program, path, step, *arguments) as child:
        said = child.communicate()[0]
        assert child.returncode in (0, -9), said
        return child.returncode == 0


def some_steps():
    """The first ones each, then ever fewer."""
    step = 1
    while True:
        yield step
        step += 1 + step // 2


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    path = await small_store(tmp_path_factory.mktemp("keys"))
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    await store.close()
    return path, right


async def test_a_crash_while_a_key_is_added_leaves_a_store_that_opens(original, tmp_path):
    done = False
    for step in some_steps():
        path = copied(original[0], tmp_path / str(step))
        done = run_until(ROTATES, step, path)
        store = SQLiteCheckpointStorage(path)
        await continued(store, "ada", user_id="first")
        report = await store.verify()
        assert report.ok, (step, report.damaged)
        fingerprints = (await store.stats())["keys"]
        assert len(fingerprints) in ((2,) if done else (1, 2))
        await store.close()
        if done:
            break
    assert step > 5


async def test_a_crash_while_keys_are_reset_leaves_the_old_store_or_the_new(original, tmp_path):
    outcomes = set()
    for step in some_steps():
        path = copied(original[0], tmp_path / str(step))
        key = path.with_name("store.db.key")
        key.unlink()
        done = run_until(RESETS, step, path)
        store = SQLiteCheckpointStorage(path)
        given = await answers(store)
        assert not refused(given), step
        assert (await store.verify()).ok
        try:
            await continued(store, "ada", user_id="first")
            outcomes.add("new")
        except KeyMissing:
            outcomes.add("old")
            assert wrong(given, original[1]) == []
            await store.close()
            shutil.copyfile(f"{original[0]}.key", key)  # and with the old key it is the old store
            store = SQLiteCheckpointStorage(path)
            await continued(store, "ada", user_id="first")
        assert (await store.verify()).ok
        await store.close()
        assert not path.with_name("store.db.key.new").exists()
        if done:
            break
    assert outcomes == {"old", "new"}


async def test_a_crash_while_a_backup_is_put_in_place_leaves_the_old_store_or_the_new(original, tmp_path):
    other = tmp_path / "other" / "store.db"
    backup = tmp_path / "backup.db"
    store = SQLiteCheckpointStorage(other)
    await save(store, id="chk-other")
    await store.backup(backup)
    await store.close()
    outcomes = set()
    for step in some_steps():
        path = copied(original[0], tmp_path / str(step))
        done = run_until(RESTORES, step, path, backup)
        store = SQLiteCheckpointStorage(path)
        is_new = await store.fetch("chk-other") is not None
        assert is_new or wrong(await answers(store), original[1]) == []
        assert (await store.verify()).ok
        await continued(store, "agent")
        await store.close()
        outcomes.add(is_new)
        if done:
            break
    assert outcomes == {False, True}


async def test_a_lost_key_is_reset_and_everything_confirmed_is_there(original, tmp_path):
    path = copied(original[0], tmp_path)
    path.with_name("store.db.key").unlink()
    with pytest.raises(Unopenable):
        await to_thread(reset, SQLiteCheckpointStorage(tmp_path / "other.db").settings)
    result = await to_thread(reset, SQLiteCheckpointStorage(path).settings)
    assert result["unconfirmed"] == ()
    assert result["snapshots_dropped"] == 5
    assert result["checkpoints"] == len(original[1]["list"])
    store = SQLiteCheckpointStorage(path)
    given = await answers(store)
    assert not refused(given)
    changed = {name for name, answer in original[1].items() if given[name] != answer}
    gone = ("history of bob", "history of dee", "snapshot")
    assert all("agent" in name or name.startswith(gone) for name in changed), "epochs go on, snapshots are gone"
    assert {snapshot_of(one) for one in await store.read("bob")} == {None}
    assert (await store.verify()).ok
    for agent in ("ada", "ada-fork", "cy"):
        await continued(store, agent, user_id="first")
    assert (await store.verify()).ok
    with pytest.raises(StorageFailed):
        await to_thread(reset, store.settings)
    await store.close()


async def test_what_the_hashes_do_not_confirm_stays_corrupt_and_is_named(original, tmp_path):
    import apsw

    path = copied(original[0], tmp_path)
    path.with_name("store.db.key").unlink()
    db = apsw.Connection(str(path))
    db.execute("UPDATE records SET body = zeroblob(80) WHERE key = ?", ((1 << 32) + 20,))
    db.execute("UPDATE inbox SET body = zeroblob(80) WHERE key = ?", ((3 << 32) + 2,))
    db.close()
    settings = SQLiteCheckpointStorage(path, key="a secret that is long enough").settings
    result = await to_thread(reset, settings)
    named = [(damage.kind, damage.id) for damage in result["unconfirmed"]]
    assert result["key_file"] is None
    assert named == [("record", "20"), ("checkpoint", "20"), ("inbox", "2")]
    store = SQLiteCheckpointStorage(path, key="a secret that is long enough")
    report = await store.verify()
    assert {(damage.kind, damage.seq) for damage in report.damaged} >= {("record", 20), ("inbox", 2)}
    assert {one.id for one in original[1]["list"]} - set(report.whole) == {"chk-19"}
    await store.close()


async def test_another_process_notices_a_new_key(tmp_path):
    path = tmp_path / "store.db"
    one, other = SQLiteCheckpointStorage(path), SQLiteCheckpointStorage(path)
    reader = SQLiteCheckpointStorage(path, read_only=True)
    await save(one)
    await save(other, "other")
    assert len(await reader.list(Query())) == 2
    assert await one.rotate_key() == 2
    await continued(other, "other")
    await continued(one)
    assert len(await reader.list(Query())) == 4
    assert (await other.stats())["key_current"] == 2
    assert (await other.verify()).ok
    for store in (one, other, reader):
        await store.close()
    assert path.with_name("store.db.key").stat().st_mode & 0o777 == 0o600


async def test_restoring_over_a_store_in_use_is_refused(original, tmp_path):
    target = copied(original[0], tmp_path)
    store = SQLiteCheckpointStorage(target)
    await continued(store, "ada", user_id="first")
    backup = tmp_path / "backup.db"
    made = await store.backup(backup)
    assert made["key_file"] == f"{backup}.key"
    with pytest.raises(StorageFailed, match="in use"):
        await to_thread(restore_backup, backup, target, overwrite=True)
    await store.close()
    program = """
    store = SQLiteCheckpointStorage(path, read_only=sys.argv[2] == "reader")
    asyncio.run(store.list(Query()))
    say("open")
    sys.stdin.readline()
    """
    with running(program, target, "writer") as child:
        assert line(child) == "open", child.communicate()
        with pytest.raises(StorageFailed, match="in use"):
            await to_thread(restore_backup, backup, target, overwrite=True)
    made = await to_thread(restore_backup, backup, target, overwrite=True)
    assert made["key_file"] == f"{target}.key"
    store = SQLiteCheckpointStorage(target)
    assert (await store.verify()).ok
    await store.close()

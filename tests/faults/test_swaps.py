"""Somebody who can write to the file but has no key: nothing of what he moves about is taken for what it was."""

import apsw
import pytest

from holdfast.errors import HoldfastError
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.stores import answers, copied, refused, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

ADA, FORK, BOB, CY, DEE = 1, 2, 3, 4, 6


def key(agent, seq):
    return agent << 32 | seq


def swap(table, column, one, other):
    body = f"SELECT {column} FROM {table} WHERE key ="
    return [
        f"CREATE TEMP TABLE kept AS {body} {one}",
        f"UPDATE {table} SET {column} = ({body} {other}) WHERE key = {one}",
        f"UPDATE {table} SET {column} = (SELECT * FROM kept) WHERE key = {other}",
    ]


TAMPERINGS = {
    "two records swapped": swap("records", "body", key(ADA, 10), key(ADA, 11)),
    "records of two agents swapped": swap("records", "body", key(ADA, 1), key(BOB, 1)),
    "a record taken out": [f"DELETE FROM records WHERE key = {key(ADA, 20)}"],
    "the end of a history cut off": [f"DELETE FROM records WHERE key > {key(ADA, 60)} AND key < {key(FORK, 0)}"],
    "a history's last record cut off": [f"DELETE FROM records WHERE key = {key(BOB, 5)}"],
    "a record put in again at the end": [
        f"INSERT INTO records SELECT {key(BOB, 6)}, body FROM records WHERE key = {key(BOB, 5)}"
    ],
    "two heads of checkpoints swapped": swap("checkpoints", "head", key(ADA, 4), key(ADA, 5)),
    "heads of two agents' checkpoints swapped": swap("checkpoints", "head", key(ADA, 1), key(BOB, 1)),
    "two states swapped": swap("checkpoints", "state", key(ADA, 66), key(ADA, 67)),
    "states of two agents swapped": swap("checkpoints", "state", key(ADA, 66), key(BOB, 1)),
    "a segment cut short": ["UPDATE segments SET body = CAST(substr(body, 1, 40) AS BLOB)"],
    "a segment lost": ["DELETE FROM segments"],
    "a checkpoint taken out of every list": [f"DELETE FROM checkpoints WHERE key = {key(ADA, 30)}"],
    "a checkpoint given to another user": [f"UPDATE checkpoints SET user = 2 WHERE key = {key(ADA, 30)}"],
    "a checkpoint called another kind": [f"UPDATE checkpoints SET kind = 3 WHERE key = {key(ADA, 30)}"],
    "a checkpoint moved to the top": [f"UPDATE checkpoints SET commit_number = 999 WHERE key = {key(ADA, 30)}"],
    "an id lost": ["DELETE FROM ids WHERE id = CAST(x'00' || 'chk-30' AS BLOB)"],
    "an id led astray": [f"UPDATE ids SET key = {key(ADA, 3)} WHERE id = CAST(x'00' || 'chk-30' AS BLOB)"],
    "the heads of two agents swapped": [
        "CREATE TEMP TABLE kept AS SELECT head FROM agents WHERE number = 1",
        "UPDATE agents SET head = (SELECT head FROM agents WHERE number = 2) WHERE number = 1",
        "UPDATE agents SET head = (SELECT * FROM kept) WHERE number = 2",
    ],
    "an agent taken out": ["DELETE FROM agents WHERE number = 4"],
    "an agent renamed": ["UPDATE agents SET id = 'nobody' WHERE number = 4"],
    "an agent given to another user": ["UPDATE agents SET user = 2 WHERE number = 1"],
    "two users swapped": [
        "UPDATE users SET id = 'kept' WHERE number = 1",
        "UPDATE users SET id = 'first' WHERE number = 2",
        "UPDATE users SET id = 'second' WHERE number = 1",
    ],
    "a member of a group lost": [f"DELETE FROM groups WHERE key = {key(ADA, 75)}"],
    "a member of a group led astray": [f"UPDATE groups SET key = {key(ADA, 67)} WHERE key = {key(ADA, 75)}"],
    "a member of a group lost with its row": [
        f"DELETE FROM groups WHERE key = {key(CY, 1)}",
        f"DELETE FROM checkpoints WHERE key = {key(CY, 1)}",
    ],
    "every member of a group lost": ["DELETE FROM groups"],
    "a checkpoint lost with its record and its id": [
        f"DELETE FROM {table} WHERE key = {key(ADA, 30)}" for table in ("records", "checkpoints", "ids")
    ],
    "a pending run forgotten": ["DELETE FROM pending WHERE what = 'run'"],
    "a pending run renamed": ["UPDATE pending SET name = 'other' WHERE what = 'run'"],
    "a finished operation pending again": [f"INSERT INTO pending VALUES ({key(ADA, 2)}, 'operation', 'chk-1')"],
    "all runs forgotten": ["DELETE FROM runs"],
    "an ended run forgotten": ["DELETE FROM runs WHERE name = 'run-2'"],
    "an ended run renamed": ["UPDATE runs SET name = 'other' WHERE name = 'run-2'"],
    "two runs swapped": [
        "UPDATE runs SET name = 'kept' WHERE name = 'run-2'",
        "UPDATE runs SET name = 'run-2' WHERE name = 'run-3'",
        "UPDATE runs SET name = 'run-3' WHERE name = 'kept'",
    ],
    "a run moved into another session": ["UPDATE runs SET session = 'none' WHERE name = 'run-3'"],
    "a run taken out of its session": ["UPDATE runs SET session = NULL WHERE name = 'run-3'"],
    "a run said to go on": ["UPDATE runs SET ended = NULL WHERE name = 'run-3'"],
    "a run said to have ended": ["UPDATE runs SET ended = 8 WHERE name = 'run-4'"],
    "a run's end moved": ["UPDATE runs SET ended = 8 WHERE name = 'run-2'"],
    "a run begun elsewhere": [f"UPDATE runs SET key = {key(DEE, 9)} WHERE name = 'run-4'"],
    "a run given to another agent": [f"UPDATE runs SET key = {key(CY, 1)} WHERE name = 'run-3'"],
    "a run put in": [f"INSERT INTO runs VALUES ({key(DEE, 10)}, 'none', NULL, NULL)"],
    "a run put in where there is none": [f"INSERT INTO runs VALUES ({key(CY, 1)}, 'none', 'none', NULL)"],
    "two messages swapped": swap("inbox", "body", key(BOB, 2), key(BOB, 3)),
    "a message lost": [f"DELETE FROM inbox WHERE key = {key(BOB, 3)}"],
    "a message put in": [f"INSERT INTO inbox SELECT {key(BOB, 4)}, body FROM inbox WHERE key = {key(BOB, 3)}"],
    "another snapshot": ["UPDATE snapshots SET body = zeroblob(100)"],
    "the store's head lost": ["UPDATE agents SET head = zeroblob(80) WHERE number = 0"],
    "a record of the store's lost": ["DELETE FROM records WHERE key < 1 << 32"],
}
HARMLESS = {  # beyond what the head accounts for nobody reads it, but verify names it
    "a message put in",
    "a record put in again at the end",
    "a run put in where there is none",
}


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    path = await small_store(tmp_path_factory.mktemp("swaps"))
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    await store.close()
    return path, right


@pytest.mark.parametrize("what", TAMPERINGS)
async def test_what_was_moved_about_is_an_error_and_verify_names_it(original, tmp_path, what):
    path, right = original
    path = copied(path, tmp_path)
    db = apsw.Connection(str(path))
    for statement in TAMPERINGS[what]:
        before = db.total_changes()
        db.execute(statement)
        assert statement.startswith("CREATE") or db.total_changes() > before, "this must change something"
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    store = SQLiteCheckpointStorage(path, read_only=True)
    given = await answers(store)
    assert wrong(given, right) == []
    report = await store.verify()
    assert not report.ok
    for id_ in report.whole:
        assert await store.fetch(id_) is not None
    for id_ in {one.id for one in right["list"]} - set(report.whole):
        with pytest.raises(HoldfastError):
            await store.fetch(id_)
    assert refused(given) or what in HARMLESS or "store's" in what
    await store.close()


async def test_a_head_from_an_older_copy_does_not_add_up(tmp_path):
    path = await small_store(tmp_path / "store")
    old = apsw.Connection(str(copied(path, tmp_path / "old")))
    [(head,)] = old.execute("SELECT head FROM agents WHERE id = 'cy'").fetchall()
    old.close()
    from holdfast.testing.samples import continued

    store = SQLiteCheckpointStorage(path)
    await continued(store, "cy", user_id="first")
    await store.close()
    db = apsw.Connection(str(path))
    db.execute("UPDATE agents SET head = ? WHERE id = 'cy'", (head,))
    db.execute(f"DELETE FROM records WHERE key = {key(4, 2)}")
    db.execute(f"DELETE FROM checkpoints WHERE key = {key(4, 2)}")
    db.execute(f"DELETE FROM ids WHERE key = {key(4, 2)}")
    db.close()
    store = SQLiteCheckpointStorage(path, read_only=True)
    report = await store.verify()
    assert [(damage.kind, damage.id) for damage in report.damaged][:2] == [("store", "head"), ("agent", "cy")]
    await store.close()


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET name = CAST(x'6b65793ae1' AS TEXT) WHERE name = 'key:1'",
        "UPDATE meta SET name = 'key:x' WHERE name = 'key:1'",
        "UPDATE meta SET value = CAST(x'f0f0' AS TEXT) WHERE name = 'store_id'",
        "UPDATE meta SET value = CAST(x'f0f0' AS TEXT) WHERE name = 'key:1'",
        "UPDATE meta SET value = 7 WHERE name = 'key:1'",
    ],
)
async def test_what_says_which_key_a_store_has_is_an_error_of_ours_when_it_is_damaged(
    original, tmp_path, statement, read_only
):
    path = copied(original[0], tmp_path)
    db = apsw.Connection(str(path))
    db.execute(statement)
    assert db.total_changes() == 1
    db.close()
    for ask in (lambda s: s.agents(), lambda s: s.verify(), lambda s: s.stats()):
        store = SQLiteCheckpointStorage(path, read_only=read_only)
        with pytest.raises(HoldfastError):
            await ask(store)
        await store.close()

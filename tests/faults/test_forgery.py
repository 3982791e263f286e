"""Somebody with the file, and with everything but the key, makes cells of his own or lets them change places."""

import asyncio
import random
from itertools import combinations

import apsw
import pytest

from holdfast.durable.runs.interpreter import Interpreter
from holdfast.durable.runs.runner import PythonRunner
from holdfast.errors import Corrupt
from holdfast.history import delta, patch
from holdfast.history.image import Image
from holdfast.history.records import RlmToolCall, UserMessage
from holdfast.storage import keys
from holdfast.storage.authenticity import HASH_BYTES, SEAL_BYTES, Ring
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.rows import Rows
from holdfast.testing.samples import NOON, commit, continued
from tests.faults.children import running
from tests.faults.outcomes import Outcomes
from tests.faults.report import LONG, tell
from tests.faults.stores import HARMLESS, REFUSED, answers, conversation, copied, outcome, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

CELLS = (
    ("agents", "number", "head"), ("records", "key", "body"), ("checkpoints", "key", "head"),
    ("checkpoints", "key", "state"), ("segments", "key", "body"), ("snapshots", "key", "body"),
    ("inbox", "key", "body"),
)  # fmt: skip
OTHER_KEY = bytes(range(32))


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    path = await small_store(tmp_path_factory.mktemp("forgery"))
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    await store.close()
    return path, right


def ring_of(path):
    return keys.parse_ring(keys.key_path(path).read_text(), source="the key file")


def edit(path, *statements):
    db = apsw.Connection(str(path))
    for statement, arguments in statements:
        db.execute(statement, arguments)
    changed = db.total_changes()
    db.close()
    return changed


@pytest.mark.slow
@pytest.mark.timeout(7200 if LONG else 20)
async def test_no_cell_is_taken_for_another(original, tmp_path):
    """Two cells of a table change places, within an agent or between two; what was said differs, or nothing does."""
    path, right = original
    damaged = copied(path, tmp_path)
    data = path.read_bytes()
    db = apsw.Connection(str(damaged))
    pairs = []
    for table, key, column in CELLS:
        rows = db.execute(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
        found = [(table, key, column, one, other) for one, other in combinations(rows, 2) if one[1] != other[1]]
        pairs += found if LONG else random.Random(table).sample(found, min(len(found), 6))
    db.close()
    outcomes = Outcomes()
    for table, key, column, one, other in pairs:
        damaged.write_bytes(data)
        update = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
        assert edit(damaged, (update, (other[1], one[0])), (update, (one[1], other[0]))) == 2
        await outcomes.add(damaged, right, (table, column, one[0], other[0]))
    tell("Cells that change places", "Every two cells of a table, of one agent or of two.", **outcomes.figures())
    assert outcomes.wrong == []
    assert not outcomes.count[HARMLESS]
    assert outcomes.total >= 30


async def test_no_segment_is_taken_for_another(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db", max_checkpoints_per_user=None)
    saved = {}
    for agent in ("ada", "bob"):
        for n in range(140):
            saved[f"{agent}-{n}"] = conversation(n)
            await continued(store, agent, id=f"{agent}-{n}", user_id="first", state=conversation(n))
    await store.close()
    path = tmp_path / "store.db"
    data, damaged = path.read_bytes(), copied(path, tmp_path / "damaged")
    db = apsw.Connection(str(copied(path, tmp_path / "looked at")))
    rows = db.execute("SELECT key, body FROM segments").fetchall()
    db.close()
    assert len(rows) == 4
    for one, other in combinations(rows, 2):
        damaged.write_bytes(data)
        update = "UPDATE segments SET body = ? WHERE key = ?"
        assert edit(damaged, (update, (other[1], one[0])), (update, (one[1], other[0]))) == 2
        store = SQLiteCheckpointStorage(damaged, read_only=True)
        refusals = 0
        for id_ in [*saved][::20]:
            try:
                assert (await store.fetch(id_))[1].decode() == saved[id_]
            except Corrupt:
                refusals += 1
        assert refusals
        assert not (await store.verify()).ok
        await store.close()


async def test_no_cell_of_an_older_copy_is_taken_for_what_came_after_it(tmp_path):
    """Each by itself: all cells of an older copy were made with the key, for the very place to which they go back.

    A state that is put back is the one that its record says, however it is kept; a head is not the agent's any more.
    """
    path = await small_store(tmp_path / "store")
    older = copied(path, tmp_path / "older")
    store = SQLiteCheckpointStorage(path)
    for n in range(70, 135):  # so that states move into a segment, and one that was there is made anew
        await continued(store, "ada", id=f"chk-{n}", user_id="first", state=conversation(n))
    await commit(store, "ada", user_id="first", delete=("chk-20",))
    await commit(store, "bob", user_id="second", acknowledge=3)
    await store.send("bob", "second", "one more", sender="ada")
    await store.collect_garbage()
    right = await answers(store)
    await store.close()
    data, damaged = path.read_bytes(), copied(path, tmp_path / "damaged")
    db = apsw.Connection(str(older))
    db.execute("ATTACH ? AS newer", (str(damaged),))
    found = [
        (table, key, column, number, cell)
        for table, key, column in CELLS
        for number, cell in db.execute(
            f"SELECT o.{key}, o.{column} FROM main.{table} o JOIN newer.{table} n ON n.{key} = o.{key}"
            f" WHERE o.{column} IS NOT NULL AND o.{column} IS NOT n.{column}"
        ).fetchall()
    ]
    db.close()
    assert {(table, column) for table, _, column, *_ in found} >= {
        ("agents", "head"), ("segments", "body")
    }  # fmt: skip
    heads, contents = [one for one in found if one[0] == "agents"], [one for one in found if one[0] != "agents"]
    outcomes = {}
    for table, key, column, number, cell in heads + (contents if LONG else contents[-2:]):
        damaged.write_bytes(data)
        assert edit(damaged, (f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (cell, number))) == 1
        outcomes[table, column, number] = await outcome(damaged, right, (table, column, number))
    assert [outcomes["agents", "head", number] for number in (0, 1, 3)] == [REFUSED] * 3


# --- cells made with a key


def forged_state(db, cells):
    key, base = (1 << 32) + 66, None
    state = delta.encode(Image.of({"step": "forged"}), None)
    return "UPDATE checkpoints SET state = ? WHERE key = ?", (cells.pack_bytes(b"state", key, base, state), key)


def forged_head(db, cells):
    """Another checkpoint's metadata; the head of a checkpoint has no hash in its record."""
    key = (1 << 32) + 66
    user, number, kind, other = db.execute(
        "SELECT user, commit_number, kind, (SELECT head FROM checkpoints WHERE key = ?) FROM checkpoints"
        " WHERE key = ?", (key - 3, key),
    ).fetchall()[0]  # fmt: skip
    return "UPDATE checkpoints SET head = ? WHERE key = ?", (
        cells.pack_checkpoint(key, user, number, kind, other[SEAL_BYTES:]), key,
    )  # fmt: skip


def forged_snapshot(db, cells):
    key = (3 << 32) + 4
    assert db.execute("SELECT base FROM snapshots WHERE key = ?", (key,)).fetchall() == [(None,)]
    body = cells.pack_bytes(b"snapshot", key, None, patch.encode(b"forged", None))
    return "UPDATE snapshots SET body = ? WHERE key = ?", (body, key)


def forged_message(db, cells):
    key = (3 << 32) + 2
    [(cell,)] = db.execute("SELECT body FROM inbox WHERE key = ?", (key,)).fetchall()
    data = cell[SEAL_BYTES + HASH_BYTES :].replace(b"\x81\xa1n\x01", b"\x81\xa1n\x07")
    assert data != cell[SEAL_BYTES + HASH_BYTES :]
    return "UPDATE inbox SET body = ? WHERE key = ?", (cells.pack_message(key, data), key)


def forged_record(db, cells):
    """The last record of an agent, in the chain of those before."""
    row = Rows(db, cells).agent_numbered(3) if cells.ring.keys[1] != OTHER_KEY else None
    seq = row.head.seq if row else 5
    chain = db.execute("SELECT substr(body, 2, 16) FROM records WHERE key = ?", ((3 << 32) + seq - 1,)).fetchall()[0][0]
    record = UserMessage(seq=seq, content="forged")
    cell, _ = cells.pack_record((3 << 32) + seq, chain, record, commit_number=75, at=NOON)
    return "UPDATE records SET body = ? WHERE key = ?", (cell, (3 << 32) + seq)


def forged_agent(db, cells):
    """An agent that is said to be somewhere else; with the right key it must add up in the store's head as well."""
    user, cell = db.execute("SELECT user, head FROM agents WHERE number = 4").fetchall()[0]
    return "UPDATE agents SET head = ? WHERE number = 4", (
        cells.ring.seal(b"agent", cells._agent_place(4, user, "cy", "first"), cell[SEAL_BYTES:-1] + b"\x05"),
    )  # fmt: skip


FORGERIES = (forged_state, forged_head, forged_snapshot, forged_message, forged_record, forged_agent)


async def forged(original, tmp_path, make, key):
    path, right = original
    damaged = copied(path, tmp_path)
    db = apsw.Connection(str(damaged))
    [(store_id,)] = db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchall()
    db.execute(*make(db, Cells(Ring({1: key}), store_id)))
    assert db.total_changes() == 1
    db.close()
    return damaged, right


@pytest.mark.parametrize("make", FORGERIES)
async def test_what_was_made_without_the_key_is_refused_and_named(original, tmp_path, make):
    damaged, right = await forged(original, tmp_path, make, OTHER_KEY)
    assert await outcome(damaged, right, make.__name__) != HARMLESS


@pytest.mark.parametrize("make", [forged_head, forged_message])
async def test_who_can_read_the_key_can_forge(original, tmp_path, make):
    """The positive control: what the key alone protects is believed with the key, so these forgeries are good ones."""
    ring = ring_of(original[0])
    damaged, right = await forged(original, tmp_path, make, ring.keys[1])
    store = SQLiteCheckpointStorage(damaged, read_only=True)
    assert wrong(await answers(store), right)
    await store.close()


# --- a snapshot is code

PROGRAM = "total = 0\nfor n in range(4):\n    total += await double(n)\ntotal"
LEFT_BEHIND = """
from holdfast import PythonRunner
async def double(n: int) -> int:
    if n == 3 and sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
    return n * 2
async def main():
    runner = PythonRunner(SQLiteCheckpointStorage(path), tools=[double], type_check=False)
    result = await runner.run("a", sys.argv[3], "call_1")
    say("done", result.output)
    await runner.close()
asyncio.run(main())
"""


def double(n: int) -> int:
    return n * 2


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A store with a run that was killed in its last call, and another store whose run asks for other numbers."""
    paths = []
    for name, code in (("one", PROGRAM), ("other", PROGRAM.replace("total = 0", "total = 1000"))):
        path = tmp_path_factory.mktemp("killed") / f"{name}.db"
        with running(LEFT_BEHIND, path, "killed", code) as child:
            assert child.wait() == -9
        asyncio.run(log_emptied(path))  # so that one file can be copied
        paths.append(path)
    return paths


@pytest.fixture
def left(killed, tmp_path):
    return [copied(path, tmp_path) for path in killed]


async def log_emptied(path):
    store = SQLiteCheckpointStorage(path)
    await store.agents()
    await store.close()


async def snapshots_of(path):
    store = SQLiteCheckpointStorage(path, read_only=True)
    found = [record for record in await store.read("a") if isinstance(record, RlmToolCall) and record.snapshot]
    await store.close()
    return {record.seq: record.snapshot for record in found}


@pytest.mark.parametrize("way", ["another key", "no key", "another store's cell", "the right key", "nothing"])
async def test_no_snapshot_that_was_made_without_the_key_reaches_the_interpreter(left, monkeypatch, way):
    path, other = left
    mine, theirs = await snapshots_of(path), await snapshots_of(other)
    newest = max(mine)
    db = apsw.Connection(str(other))
    foreign = dict(db.execute("SELECT key, body FROM snapshots").fetchall())[(1 << 32) + max(theirs)]
    db.close()
    db = apsw.Connection(str(path))
    [(store_id,)] = db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchall()
    key = (1 << 32) + newest
    made = patch.encode(theirs[max(theirs)], None)
    cell = {
        "another key": Cells(Ring({1: OTHER_KEY}), store_id).pack_bytes(b"snapshot", key, None, made),
        "no key": bytes(SEAL_BYTES) + made,
        "another store's cell": foreign,
        "nothing": b"",  # the positive control: it is loaded when nobody touched it
        "the right key": Cells(ring_of(path), store_id).pack_bytes(b"snapshot", key, None, made),
    }[way]
    if way != "nothing":
        db.execute("UPDATE snapshots SET body = ?, base = NULL WHERE key = ?", (cell, key))
        assert db.total_changes() == 1
    db.close()
    loaded = []
    load = Interpreter._load
    monkeypatch.setattr(Interpreter, "_load", lambda self, seat, data: (loaded.append(data), load(self, seat, data))[1])
    store = SQLiteCheckpointStorage(path)
    assert (await store.verify()).ok == (way == "nothing")
    runner = PythonRunner(store, tools=[double], type_check=False)
    [result] = await runner.recover()
    # The call that was cut short is an error in the program, and its error is the run's.
    assert "Process was restarted" in result.error
    assert set(loaded) <= set(mine.values()), "only what this store's key vouches for"
    assert theirs[max(theirs)] not in loaded
    assert (mine[newest] in loaded) == (way == "nothing")
    await runner.close()


def test_the_snapshots_of_the_two_runs_differ(left):
    """Else the test above would show nothing."""
    mine, theirs = (asyncio.run(snapshots_of(path)) for path in left)
    assert mine
    assert not set(mine.values()) & set(theirs.values())

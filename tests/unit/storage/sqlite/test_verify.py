"""Verify names each damaged thing and hides none behind another."""

import apsw
import pytest

from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.schema import key_of
from holdfast.testing.runs import begun, called, ended
from holdfast.testing.samples import commit, continued, save, saving

SAVES = 130  # two segments, and two states that lie open


@pytest.fixture
async def path(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    for n in range(1, SAVES + 1):
        await continued(store, id=f"chk-{n}", state={"n": n, "log": list(range(n))})
    await save(store, "fork", id="chk-fork", fork_of="chk-40", parent="chk-40", state={"n": 40, "log": [*range(40)]})
    await commit(store, delete=("chk-20",))
    await store.commit(saving("a", id="chk-a", group_id="grp"), saving("b", id="chk-b", group_id="grp"))
    await store.send("a", "user", "hello", sender="me")
    await store.close()
    return store.path


async def verified(path, *statements, key=True):
    if statements:
        db = apsw.Connection(str(path))
        for statement in statements:
            db.execute(statement)
        db.close()
    if not key:
        path.with_name("store.db.key").unlink()
    store = SQLiteCheckpointStorage(path, read_only=True)
    report = await store.verify()
    await store.close()
    return report


def named(report, kind):
    return [damage.id for damage in report.damaged if damage.kind == kind]


@pytest.mark.parametrize("key", [True, False], ids=["with its key", "without its key"])
async def test_a_sound_store_is_whole(path, key):
    report = await verified(path, key=key)
    assert report.ok
    assert (report.checkpoints, report.records) == (SAVES + 2, SAVES + 5)
    assert set(report.whole) == {f"chk-{n}" for n in range(1, SAVES + 1) if n != 20} | {"chk-fork", "chk-a", "chk-b"}


async def test_every_checkpoint_of_a_damaged_segment_is_named_and_those_that_build_on_it(path):
    report = await verified(path, f"UPDATE segments SET body = zeroblob(900) WHERE key = {key_of(1, 64)}")
    lost = {f"chk-{n}" for n in range(1, 65) if n != 20}
    assert lost <= set(named(report, "state"))
    assert "chk-fork" in named(report, "state"), "it builds on one of them"
    assert {"chk-a", "chk-b"} <= set(report.whole)
    assert not named(report, "record")


async def test_a_damaged_record_is_named_alone_and_the_chain_goes_on_behind_it(path):
    report = await verified(
        path, f"UPDATE records SET body = CAST(substr(body, 1, 33) || 'other' AS BLOB) WHERE key = {key_of(1, 30)}"
    )
    assert named(report, "record") == ["30"]
    assert named(report, "checkpoint") == ["chk-30"]
    assert "chk-31" in report.whole


async def test_missing_records_are_one_finding_and_the_next_one_is_not_believed(path):
    report = await verified(path, f"DELETE FROM records WHERE key BETWEEN {key_of(1, 50)} AND {key_of(1, 59)}")
    assert named(report, "record") == ["50", "60"]
    assert "from 50 to 59" in report.damaged[0].reason
    assert set(named(report, "checkpoint")) == {f"chk-{n}" for n in range(50, 61)}
    assert "chk-61" in report.whole


async def test_several_damaged_things_are_all_named(path):
    report = await verified(
        path,
        f"DELETE FROM checkpoints WHERE key = {key_of(1, 5)}",
        "DELETE FROM ids WHERE id = CAST(x'00' || 'chk-a' AS BLOB)",
        f"DELETE FROM groups WHERE key = {key_of(4, 1)}",
        "DELETE FROM inbox",
        "UPDATE agents SET head = zeroblob(60) WHERE id = 'fork'",
        f"INSERT INTO pending VALUES ({key_of(1, 1)}, 'run', 'call')",
        f"INSERT INTO segments SELECT {key_of(77, 1)}, NULL, 1, 0, zeroblob(9)",
    )
    found = {(damage.kind, damage.id) for damage in report.damaged}
    assert found >= {
        ("checkpoint", "chk-5"),
        ("listing", "chk-a"),
        ("listing", "grp"),
        ("listing", "call"),
        ("inbox", "1"),
        ("agent", "fork"),
        ("store", "head"),
        ("store", "segments"),
    }
    assert "chk-b" in report.whole
    assert not {"chk-5", "chk-a", "chk-fork"} & set(report.whole)


async def test_runs_that_are_not_listed_as_they_are_and_damaged_ends_are_named(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    await commit(store, records=(begun("a"), ended("a", b"heap"), begun("b"), called("b", b"heap"), begun("c")))
    await commit(store, "other", records=(begun("d"), ended("d", b"heap")))
    await store.close()
    assert (await verified(store.path)).ok
    report = await verified(
        store.path,
        "DELETE FROM runs WHERE name = 'a'",
        "UPDATE runs SET ended = 4 WHERE name = 'b'",
        f"INSERT INTO runs VALUES ({key_of(1, 4)}, 'e', NULL, NULL)",
        f"INSERT INTO runs VALUES ({key_of(77, 1)}, 'f', NULL, NULL)",
        f"UPDATE snapshots SET body = zeroblob(60) WHERE key = {key_of(1, 2)}",
        f"UPDATE runs SET session = 's' WHERE key = {key_of(2, 1)}",
    )
    assert sorted(named(report, "listing")) == ["a", "agent", "b", "b", "d", "d", "e", "other"]
    assert named(report, "snapshot") == ["2"]
    assert named(report, "store") == ["runs"]


async def test_where_records_are_damaged_the_list_of_runs_is_held_against_the_head(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    await commit(store, records=(begun("a"), ended("a"), begun("b")))
    await store.close()
    damage = f"UPDATE records SET body = CAST(substr(body, 1, 33) || 'x' AS BLOB) WHERE key = {key_of(1, 1)}"
    report = await verified(store.path, damage)
    assert (named(report, "record"), named(report, "listing")) == (["1"], [])
    report = await verified(store.path, "DELETE FROM runs WHERE name = 'b'")
    assert named(report, "listing") == ["agent"]


async def test_progress_tells_what_is_being_done_and_how_far(path):
    told = []
    store = SQLiteCheckpointStorage(path, read_only=True)
    await store.verify(lambda *report: told.append(report))
    await store.close()
    assert told[:2] == [("file", 0, 1), ("file", 1, 1)]
    assert told[2:] == [("agents", done, 4) for done in range(5)]

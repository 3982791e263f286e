"""A run is found when its list is whole and its records agree; a list that is not whole gives no answer at all."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from holdfast.errors import Corrupt
from holdfast.storage.protocol import Change
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.runplaces import RunPlaces, _Right
from holdfast.testing.runs import begun, ended
from holdfast.testing.samples import commit, continued, save

RUNS = 5


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointStorage]:
    """Five runs, of which the third goes on; run-0 begins at 1."""
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    for number in range(RUNS):
        run = begun(f"run-{number}", "even" if number % 2 == 0 else "odd")
        await commit(store, records=(run, begun("x") if number == 2 else ended(run.tool_call_id)))
    await commit(store, records=(ended("x"),))
    yield store
    await store.close()


@pytest.fixture
def added_up(monkeypatch) -> list[_Right]:
    """What each addition of rows began with; without anything, it was over all of them."""
    began: list[_Right] = []
    original = RunPlaces._added
    monkeypatch.setattr(
        RunPlaces, "_added", lambda self, row, before: began.append(before) or original(self, row, before)
    )
    return began


async def tampered(store, *statements):
    for statement in statements:
        await store.write_side.alone(lambda session, statement=statement: session.db.execute(statement))


async def names(store, **asked):
    return [run.name for run in await store.runs(agent_id="agent", **asked)]


async def test_only_what_can_have_changed_is_added_up_again(store, added_up):
    assert await names(store, name="none") == []
    await save(store)
    assert await names(store, session="odd", limit=1) == ["run-3"]
    assert len(added_up) == 1, "nothing happened to the runs"
    await commit(store, records=(begun("new"),))
    await commit(store, records=(ended("run-2"),))
    [old] = await store.runs(agent_id="agent", name="run-2")
    assert old.end == 14
    assert await names(store, name="new") == ["new"]
    assert [one.count for one in added_up] == [0, RUNS + 1], "all of them once, then those that went on or are new"


async def test_after_a_rewind_all_are_added_up_again(store, added_up):
    assert len(await names(store)) == RUNS + 1
    saved = await save(store)
    await continued(store, records=(begun("left"), ended("left")))
    assert len(await names(store)) == RUNS + 2
    await save(store, parent=saved.id)
    assert len(await names(store)) == RUNS + 1
    assert [one.count for one in added_up] == [0, RUNS + 1, RUNS + 2, 0]


@pytest.mark.parametrize("before", [True, False], ids=["known before", "at first"])
@pytest.mark.parametrize("lost", ["run-0", "run-2", "run-4"])
async def test_a_lost_run_is_missed_whatever_is_asked(store, lost, before):
    if before:
        assert len(await names(store)) == RUNS + 1
    await tampered(store, f"DELETE FROM runs WHERE name = '{lost}'")
    for asked in ({"name": lost}, {"name": "run-3"}, {"name": "none"}, {"session": "odd"}, {}, {"limit": 1}):
        with pytest.raises(Corrupt, match="not what was put into it"):
            await store.runs(agent_id="agent", **asked)
    for asked in ({}, {"name": lost}, {"user_id": "user"}):
        with pytest.raises(Corrupt):
            await store.runs(**asked)
    assert await store.runs(user_id="them") == []


async def test_what_goes_on_being_written_does_not_heal_what_was_lost(store):
    await tampered(
        store, "DELETE FROM runs WHERE name = 'run-0'", "UPDATE runs SET name = 'other' WHERE name = 'run-2'"
    )
    await commit(store, records=(ended("run-2"), ended("run-0"), begun("new"), ended("new")))
    with pytest.raises(Corrupt):
        await store.runs(agent_id="agent", name="new")


async def test_a_rewind_makes_the_list_anew_from_the_records(store):
    saved = await save(store)
    await continued(store, records=(begun("left"),))
    await tampered(store, "DELETE FROM runs", "INSERT INTO runs VALUES (99 << 32, 'stray', NULL, NULL)")
    await save(store, parent=saved.id)
    assert await names(store) == ["run-4", "run-3", "x", "run-2", "run-1", "run-0"]


async def test_a_list_from_an_older_copy_is_refused(store, tmp_path):
    await store.close()
    shutil.copyfile(store.path, tmp_path / "old.db")
    newer = SQLiteCheckpointStorage(store.path)
    await commit(newer, records=(begun("new"),))
    await newer.close()
    db = apsw.Connection(str(store.path))
    db.execute("ATTACH ? AS old", (str(tmp_path / "old.db"),))
    db.execute("DELETE FROM runs")
    db.execute("INSERT INTO runs SELECT * FROM old.runs")
    db.close()
    mixed = SQLiteCheckpointStorage(store.path, read_only=True)
    with pytest.raises(Corrupt):
        await mixed.runs(agent_id="agent", name="new")
    await mixed.close()


async def test_a_run_that_its_record_does_not_confirm_is_refused_without_the_key_too(store):
    """Without its key a head is not authenticated, and somebody may have made it fit to a list of his own."""
    await tampered(store, "UPDATE runs SET name = 'other' WHERE name = 'run-1'")
    store.path.with_name("store.db.key").unlink()
    bare = SQLiteCheckpointStorage(store.path, read_only=True)

    def fitting(reader):
        row = reader.rows.agent("agent")
        return row.evolve(run_listing=reader.run_places._added(row, _Right()).total)

    row = await bare.read_side.read(fitting)
    with pytest.raises(Corrupt, match="what its records do not"):
        await bare.read_side.read(lambda reader: reader.run_places.of(row, "other", None, None))
    await bare.close()


async def test_a_store_without_its_key_finds_runs(store):
    path = store.path
    await store.close()
    path.with_name("store.db.key").unlink()
    bare = SQLiteCheckpointStorage(path)
    assert await names(bare, session="odd") == ["run-3", "run-1"]
    assert (await bare.verify()).ok
    await bare.close()


async def test_a_save_without_runs_asks_the_database_nothing_about_them(store):
    asked = []
    await store.write_side.alone(lambda session: setattr(session.db, "exec_trace", _noted(asked)))
    await save(store, "other")
    await commit(store, "other", records=())
    await store.write_side.alone(lambda session: setattr(session.db, "exec_trace", None))
    assert asked
    assert not [statement for statement in asked if "runs" in statement]


def _noted(asked):
    def trace(_cursor, statement, _bindings):
        asked.append(statement)
        return True

    return trace


async def test_one_commit_may_begin_and_end_runs_of_several_agents(store):
    changes = [Change(agent_id=name, user_id="user", records=(begun("a"), begun("b"), ended("a"))) for name in "xyz"]
    await store.commit(*changes)
    found = await store.runs(name="a")
    assert [(run.agent_id, run.start, run.end) for run in found] == [("z", 1, 3), ("y", 1, 3), ("x", 1, 3)]
    assert (await store.verify()).ok

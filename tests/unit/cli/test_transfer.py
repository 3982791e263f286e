"""Histories taken out and in, between stores of every kind."""

from __future__ import annotations

import pytest

from holdfast import InMemoryCheckpointStorage, SQLiteCheckpointStorage
from holdfast.durable.transfer import export_lines, import_lines, parse_lines
from holdfast.errors import DuplicateId, InvalidImport
from holdfast.history.fold import live_path
from holdfast.history.records import Rewind, UserMessage, snapshot_of
from holdfast.testing import samples
from holdfast.testing.runs import begun, called, ended


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    made = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "s.db")
    yield made
    await made.close()


async def talked(store) -> None:
    """say 1, a checkpoint, say 2, then back to the checkpoint and say 3."""
    first = await samples.save(store, "a", records=(UserMessage(content=1),))
    await samples.commit(store, "a", records=(UserMessage(content=2),))
    await samples.continued(store, "a")
    await samples.save(store, "a", records=(UserMessage(content=3),), parent=first.id)


def contents(records) -> list[int]:
    return [record.content for record in records if isinstance(record, UserMessage)]


async def test_everything_comes_in_with_its_rewinds_pointing_where_they_did(store):
    await talked(store)
    records = parse_lines(await export_lines(store, "a", everything=True))
    done = await import_lines(store, records, agent_id="b", user_id="user")
    copied = await store.read("b")
    assert contents(copied) == [1, 2, 3]
    assert contents(live_path(copied)) == [1, 3]
    assert (done.records, done.checkpoints_left_out) == (4, 3)
    assert [r.at for r in copied if isinstance(r, UserMessage)] == [r.at for r in records if isinstance(r, UserMessage)]


async def test_the_live_path_has_no_rewinds(store):
    await talked(store)
    records = parse_lines(await export_lines(store, "a"))
    assert contents(records) == [1, 3]
    assert not any(isinstance(record, Rewind) for record in records)


async def test_runs_come_in_without_their_snapshots(store):
    await samples.commit(store, "a", records=(begun("one", "s"), called("one", b"heap"), ended("one", b"heap", "s")))
    await samples.continued(store, "a")
    await samples.commit(store, "a", records=(begun("two", "s"),))
    lines = await export_lines(store, "a")
    assert [snapshot_of(record) for record in parse_lines(lines)] == [None, b"heap", b"heap", None, None]
    bare = parse_lines(await export_lines(store, "a", snapshots="none"))
    assert not any(map(snapshot_of, bare))
    done = await import_lines(store, parse_lines(lines), agent_id="b", user_id="user")
    assert (done.records, done.snapshots_left_out) == (4, 2)
    assert not any(map(snapshot_of, await store.read("b")))
    found = await store.runs(agent_id="b", session="s")
    assert [(run.name, run.start, run.end) for run in found] == [("two", 4, None), ("one", 1, 3)]


async def test_an_erased_agents_name_may_be_used_again(store):
    await talked(store)
    records = parse_lines(await export_lines(store, "a", everything=True))
    await samples.commit(store, "a", erase=True)
    await import_lines(store, records, agent_id="a", user_id="user")
    assert contents(live_path(await store.read("a"))) == [1, 3]


async def test_an_agent_that_exists_is_refused_and_stays_as_it_was(store):
    await talked(store)
    before = await store.read("a")
    with pytest.raises(DuplicateId):
        await import_lines(store, [UserMessage(content=9)], agent_id="a", user_id="user")
    assert await store.read("a") == before


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"type":"user_message"}',
        '{"type":"user_message","seq":1,"at":"2026-03-01T12:00:00Z","content":1,"extra":2}',
        '{"type":"rewind","seq":5,"at":"2026-03-01T12:00:00Z","to":3}',
        b"\xff",
    ],
)
def test_a_wrong_line_is_named_by_its_number(line):
    with pytest.raises(InvalidImport, match=r"^Line 3: ") as caught:
        parse_lines(["", "  ", line])
    assert caught.value.line == 3

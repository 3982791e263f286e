"""A listing is held against the authenticated counts, and only what is new is counted again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import Corrupt
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage, tally
from holdfast.storage.sqlite.tally import Tally
from holdfast.testing.samples import commit, continued

QUERIES = [Query(user_id="user"), Query(agent_id="agent"), Query(agent_id="agent", oldest_first=True), Query()]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointStorage]:
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    for number in range(5):
        await continued(store, id=f"chk-{number}")
    yield store
    await store.close()


@pytest.mark.parametrize("query", QUERIES)
async def test_after_a_save_only_what_is_new_is_counted(store, query, monkeypatch) -> None:
    counted_all = []
    original = Tally._check_all
    monkeypatch.setattr(Tally, "_check_all", lambda *args: counted_all.append(args) or original(*args))
    assert len(await store.list(query)) == 5
    for number in range(5, 8):
        await continued(store, id=f"chk-{number}")
        assert len(await store.list(query)) == number + 1
    assert len(counted_all) == 1
    await commit(store, delete=("chk-2", "chk-6"))
    assert len(await store.list(query)) == 6
    assert len(counted_all) == 2, "what was deleted can't be told from what was lost but by counting all"


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("lost", [1, 6], ids=["an old one", "a new one"])
async def test_a_checkpoint_lost_behind_the_tally_is_missed(store, query, lost) -> None:
    assert len(await store.list(query)) == 5
    await continued(store, id="chk-5")
    await commit(store, delete=("chk-3",))
    await store.write_side.alone(
        lambda session: session.db.execute("DELETE FROM checkpoints WHERE key & 4294967295 = ?", (lost,))
    )
    with pytest.raises(Corrupt, match="has 4 checkpoints, but there must be 5"):
        await store.list(query)


async def test_a_reader_of_many_agents_remembers_no_more_counts_than_its_bound(store, monkeypatch) -> None:
    monkeypatch.setattr(tally, "_SCOPES_MAX", 3)
    for number in range(8):
        await continued(store, f"agent-{number}")
        assert len(await store.list(Query(agent_id=f"agent-{number}"))) == 1
    assert len(await store.list(Query(agent_id="agent"))) == 5
    assert len(store.read_side.reader.tally._right) <= 3

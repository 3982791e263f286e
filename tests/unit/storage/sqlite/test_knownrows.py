"""What the writing connection remembers of its rows is never older than the file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from holdfast.errors import UnknownCheckpoint
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.rows import Rows
from holdfast.testing.samples import saving


async def test_what_another_writer_wrote_is_seen(tmp_path: Path) -> None:
    one, other = (SQLiteCheckpointStorage(tmp_path / "checkpoints.db") for _ in range(2))
    positions = []
    for store in (one, one, other, one, other, other, one):
        [done] = await store.commit(saving("agent", continue_newest=True))
        positions.append(done.last_seq)
    assert positions == [1, 2, 3, 4, 5, 6, 7]
    assert (await one.verify()).ok
    await one.close()
    await other.close()


async def test_rows_are_read_once_while_nobody_else_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteCheckpointStorage(tmp_path / "checkpoints.db")
    read = []
    original = Rows.agent
    monkeypatch.setattr(Rows, "agent", lambda rows, agent_id: read.append(agent_id) or original(rows, agent_id))
    for _ in range(4):
        await store.commit(saving("agent", continue_newest=True))
    assert read == ["agent"]
    await store.close()


async def test_a_commit_that_is_refused_after_it_wrote_takes_no_other_with_it(tmp_path: Path) -> None:
    store = SQLiteCheckpointStorage(tmp_path / "checkpoints.db")
    await store.commit(saving("first"))
    for attempt in range(3):
        done = await asyncio.gather(
            store.commit(saving("first", continue_newest=True)),
            store.commit(
                saving("fork", user_id=f"new user {attempt}", fork_of="chk_nowhere")
            ),  # the user is written first
            store.commit(saving("second", continue_newest=True)),
            return_exceptions=True,
        )
        assert isinstance(done[1], UnknownCheckpoint)
        assert [committed[0].last_seq for committed in (done[0], done[2])] == [attempt + 2, attempt + 1]
    assert await store.agent("fork") is None
    assert (await store.verify()).ok
    await store.close()
    assert apsw.Connection(str(store.path)).execute("SELECT id FROM users").fetchall() == [("user",)]

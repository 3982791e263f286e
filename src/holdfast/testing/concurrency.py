"""What a full store promises to many tasks, threads and restarts."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest

from holdfast.errors import Closed, DuplicateId
from holdfast.history.image import Image
from holdfast.history.records import RlmStart, UserMessage
from holdfast.storage.protocol import Query
from holdfast.testing.samples import ODD_STATE, FullStore, commit, continued, save, saving


class ConcurrencyClaims:
    """Set `persistent` when what was committed is there again after the store was closed and opened."""

    persistent: ClassVar[bool] = True

    async def test_commits_from_many_tasks_leave_no_gap(self, storage: FullStore) -> None:
        async def ten(task: int) -> list[int]:
            return [(await continued(storage, f"agent-{task % 3}", state={"task": task})).position for _ in range(10)]

        positions = await asyncio.gather(*(ten(task) for task in range(8)))
        for agent in range(3):
            records = await storage.read(f"agent-{agent}")
            mine = [number for task, each in enumerate(positions) if task % 3 == agent for number in each]
            assert [record.seq for record in records] == list(range(1, len(mine) + 1)) == sorted(mine)
        numbers = [one.commit_number for one in await storage.list(Query(limit=None))]
        assert numbers == sorted(set(numbers), reverse=True)
        assert len(numbers) == 80

    async def test_commits_from_many_threads_and_loops_leave_no_gap(self, storage: FullStore) -> None:
        def ten(thread: int) -> None:
            async def save_them() -> None:
                for turn in range(10):
                    await continued(storage, "shared", state={"thread": thread, "turn": turn})
                    await storage.send("shared", "user", turn, sender=str(thread))

            asyncio.run(save_them())

        await asyncio.gather(*(asyncio.to_thread(ten, thread) for thread in range(4)))
        assert [record.seq for record in await storage.read("shared")] == list(range(1, 41))
        listed = await storage.list(Query(agent_id="shared", limit=None))
        assert [one.parent_checkpoint_id for one in listed] == [*(one.id for one in listed[1:]), None]
        assert [message.number for message in await storage.inbox("shared")] == list(range(1, 41))

    async def test_of_two_saves_of_one_id_one_is_refused(self, storage: FullStore) -> None:
        changes = [saving(f"agent-{task}", id="chk_same") for task in range(4)]
        results = await asyncio.gather(*(storage.commit(change) for change in changes), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["DuplicateId"] * 3 + ["list"]
        assert all(isinstance(result, list | DuplicateId) for result in results)
        assert len(await storage.agents()) == 1

    async def test_a_closed_store_says_so(self, storage: FullStore) -> None:
        await storage.close()
        with pytest.raises(Closed):
            await save(storage)
        with pytest.raises(Closed):
            await storage.list(Query())

    async def test_verify_counts_what_is_whole(self, storage: FullStore) -> None:
        saved = [await continued(storage) for _ in range(3)]
        await commit(storage, delete=(saved[0].id,))
        report = await storage.verify()
        assert report.ok
        assert sorted(report.whole) == sorted(one.id for one in saved[1:])
        assert report.checkpoints == 2
        assert report.records >= 4, "and what the store notes of itself"

    async def test_everything_is_there_again_after_a_restart(
        self, storage: FullStore, open_store: Callable[[], FullStore]
    ) -> None:
        if not self.persistent:
            pytest.skip("this store is gone with its process")
        first = await save(storage, state=ODD_STATE, group_id="grp_one", metadata={"label": "x"})
        gone = await continued(storage, state={"a": 1})
        await commit(storage, records=(UserMessage(content="hello"), RlmStart(tool_call_id="run", code="1")))
        await commit(storage, delete=(gone.id,), pin={first.id: True})
        await save(storage, "fork", user_id="user", fork_of=first.id, parent=first.id)
        await save(storage, "theirs", user_id="them")
        await storage.send("agent", "user", ("hello",), sender="me")
        await save(storage, "erased")
        await commit(storage, "erased", erase=True)

        before = await _everything(storage, [first.id, gone.id])
        await storage.close()
        reopened = open_store()
        try:
            assert await _everything(reopened, [first.id, gone.id]) == before
            found = await reopened.fetch(first.id)
            assert found is not None
            assert found[1] == Image.of(ODD_STATE)
            assert (await reopened.verify()).ok
            newest = await reopened.list(Query(limit=1))
            assert (await continued(reopened)).commit_number > newest[0].commit_number
        finally:
            await reopened.close()


async def _everything(store: FullStore, ids: list[str]) -> dict[str, list[object]]:
    """Every answer of the store but those that name a live owner."""
    return {
        "list": [*await store.list(Query(limit=None))],
        "agents": [*await store.agents()],
        "records": [record for info in await store.agents() for record in await store.read(info.agent_id)],
        "positions": [await store.position(id_) for id_ in ids],
        "pending": [*await store.pending("run")],
        "group": [*await store.group("grp_one")],
        "inbox": [*await store.inbox("agent")],
    }

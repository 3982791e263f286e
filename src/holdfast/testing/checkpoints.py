"""What every checkpoint storage promises: three methods, and what the optional ones add."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.history.image import Image
from holdfast.storage.adapter import as_store
from holdfast.storage.protocol import CheckpointStorage, Query
from holdfast.testing.samples import NOON, ODD_STATE, checkpoint, continued, save

AWKWARD_IDS = ("../agent", "a/b", "Agent", "agent", "", " ", "ä☃", "a\nb", "CON", "%2e", "." * 3, "x" * 300)


class CheckpointStorageConformance:
    """What the three methods promise. Override `storage`; a claim about an optional method skips where it is absent."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture(scope="class")
    @classmethod
    def anyio_backend(cls) -> str:
        return "asyncio"

    @pytest.fixture
    def storage(self) -> Any:
        pytest.fail(f"{type(self).__name__} needs a fixture storage, which returns an empty storage")

    @pytest.fixture(autouse=True)
    async def _close_afterwards(self, storage: CheckpointStorage) -> AsyncIterator[None]:
        yield
        await storage.close()

    # --- save and load

    async def test_save_returns_the_id_that_loads_it(self, storage: CheckpointStorage) -> None:
        saved = checkpoint()
        assert await storage.save(saved) == saved.id
        loaded = await storage.load(saved.id)
        assert loaded is not None
        assert (loaded.id, loaded.agent_id, loaded.user_id) == (saved.id, "agent", "user")

    async def test_a_state_comes_back_exactly(self, storage: CheckpointStorage) -> None:
        """Values and types: a tuple is no list, True is not 1, NaN and -0.0 survive, dicts keep their order."""
        id_ = await storage.save(checkpoint(state=ODD_STATE))
        loaded = await storage.load(id_)
        assert loaded is not None
        assert loaded.state is not None
        for key, value in ODD_STATE.items():
            assert Image.of(loaded.state[key]) == Image.of(value), f"{key} came back as {loaded.state[key]!r}"
        assert Image.of(loaded.state) == Image.of(ODD_STATE)

    async def test_every_field_comes_back(self, storage: CheckpointStorage) -> None:
        saved = checkpoint(
            agent_type="BookingAgent",
            status="WAITING_FOR_INPUT",
            collected_fields={"guests": 4, "when": NOON},
            required_fields=["guests", ("pair",)],
            context_summary="a table for four",
            parent_checkpoint_id="chk_elsewhere",
            timestamp=NOON + timedelta(microseconds=1),
            metadata={"label": "before", "sizes": (1, 2)},
            kind="pre_operation",
            state={"a": 1},
            state_version=3,
            operation="deploy",
            group_id="grp_one",
            group_place=(0, 2),
            pinned=True,
        )
        await storage.save(saved)
        loaded = await storage.load(saved.id)
        assert loaded is not None
        assert loaded.evolve(position=0, commit_number=0) == saved.evolve(position=0, commit_number=0)

    async def test_an_empty_state_is_a_state(self, storage: CheckpointStorage) -> None:
        id_ = await storage.save(checkpoint(state={}))
        loaded = await storage.load(id_)
        assert loaded is not None
        assert loaded.state == {}

    async def test_an_unknown_id_loads_as_none(self, storage: CheckpointStorage) -> None:
        assert await storage.load("chk_unknown") is None
        assert await storage.load("") is None
        assert await storage.load("../etc/passwd") is None

    async def test_saving_an_id_again_replaces_it(self, storage: CheckpointStorage) -> None:
        first = checkpoint(state={"turn": 1})
        await storage.save(first)
        await storage.save(checkpoint())
        await storage.save(first.evolve(state={"turn": 2}))
        loaded = await storage.load(first.id)
        assert loaded is not None
        assert loaded.state == {"turn": 2}
        listed = [one.id for one in await storage.list_by_user("user", 10, 0)]
        assert listed.count(first.id) == 1
        assert listed[0] == first.id, "what was saved last is the newest"

    async def test_awkward_ids_stay_apart(self, storage: CheckpointStorage) -> None:
        ids = {agent_id: await storage.save(checkpoint(agent_id, user_id=agent_id)) for agent_id in AWKWARD_IDS}
        for agent_id, id_ in ids.items():
            loaded = await storage.load(id_)
            assert loaded is not None
            assert (loaded.agent_id, loaded.user_id) == (agent_id, agent_id)
            assert [one.id for one in await storage.list_by_user(agent_id, 10, 0)] == [id_]

    # --- lists

    async def test_the_newest_saved_comes_first_whatever_the_clock_says(self, storage: CheckpointStorage) -> None:
        ids = [await storage.save(checkpoint(timestamp=NOON - timedelta(days=day))) for day in range(5)]
        assert [one.id for one in await storage.list_by_user("user", 10, 0)] == ids[::-1]

    async def test_pages_join_without_a_gap_or_a_repetition(self, storage: CheckpointStorage) -> None:
        ids = [await storage.save(checkpoint()) for _ in range(7)]
        pages = [await storage.list_by_user("user", 3, offset) for offset in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert [one.id for page in pages for one in page] == ids[::-1]
        assert await storage.list_by_user("user", 0, 0) == []

    async def test_users_never_see_each_other(self, storage: CheckpointStorage) -> None:
        mine = await storage.save(checkpoint("mine", user_id="me"))
        theirs = await storage.save(checkpoint("theirs", user_id="them"))
        assert [one.id for one in await storage.list_by_user("me", 10, 0)] == [mine]
        assert [one.id for one in await storage.list_by_user("them", 10, 0)] == [theirs]
        assert await storage.list_by_user("nobody", 10, 0) == []

    async def test_an_agents_list_is_its_own_newest_first(self, storage: CheckpointStorage) -> None:
        _need(storage, "list_by_agent")
        ids = []
        for _ in range(3):
            ids.append(await storage.save(checkpoint("one")))
            await storage.save(checkpoint("other"))
        assert [one.id for one in await storage.list_by_agent("one", 10, 0)] == ids[::-1]
        assert [one.id for one in await storage.list_by_agent("one", 1, 1)] == [ids[1]]
        assert await storage.list_by_agent("unknown", 10, 0) == []

    # --- delete, close

    async def test_a_deleted_checkpoint_is_gone_and_the_others_stay(self, storage: CheckpointStorage) -> None:
        _need(storage, "delete")
        gone, stays = await storage.save(checkpoint()), await storage.save(checkpoint())
        assert await storage.delete(gone) is True
        assert await storage.delete(gone) is False
        assert await storage.delete("chk_unknown") is False
        assert await storage.load(gone) is None
        assert await storage.load(stays) is not None
        assert [one.id for one in await storage.list_by_user("user", 10, 0)] == [stays]

    async def test_a_deleted_id_may_be_saved_again(self, storage: CheckpointStorage) -> None:
        _need(storage, "delete")
        saved = checkpoint()
        await storage.save(saved)
        await storage.delete(saved.id)
        await storage.save(saved.evolve(state={"again": True}))
        loaded = await storage.load(saved.id)
        assert loaded is not None
        assert loaded.state == {"again": True}

    async def test_closing_twice_is_closing_once(self, storage: CheckpointStorage) -> None:
        await storage.save(checkpoint())
        await storage.close()
        await storage.close()

    # --- many at once

    async def test_saves_from_many_tasks_all_arrive(self, storage: CheckpointStorage) -> None:
        async def five(agent_id: str) -> list[str]:
            return [await storage.save(checkpoint(agent_id)) for _ in range(5)]

        ids = await asyncio.gather(*(five(f"agent-{i}") for i in range(8)))
        listed = [one.id for one in await storage.list_by_user("user", 100, 0)]
        assert sorted(listed) == sorted(id_ for each in ids for id_ in each)
        for each in ids:
            assert [id_ for id_ in listed if id_ in each] == each[::-1]

    # --- as a manager uses it

    async def test_what_was_handed_over_changes_no_more(self, storage: CheckpointStorage) -> None:
        store = as_store(storage)
        fields = {"guests": [1]}
        state = {"list": [1]}
        saved = await save(store, collected_fields=fields, state=state)
        fields["guests"].append(2)
        state["list"].append(2)
        for _ in range(2):
            found = await store.fetch(saved.id)
            assert found is not None
            assert found[0].collected_fields == {"guests": [1]}
            decoded = found[1].decode()
            assert decoded == {"list": [1]}
            found[0].collected_fields["guests"].append(3)
            decoded["list"].append(3)

    async def test_a_manager_sees_lists_without_states(self, storage: CheckpointStorage) -> None:
        store = as_store(storage)
        first = await continued(store, kind="manual")
        second = await continued(store, kind="routine")
        third = await continued(store, kind="manual")
        assert (first.parent_checkpoint_id, second.parent_checkpoint_id) == (None, first.id)
        query = Query(user_id="user", agent_id="agent")
        listed = await store.list(query)
        assert [one.id for one in listed] == [third.id, second.id, first.id]
        assert [one.state for one in listed] == [None, None, None]
        manual = await store.list(Query(user_id="user", agent_id="agent", kinds=("manual",), limit=1, offset=1))
        assert [one.id for one in manual] == [first.id]
        oldest = await store.list(Query(user_id="user", oldest_first=True, limit=1))
        assert [one.id for one in oldest] == [first.id]
        position = await store.position(second.id)
        assert position is not None
        assert (position.id, position.parent_checkpoint_id, position.state) == (second.id, first.id, None)
        assert first.commit_number < second.commit_number < third.commit_number


def _need(storage: CheckpointStorage, method: str) -> None:
    if getattr(type(storage), method) is getattr(CheckpointStorage, method):
        pytest.skip(f"{type(storage).__name__} has no {method}()")

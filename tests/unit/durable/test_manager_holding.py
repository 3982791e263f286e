"""What layers above a manager build on: holding an agent, saving each for a purpose of its own, bringing one back."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    CheckpointManager,
    InvalidArgument,
    OwnedElsewhere,
    SQLiteCheckpointStorage,
    StaleWriter,
    WrongAgent,
)
from holdfast.durable.saving import Purpose
from holdfast.history.checkpoint import Kind
from holdfast.storage.protocol import Outgoing
from tests.unit.durable.samples import Agent


async def test_a_held_agent_is_nobody_elses_until_the_block_ends(tmp_path):
    async with (
        CheckpointManager(SQLiteCheckpointStorage(tmp_path / "s.db")) as here,
        CheckpointManager(SQLiteCheckpointStorage(tmp_path / "s.db")) as there,
    ):
        async with here.hold("ada", "u") as epoch:
            await here.save(Agent())
            with pytest.raises(OwnedElsewhere):
                await there.save(Agent())
            async with here.operation(Agent(), "deploy"):
                assert (await here.store.agent("ada")).epoch == epoch
            assert (await here.store.agent("ada")).owner is not None
        await there.save(Agent())
        async with here.hold("ada", "u"):
            await there.save(Agent(), take_over=True)
            with pytest.raises(StaleWriter):
                await here.save(Agent())


async def test_who_is_cancelled_while_taking_an_agent_does_not_keep_it(manager):
    async def take():
        async with manager.hold("ada", "u"):
            await asyncio.Event().wait()

    for turns in range(4):
        taking = asyncio.ensure_future(take())
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        info = await manager.store.agent("ada")
        assert info is None or info.owner is None


async def test_agents_are_saved_in_one_commit_each_for_its_purpose(manager, storage):
    for word in ("one", "two"):
        await storage.send("ada", "u", word, sender="me")
    replaced = await manager.save(Agent())
    deleted = []
    manager.on("checkpoint_deleted", lambda checkpoint: deleted.append(checkpoint.id))
    agent = await manager.restore(replaced)
    sent = Outgoing(to="bob", user_id="u", content="hello", sender="ada")
    saved = await manager.save_each(
        (agent, Purpose(kind=Kind.AUTO, acknowledge=1, send=(sent,), replaces=(replaced,))),
        (Agent("eve"), Purpose(metadata={"for": "eve"})),
    )
    assert [(one.agent_id, one.kind, one.metadata) for one in saved] == [
        ("ada", "auto", {}), ("eve", "manual", {"for": "eve"})
    ]  # fmt: skip
    assert saved[0].commit_number == saved[1].commit_number
    assert [message.content for message in await storage.inbox("ada")] == ["two"]
    assert [message.content for message in await storage.inbox("bob")] == ["hello"]
    assert deleted == [replaced]
    assert [one.id for one in await manager.list_by_agent("ada")] == [saved[0].id]


async def test_a_live_object_is_brought_back_to_a_checkpoint_of_its_own(manager):
    agent = Agent().step(1)
    first = await manager.save(agent)
    second = await manager.save(agent.step(2))
    restored = []
    manager.on("checkpoint_restored", lambda checkpoint, agent: restored.append((checkpoint.id, agent)))
    found = await manager.restore_into(agent, first)
    assert (found.id, agent.state, manager.came_from(agent)) == (first, {"steps": [1]}, first)
    assert restored == [(first, agent)]
    assert (await manager.load(await manager.save(agent))).parent_checkpoint_id == first
    with pytest.raises(WrongAgent) as wrong:
        await manager.restore_into(Agent("eve"), second)
    assert (wrong.value.agent_id, wrong.value.checkpoint_id) == ("ada", second)


async def test_a_state_of_an_older_version_is_brought_up_before_it_is_put_back(manager):
    first = await manager.save(Agent())
    manager.register(Agent, upgrades={1: lambda state: {**state, "new": True}})
    agent = Agent()
    assert (await manager.restore_into(agent, first)).state == {"steps": [], "new": True}
    assert agent.state == {"steps": [], "new": True}


async def test_what_is_noted_is_in_the_metadata_of_all_that_is_saved_within_the_block(manager):
    with manager.noting("ada", {"within": "a step"}):
        noted = await manager.save(Agent(), metadata={"mine": 1})
        async with manager.operation(Agent(), "deploy") as operation:
            assert (await manager.load(operation.checkpoint_id)).metadata == {"within": "a step"}
        other = await manager.save(Agent("eve"))
    assert (await manager.load(noted)).metadata == {"mine": 1, "within": "a step"}
    assert (await manager.load(other)).metadata == {}
    assert (await manager.load(await manager.save(Agent()))).metadata == {}


async def test_a_group_of_agents_that_somebody_runs_is_neither_cut_nor_put_back(manager):
    group_id = await manager.save_group([Agent(), Agent("eve")])
    async with manager.hold("eve", "u"):
        for refused in (manager.save_group([Agent(), Agent("eve")]), manager.restore_group(group_id)):
            with pytest.raises(InvalidArgument, match="runs agent eve") as error:
                await refused
            assert error.value.agent_id == "eve"
    assert len(await manager.restore_group(group_id)) == 2

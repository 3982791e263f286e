"""Deleting on purpose: one checkpoint, or everything of a user and nothing of anybody else."""

from __future__ import annotations

import pytest

from holdfast import UnknownCheckpoint
from holdfast.history.records import UserMessage
from tests.unit.durable.samples import Agent, ids


async def test_a_deleted_checkpoint_is_gone_and_deleting_it_again_is_false(manager):
    agent = Agent()
    first, second = await manager.save(agent), await manager.save(agent)
    assert await manager.delete(first) is True
    assert await manager.delete(first) is False
    with pytest.raises(UnknownCheckpoint):
        await manager.load(first)
    with pytest.raises(UnknownCheckpoint):
        await manager.pin(first)
    assert await ids(manager.list_by_agent("ada")) == [second]


async def test_an_agent_goes_on_after_its_newest_was_deleted(manager):
    agent = Agent()
    first = await manager.save(agent)
    await manager.delete(first)
    second = await manager.save(agent)
    [gap] = await manager.ancestors(second)
    assert (gap.id, gap.deleted) == (first, True)


async def test_clearing_a_user_erases_everything_of_that_user_only(manager, storage):
    for name, user in (("ada", "u"), ("bob", "u"), ("eve", "v")):
        agent = Agent(name, user)
        for _ in range(2):
            await manager.save(agent.step(1))
        await manager.append(name, UserMessage(content="secret"), user_id=user)
        await storage.send(name, user, "hello", sender="test")
    assert await manager.clear_user_history("u") == 4
    assert await manager.list_by_user("u") == []
    assert [info.agent_id for info in await storage.agents()] == ["eve"]
    for name in ("ada", "bob"):
        assert await manager.history(name) == []
        assert await storage.inbox(name) == []
    assert len(await manager.list_by_user("v")) == 2
    assert "user_message" in [record.type for record in await manager.history("eve")]
    assert len(await storage.inbox("eve")) == 1
    assert await manager.clear_user_history("u") == 0
    assert await manager.clear_user_history("nobody") == 0


async def test_an_erased_agent_can_begin_anew(manager):
    agent = Agent()
    await manager.save(agent.step("old"))
    await manager.clear_user_history("u")
    id_ = await manager.save(Agent().step("new"))
    assert (await manager.load(id_)).parent_checkpoint_id is None
    assert (await manager.restore(id_)).state == {"steps": ["new"]}
    live_on = await manager.save(agent)  # an object that outlived what it came from
    assert (await manager.restore(live_on)).state == {"steps": ["old"]}

"""Many at once: every save is there, and each agent's chain of parents is one line."""

from __future__ import annotations

import asyncio
import contextlib

from holdfast import CheckpointManager
from tests.unit.durable.samples import Agent


async def chain(manager, agent_id):
    newest = await manager.latest(agent_id)
    return [newest.id, *(checkpoint.id for checkpoint in await manager.ancestors(newest.id))]


async def test_fifty_agents_saved_at_once_are_all_there(manager):
    agents = [Agent(f"agent-{n}").step(n) for n in range(50)]
    made = await asyncio.gather(*(manager.save(agent) for agent in agents))
    for n, id_ in enumerate(made):
        assert (await manager.load(id_)).state == {"steps": [n]}
    assert len(await manager.list_by_user("u", limit=100)) == 50


async def test_one_object_saved_many_times_at_once_keeps_one_line_of_parents(manager):
    agent = Agent()
    made = [await manager.save(agent)]  # what all of those at once would go on from, if they did not wait their turn
    made += await asyncio.gather(*(manager.save(agent) for _ in range(30)))
    assert sorted(await chain(manager, "ada")) == sorted(made)
    assert not [record for record in await manager.history("ada") if record.type == "rewind"]


async def test_many_objects_of_one_agent_that_came_from_none_make_one_line(manager):
    made = await asyncio.gather(*(manager.save(Agent().step(n)) for n in range(30)))
    assert sorted(await chain(manager, "ada")) == sorted(made)


async def test_saves_loads_lists_and_deletions_at_once_do_not_disturb_each_other(manager):
    agents = [Agent(f"agent-{n}") for n in range(10)]

    async def live(agent):
        for n in range(8):
            id_ = await manager.save(agent.step(n))
            assert (await manager.restore(id_)).state == {"steps": list(range(n + 1))}
            if n % 3 == 0:
                assert await manager.delete(id_)
            await manager.list_by_user("u", limit=5)

    await asyncio.gather(*(live(agent) for agent in agents))
    assert len(await manager.list_by_user("u", limit=100)) == 10 * 5


async def test_operations_of_many_agents_at_once_stay_apart(manager, storage):
    async def operate(n):
        agent = Agent(f"agent-{n}")
        with contextlib.suppress(ZeroDivisionError):
            async with manager.operation(agent, "deploy"):
                await manager.save(agent)
                assert 1 / (n % 2)

    await asyncio.gather(*(operate(n) for n in range(10)))
    assert {one.agent_id for one in await manager.interrupted_operations()} == {f"agent-{n}" for n in range(0, 10, 2)}
    assert all(info.owner is None for info in await storage.agents())


async def test_two_managers_of_one_storage_share_an_agent(storage):
    managers = [CheckpointManager(storage) for _ in range(2)]
    made = await asyncio.gather(*(managers[n % 2].save(Agent().step(n)) for n in range(20)))
    assert sorted(await chain(managers[0], "ada")) == sorted(made)


async def test_a_cancelled_save_is_whole_or_not_there(manager):
    agent = Agent().step(1)
    saving = asyncio.ensure_future(manager.save(agent))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    later = await manager.save(agent.step(2))
    assert (await manager.load(later)).state == {"steps": [1, 2]}
    for checkpoint in await manager.list_by_agent("ada"):
        assert (await manager.load(checkpoint.id)).state["steps"][0] == 1

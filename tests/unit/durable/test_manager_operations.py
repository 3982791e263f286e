"""Critical operations: a checkpoint to go back to, gone on success, found again after a failure or a death."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import CheckpointManager, OwnedElsewhere, SQLiteCheckpointStorage, StaleWriter
from tests.unit.durable.samples import Agent, ids


async def interrupted(manager):
    return [(found.agent_id, found.operation) for found in await manager.interrupted_operations()]


async def test_an_operation_begins_with_a_checkpoint_that_is_gone_on_success(manager, storage):
    agent = Agent().step("before")
    async with manager.operation(agent, "deploy", metadata={"to": "production"}) as operation:
        agent.step("during")
        found = await manager.load(operation.checkpoint_id)
        assert (found.kind, found.operation, found.metadata) == ("pre_operation", "deploy", {"to": "production"})
        assert found.state == {"steps": ["before"]}
        assert (await storage.agent("ada")).owner is not None
        assert await interrupted(manager) == []
    assert await manager.list_by_agent("ada") == []
    assert (await storage.agent("ada")).owner is None
    assert await interrupted(manager) == []


async def test_after_a_failure_the_checkpoint_stays_and_the_exception_goes_on(manager, storage):
    agent = Agent().step("before")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - a block is what an operation is
        async with manager.operation(agent, "deploy"):
            agent.step("during")
            raise ZeroDivisionError
    assert await interrupted(manager) == [("ada", "deploy")]
    [found] = await manager.interrupted_operations()
    assert (await manager.restore(found.id)).state == {"steps": ["before"]}
    assert (await storage.agent("ada")).owner is None


async def test_deleting_its_checkpoint_settles_an_interrupted_operation(manager):
    with pytest.raises(ZeroDivisionError):
        async with manager.operation(Agent(), "deploy"):
            raise ZeroDivisionError
    [found] = await manager.interrupted_operations()
    assert await manager.delete(found.id)
    assert await interrupted(manager) == []


async def test_what_is_saved_within_an_operation_belongs_to_it(manager):
    agent = Agent()
    async with manager.operation(agent, "deploy") as operation:
        inner = await manager.save(agent.step(1))
        group = await manager.save_group([agent.step(2), Agent("eve")])
        assert (await manager.load(inner)).parent_checkpoint_id == operation.checkpoint_id
    assert (await manager.restore_group(group))[0].state == {"steps": [1, 2]}
    [parent, gap] = await manager.ancestors((await manager.latest("ada")).id)
    assert (parent.id, gap.id, gap.deleted) == (inner, operation.checkpoint_id, True)


async def test_operations_nest_and_the_agent_is_held_to_the_end_of_the_last(manager, storage):
    agent = Agent()
    async with manager.operation(agent, "outer") as outer:
        async with manager.operation(agent.step(1), "inner"):
            await manager.save(agent)
        assert (await storage.agent("ada")).owner is not None
        with pytest.raises(ZeroDivisionError):
            async with manager.operation(agent, "failing"):
                raise ZeroDivisionError
        assert (await storage.agent("ada")).owner is not None
        await manager.save(agent.step(2))
        assert (await manager.load(outer.checkpoint_id)).operation == "outer"
    assert (await storage.agent("ada")).owner is None
    assert await interrupted(manager) == [("ada", "failing")]


async def test_two_agents_operations_are_apart(manager, storage):
    ada, eve = Agent("ada"), Agent("eve")
    async with manager.operation(ada, "one"):
        async with manager.operation(eve, "other"):
            await manager.save(eve)
        assert (await storage.agent("eve")).owner is None
        assert (await storage.agent("ada")).owner is not None
        await manager.save(ada)


async def test_looking_needs_no_ownership(tmp_path):
    holding, looking = (SQLiteCheckpointStorage(tmp_path / "store.db") for _ in range(2))
    manager, other = CheckpointManager(holding), CheckpointManager(looking)
    other.register(Agent)
    async with manager.operation(Agent().step(1), "deploy") as operation:
        assert (await other.restore(operation.checkpoint_id)).state == {"steps": [1]}
        assert await ids(other.list_by_agent("ada")) == [operation.checkpoint_id]
        assert await interrupted(other) == []
        with pytest.raises(OwnedElsewhere) as caught:
            await other.save(Agent())
        assert caught.value.agent_id == "ada"
    assert await other.save(Agent())
    await manager.close()
    await other.close()


async def test_who_was_taken_over_writes_nothing_more_and_its_own_error_comes_first(tmp_path):
    """Saves, groups and the operation's end are refused alike."""
    slow, quick = (SQLiteCheckpointStorage(tmp_path / "store.db") for _ in range(2))
    manager, other = CheckpointManager(slow), CheckpointManager(quick)
    agent = Agent()
    with pytest.raises(StaleWriter):  # noqa: PT012
        async with manager.operation(agent, "hangs"):
            await other.save(Agent(), take_over=True)
            for refused in (manager.save(agent), manager.save_group([agent])):
                with pytest.raises(StaleWriter):
                    await refused
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
        async with manager.operation(agent, "hangs again"):
            await other.save(Agent(), take_over=True)
            raise ZeroDivisionError
    assert "was not released" in caught.value.__notes__[0]
    await manager.close()
    await other.close()


async def test_the_operations_of_a_dead_process_are_found_and_its_agents_taken_over(tmp_path):
    dying = SQLiteCheckpointStorage(tmp_path / "store.db")
    agent = Agent().step("before")
    held = CheckpointManager(dying).operation(agent, "deploy")
    await held.__aenter__()
    await dying.close()  # its writer's lock is free now, as after a kill

    manager = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db"))
    manager.register(Agent)
    [found] = await manager.interrupted_operations()
    restored = await manager.restore(found.id)
    assert (found.operation, restored.state) == ("deploy", {"steps": ["before"]})
    assert await manager.save(restored.step("after"))
    assert await manager.delete(found.id)
    assert await manager.interrupted_operations() == []
    await manager.close()


@pytest.mark.parametrize("turns", range(8))
async def test_who_is_cancelled_while_it_begins_leaves_nothing_held(manager, storage, turns):
    """Wherever the cancellation hits: before the commit, within it, or in a handler after it."""
    manager.on("checkpoint_saved", lambda _: asyncio.sleep(0.01))
    entering = asyncio.ensure_future(manager.operation(Agent(), "deploy").__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    info = await storage.agent("ada")
    assert info is None or info.owner is None
    assert await manager.save(Agent())

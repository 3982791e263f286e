"""Holding an agent through several saves: nobody else does meanwhile, and it is free again in the end."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import CheckpointManager, OwnedElsewhere, SQLiteCheckpointStorage, StaleWriter
from holdfast.durable.holding import holding
from tests.unit.durable.samples import Agent


async def test_saves_inside_belong_to_it_and_no_checkpoint_is_added(manager):
    agent = Agent()
    async with holding(manager, "ada", "u"):
        await manager.save(agent)
        assert (await manager.store.agent("ada")).owner_alive
        await manager.save(agent)
    assert (await manager.store.agent("ada")).owner is None
    assert len(await manager.list_by_agent("ada")) == 2
    assert await manager.interrupted_operations() == []


async def test_only_one_holds_an_agent_in_a_process(manager):
    other = CheckpointManager(manager.storage)
    async with holding(manager, "ada", "u"):
        for one in (manager, other):
            with pytest.raises(OwnedElsewhere, match="in this process"):
                async with holding(one, "ada", "u"):
                    pass
        async with holding(manager, "bob", "u"):
            pass
    async with holding(other, "ada", "u"):
        pass


async def test_only_one_process_holds_an_agent(tmp_path):
    first = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db"))
    second = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db"))

    async def taken_over():
        async with holding(first, "ada", "u"):
            with pytest.raises(OwnedElsewhere):
                async with holding(second, "ada", "u"):
                    pass
            async with holding(second, "ada", "u", take_over=True):
                await second.save(Agent())
            await first.save(Agent())

    with pytest.raises(StaleWriter):
        await taken_over()
    async with holding(first, "ada", "u"):
        pass
    await first.close()
    await second.close()


async def test_an_error_inside_gives_the_agent_back(manager):
    async def failed():
        async with holding(manager, "ada", "u"):
            await manager.save(Agent())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failed()
    assert (await manager.store.agent("ada")).owner is None


async def test_who_is_cancelled_while_taking_it_does_not_keep_it(manager):
    async def hold():
        async with holding(manager, "ada", "u"):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with holding(manager, "ada", "u"):
        pass
    info = await manager.store.agent("ada")
    assert info is None or info.owner is None

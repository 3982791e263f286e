"""The end: the last manager that uses a storage closes it, once."""

from __future__ import annotations

import gc

import pytest

from holdfast import CheckpointManager, Closed, InMemoryCheckpointStorage
from tests.unit.durable.samples import Agent, ThreeMethods


async def test_the_last_manager_closes_the_storage(storage):
    first, second = CheckpointManager(storage), CheckpointManager(storage)
    await first.save(Agent())
    await first.close()
    assert await second.save(Agent())
    await second.close()
    with pytest.raises(Closed):
        await second.save(Agent())


async def test_closing_twice_counts_once(storage):
    first, second = CheckpointManager(storage), CheckpointManager(storage)
    await first.close()
    await first.close()
    assert await second.save(Agent())
    await second.close()
    await second.close()


async def test_async_with_closes(storage):
    async with CheckpointManager(storage) as manager:
        await manager.save(Agent())
    with pytest.raises(Closed):
        await storage.list_by_user("u", 1, 0)


async def test_a_manager_that_was_forgotten_uses_nothing(storage):
    manager, forgotten = CheckpointManager(storage), CheckpointManager(storage)
    del forgotten
    gc.collect()
    await manager.close()
    with pytest.raises(Closed):
        await storage.list_by_user("u", 1, 0)


async def test_equal_storages_are_two():
    class Equal(InMemoryCheckpointStorage):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    first, second = CheckpointManager(Equal()), CheckpointManager(Equal())
    await first.close()
    with pytest.raises(Closed):
        await first.save(Agent())
    assert await second.save(Agent())


async def test_a_storage_of_ones_own_is_closed_if_it_can_be():
    closed = []

    class Closing(ThreeMethods):
        async def close(self):
            closed.append(self)

    storage = Closing()
    await CheckpointManager(storage).close()
    assert closed == [storage]

    class Duck:
        save, load, list_by_user = ThreeMethods.save, ThreeMethods.load, ThreeMethods.list_by_user
        __init__ = ThreeMethods.__init__

    await CheckpointManager(Duck()).close()


async def test_a_manager_shows_what_it_is_for(storage):
    assert "user_id='u'" in repr(CheckpointManager(storage, user_id="u"))

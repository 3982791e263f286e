"""Handlers: awaited in order, after it is durable and before the call returns."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast import CheckpointManager, FileCheckpointStorage, InvalidArgument, Policy
from tests.unit.durable.samples import Agent


async def test_handlers_are_awaited_in_order_before_save_returns(manager):
    told = []

    @manager.on("checkpoint_saved")
    async def first(checkpoint):
        await asyncio.sleep(0)
        assert (await manager.load(checkpoint.id)).state == {"steps": []}
        told.append(("first", checkpoint.id))

    manager.on("checkpoint_saved", lambda checkpoint: told.append(("second", checkpoint.id)))
    id_ = await manager.save(Agent())
    assert told == [("first", id_), ("second", id_)]
    assert asyncio.iscoroutinefunction(first)


async def test_a_handler_that_fails_is_logged_and_the_others_are_called(manager, caplog):
    told = []

    @manager.on("checkpoint_saved")
    def failing(checkpoint):
        raise ZeroDivisionError

    manager.on("checkpoint_saved", told.append)
    with caplog.at_level(logging.ERROR, "holdfast"):
        id_ = await manager.save(Agent())
    assert [checkpoint.id for checkpoint in told] == [id_]
    assert "checkpoint_saved" in caplog.text


async def test_restoring_tells_the_checkpoint_and_the_agent(manager):
    told = []
    manager.on("checkpoint_restored", lambda *arguments: told.append(arguments))
    id_ = await manager.save(Agent().step(1))
    agent = await manager.restore(id_)
    [(checkpoint, restored)] = told
    assert (checkpoint.id, checkpoint.state, restored) == (id_, {"steps": [1]}, agent)


async def test_a_fork_is_told_as_saved(manager):
    first = await manager.save(Agent())
    saved, restored = [], []
    manager.on("checkpoint_saved", saved.append)
    manager.on("checkpoint_restored", lambda *arguments: restored.append(arguments))
    await manager.fork(first, agent_id="eve")
    assert ([checkpoint.agent_id for checkpoint in saved], restored) == (["eve"], [])


async def test_every_member_of_a_group_is_told(manager):
    told = []
    manager.on("checkpoint_saved", told.append)
    await manager.save_group([Agent("zoe"), Agent("ada")])
    assert [checkpoint.agent_id for checkpoint in told] == ["zoe", "ada"]


async def test_every_way_of_deleting_is_told(manager, clock):
    agent, told = Agent(), []
    manager.on("checkpoint_deleted", lambda checkpoint: told.append(checkpoint.id))

    deleted = await manager.save(agent)
    await manager.delete(deleted)
    await manager.delete(deleted)
    assert told == [deleted]

    retired, *_ = [await manager.save(agent, kind="routine") for _ in range(4)]
    assert told == [deleted, retired]

    async with manager.operation(agent, "deploy") as operation:
        pass
    assert told == [deleted, retired, operation.checkpoint_id]

    old = await manager.save(agent)
    clock.pass_days(31)
    newest = await manager.save(agent)
    told.clear()
    assert await manager.cleanup_old_checkpoints() == len(told)
    assert old in told

    told.clear()
    await manager.clear_user_history("u")
    assert told == [newest]


async def test_deletions_in_a_folder_of_files_are_told(tmp_path):
    manager = CheckpointManager(FileCheckpointStorage(tmp_path), retention=Policy(routine_per_agent=1))
    told, agent = [], Agent()
    manager.on("checkpoint_deleted", told.append)
    first = await manager.save(agent, kind="routine")
    await manager.save(agent, kind="routine")
    assert [(gone.id, gone.agent_id, gone.deleted) for gone in told] == [(first, "ada", True)]


async def test_a_handler_may_use_the_manager(manager):
    @manager.on("checkpoint_saved")
    async def save_eve_as_well(checkpoint):
        if checkpoint.agent_id == "ada":
            await manager.save(Agent("eve"))

    await manager.save(Agent())
    assert len(await manager.list_by_agent("eve")) == 1


async def test_an_unknown_event_is_refused_with_the_list_of_those_there_are(manager):
    with pytest.raises(InvalidArgument, match="saved") as caught:
        manager.on("saved")
    assert "checkpoint_saved" in caught.value.hint

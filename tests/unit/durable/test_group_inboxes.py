"""Groups are consistent cuts: restoring one puts the inboxes of its agents back as well."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, InMemoryCheckpointStorage, OwnedElsewhere, SQLiteCheckpointStorage
from holdfast.storage.protocol import Change


class Talker:
    def __init__(self, agent_id, user_id="user"):
        self.agent_id, self.user_id, self.status = agent_id, user_id, "RUNNING"
        self.heard = []

    def checkpoint_state(self):
        return {"heard": list(self.heard)}

    def restore_state(self, state):
        self.heard = state["heard"]


@pytest.fixture(params=["memory", "sqlite"])
async def manager(request, tmp_path):
    storage = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "s.db")
    async with CheckpointManager(storage) as manager:
        manager.register(Talker)
        yield manager


async def hear(manager, talker, number=1):
    """Takes the next messages into the state, and acknowledges them in the commit that saves it."""
    for message in (await manager.store.inbox(talker.agent_id))[:number]:
        talker.heard.append(message.content)
        await manager.store.commit(Change(agent_id=talker.agent_id, user_id="user", acknowledge=message.number))


async def waiting(manager, agent_id):
    return [message.content for message in await manager.store.inbox(agent_id)]


async def send(manager, to, *contents, sender):
    for content in contents:
        await manager.store.send(to, "user", content, sender=sender)


async def test_after_restoring_a_group_no_message_is_lost_or_doubled(manager):
    a, b = Talker("a"), Talker("b")
    await send(manager, "a", "one", "two", "three", sender="person")
    await hear(manager, a)
    await send(manager, "b", "from a before", sender="a")
    group_id = await manager.save_group([a, b])
    await hear(manager, a, 2)
    await send(manager, "b", "from a after", sender="a")
    await send(manager, "b", "from a person after", sender="person")
    await hear(manager, b, 3)
    for _ in range(2):  # and again: what was brought back once must not come twice
        a, b = await manager.restore_group(group_id)
        assert (a.heard, b.heard) == (["one"], [])
        assert await waiting(manager, "a") == ["two", "three"]
        assert await waiting(manager, "b") == ["from a before", "from a person after"]
        await hear(manager, a, 2)
        await hear(manager, b, 1)
        assert a.heard == ["one", "two", "three"]
    assert (await manager.verify()).ok


async def test_a_message_keeps_its_original_number(manager):
    a = Talker("a")
    await send(manager, "a", "one", "two", sender="person")
    group_id = await manager.save_group([a])
    await hear(manager, a, 2)
    await manager.restore_group(group_id)
    assert [(m.number, m.original) for m in await manager.store.inbox("a")] == [(3, 1), (4, 2)]


async def test_an_inbox_that_did_not_change_is_left_alone(manager):
    a = Talker("a")
    await send(manager, "a", "one", sender="person")
    group_id = await manager.save_group([a])
    before = await manager.store.agent("a")
    await manager.restore_group(group_id)
    assert await manager.store.agent("a") == before


async def test_acknowledged_messages_go_once_no_group_needs_them(manager):
    a = Talker("a")
    await send(manager, "a", "one", "two", "three", sender="person")
    await manager.save_group([a])
    await hear(manager, a)
    [checkpoint] = await manager.list_by_agent("a")
    await manager.save(a)
    await manager.delete(checkpoint.id)
    await hear(manager, a)
    group_id = await manager.save_group([a])
    await hear(manager, a)
    await manager.restore_group(group_id)
    assert await waiting(manager, "a") == ["three"]


async def test_a_group_whose_agent_is_held_elsewhere_is_not_put_back(tmp_path):
    a = Talker("a")
    async with (
        CheckpointManager(SQLiteCheckpointStorage(tmp_path / "s.db")) as here,
        CheckpointManager(SQLiteCheckpointStorage(tmp_path / "s.db")) as there,
    ):
        here.register(Talker)
        group_id = await here.save_group([a])
        await send(here, "a", "one", sender="person")
        [elsewhere] = await there.store.commit(Change(agent_id="a", user_id="user", hold=True))
        with pytest.raises(OwnedElsewhere):
            await here.restore_group(group_id)
        assert await waiting(here, "a") == ["one"]
        await there.store.commit(Change(agent_id="a", user_id="user", epoch=elsewhere.epoch))


async def test_a_cut_of_a_group_that_was_put_back_before_has_what_waited_then(manager):
    a = Talker("a")
    await send(manager, "a", "one", sender="person")
    first = await manager.save_group([a])
    await hear(manager, a)
    [a] = await manager.restore_group(first)
    second = await manager.save_group([a])  # "one" waits again, with a new number
    await hear(manager, a)
    await send(manager, "a", "two", sender="person")
    for group_id in (second, first, second):
        [a] = await manager.restore_group(group_id)
        assert await waiting(manager, "a") == ["one", "two"]
    assert (await manager.verify()).ok


async def test_what_was_dealt_with_at_a_later_cut_does_not_come_back_from_an_earlier_one(manager):
    a = Talker("a")
    await send(manager, "a", "one", sender="person")
    first = await manager.save_group([a])
    await hear(manager, a)
    second = await manager.save_group([a])
    await manager.restore_group(first)
    assert await waiting(manager, "a") == ["one"]
    [a] = await manager.restore_group(second)
    assert (a.heard, await waiting(manager, "a")) == (["one"], [])


async def test_the_newest_checkpoints_after_a_group_was_put_back_are_as_its_cut(manager):
    """Whoever begins again with the newest checkpoint must not have received what waits again."""
    a, b = Talker("a"), Talker("b")
    await send(manager, "a", "one", sender="person")
    group_id = await manager.save_group([a, b], metadata={"cut": 1})
    await hear(manager, a)
    await manager.save(a)
    await manager.save(b)
    restored = await manager.restore_group(group_id)
    for agent in restored:
        latest = await manager.latest(agent.agent_id)
        assert (latest.kind, latest.metadata) == ("recovery", {"cut": 1, "restored_group": group_id})
        assert (await manager.restore(latest.id)).heard == []
        saved = await manager.load(await manager.save(agent))
        assert saved.parent_checkpoint_id == latest.id

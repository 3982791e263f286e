"""What can be asked about what is stored: lists, ancestors, differences, and who may know."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, InvalidArgument, UnknownCheckpoint, UnknownGroup, WrongOwner
from tests.unit.durable.samples import Agent, ids


async def test_lists_are_newest_first_and_carry_no_state(manager):
    agent, other = Agent("ada"), Agent("eve")
    made = [await manager.save(one.step(1)) for one in (agent, other, agent)]
    listed = await manager.list_by_user("u")
    assert [checkpoint.id for checkpoint in listed] == made[::-1]
    assert [checkpoint.state for checkpoint in listed] == [None] * 3
    assert await ids(manager.list_by_agent("ada")) == [made[2], made[0]]


async def test_order_is_the_stores_number_whatever_the_clock_says(manager, clock):
    agent = Agent()
    first = await manager.save(agent)
    clock.pass_days(-400)
    second = await manager.save(agent)
    assert await ids(manager.list_by_agent("ada")) == [second, first]
    assert (await manager.latest("ada")).id == second


async def test_limits_and_offsets_page_through(manager):
    agent = Agent()
    made = [await manager.save(agent) for _ in range(7)][::-1]
    for listing in (manager.list_by_user, manager.list_by_agent):
        name = "u" if listing == manager.list_by_user else "ada"
        pages = [await ids(listing(name, limit=3, offset=offset)) for offset in (0, 3, 6, 9)]
        assert pages == [made[:3], made[3:6], made[6:], []]
        assert await listing(name, limit=0) == []
        for limit, offset in ((-1, 0), (1, -1)):
            with pytest.raises(InvalidArgument):
                await listing(name, limit=limit, offset=offset)


async def test_fifty_are_listed_unless_more_are_asked_for(manager):
    agent = Agent()
    for _ in range(52):
        await manager.save(agent)
    assert len(await manager.list_by_user("u")) == 50
    assert len(await manager.list_by_agent("ada", limit=100)) == 52


async def test_a_kind_selects(manager):
    agent = Agent()
    routine = await manager.save(agent, kind="routine")
    manual = await manager.save(agent)
    assert await ids(manager.list_by_agent("ada", kind="routine")) == [routine]
    assert (await manager.latest("ada", kind="routine")).id == routine
    assert (await manager.latest("ada")).id == manual
    assert await manager.latest("ada", kind="recovery") is None
    with pytest.raises(InvalidArgument, match="rutine"):
        await manager.latest("ada", kind="rutine")


async def test_of_something_unknown_there_is_nothing_to_list(manager):
    assert await manager.list_by_user("nobody") == []
    assert await manager.list_by_agent("nobody") == []
    assert await manager.latest("nobody") is None
    assert await manager.history("nobody") == []
    assert await manager.delete("chk_none") is False


async def test_only_a_scoped_manager_knows_which_user_is_meant(manager, storage):
    id_ = await manager.save(Agent())
    with pytest.raises(InvalidArgument, match="user_id"):
        await manager.list_by_user()
    assert await ids(CheckpointManager(storage, user_id="u").list_by_user()) == [id_]


async def test_ancestors_are_nearest_first_and_show_what_was_deleted_as_gaps(manager):
    agent = Agent()
    made = [await manager.save(agent.step(n)) for n in range(4)]
    await manager.delete(made[1])
    found = await manager.ancestors(made[3])
    assert [checkpoint.id for checkpoint in found] == [made[2], made[1], made[0]]
    assert [checkpoint.deleted for checkpoint in found] == [False, True, False]
    assert found[1].state is None
    assert found[1].metadata == {}
    assert [checkpoint.id for checkpoint in await manager.ancestors(made[3], limit=1)] == [made[2]]
    assert await manager.ancestors(made[0]) == []


async def test_deleting_a_parent_breaks_no_child(manager):
    agent = Agent()
    made = [await manager.save(agent.step(n)) for n in range(20)]
    for id_ in made[:-1]:
        assert await manager.delete(id_)
    assert (await manager.restore(made[-1])).state == {"steps": list(range(20))}
    with pytest.raises(UnknownCheckpoint):
        await manager.load(made[0])


async def test_compare_tells_what_changed_by_path(manager):
    agent = Agent()
    agent.collected_fields = {"guests": 2}
    agent.state = {"messages": [{"role": "user", "content": "hello"}]}
    first = await manager.save(agent)
    agent.status = "COMPLETED"
    agent.collected_fields = {"guests": 4}
    agent.state = {"messages": [{"role": "user", "content": "hello there"}]}
    diff = await manager.compare(first, await manager.save(agent))
    assert (diff.old_status, diff.new_status) == ("RUNNING", "COMPLETED")
    assert "guests" in str(diff.changed_fields)
    assert "state.messages[0].content" in {change.path for change in diff.changes}
    assert "COMPLETED" in str(diff)
    assert not (await manager.compare(first, first)).changes


# --- scoped to a user


async def test_a_scoped_manager_answers_for_others_as_for_nobody(manager, storage):
    mine, theirs = await manager.save(Agent("ada", "u")), await manager.save(Agent("eve", "v"))
    group = await manager.save_group([Agent("ada", "u"), Agent("eve", "v")])
    scoped = CheckpointManager(storage, user_id="u")
    scoped.register(Agent)
    for call in (scoped.load, scoped.restore, scoped.fork, scoped.ancestors, scoped.pin):
        with pytest.raises(UnknownCheckpoint):
            await call(theirs)
    with pytest.raises(UnknownCheckpoint):
        await scoped.compare(mine, theirs)
    with pytest.raises(UnknownGroup):
        await scoped.restore_group(group)
    assert await scoped.list_by_user("v") == []
    assert await scoped.list_by_agent("eve") == []
    assert await scoped.history("eve") == []
    assert await scoped.delete(theirs) is False
    assert await scoped.clear_user_history("v") == 0
    assert (await manager.load(theirs)).id == theirs
    assert (await scoped.restore(mine)).agent_id == "ada"


async def test_a_scoped_manager_saves_its_users_agents_only(storage):
    scoped = CheckpointManager(storage, user_id="u")
    with pytest.raises(WrongOwner) as caught:
        await scoped.save(Agent("eve", "v"))
    assert caught.value.agent_id == "eve"
    assert await storage.agents() == []


async def test_a_scoped_manager_cleans_up_and_finds_what_was_interrupted_for_its_user_only(manager, storage, clock):
    for agent in (Agent("ada", "u"), Agent("eve", "v")):
        with pytest.raises(ZeroDivisionError):
            async with manager.operation(agent, "deploy"):
                raise ZeroDivisionError
        for _ in range(2):
            await manager.save(agent)
    clock.pass_days(60)
    scoped = CheckpointManager(storage, user_id="u", now=clock)
    assert [one.agent_id for one in await scoped.interrupted_operations()] == ["ada"]
    assert await scoped.cleanup_old_checkpoints() == 1
    assert len(await manager.list_by_agent("eve")) == 3

"""Groups: several agents in one commit, and all of them or none come back."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import InvalidArgument, UnknownGroup, UnknownValueType
from tests.unit.durable.samples import Agent


def several(*names, user_id="u"):
    return [Agent(name, user_id).step(name) for name in names]


async def test_a_group_comes_back_in_the_order_in_which_it_was_given(manager):
    group = await manager.save_group(several("zoe", "ada", "mia"), kind="routine", metadata={"cut": 1})
    assert group.startswith("grp_")
    restored = await manager.restore_group(group)
    assert [(agent.agent_id, agent.state) for agent in restored] == [
        (name, {"steps": [name]}) for name in ("zoe", "ada", "mia")
    ]


async def test_a_group_is_one_commit(manager):
    group = await manager.save_group(several("zoe", "ada"), metadata={"cut": 1})
    found = await manager.list_by_user("u")
    assert len({checkpoint.commit_number for checkpoint in found}) == 1
    assert {(one.group_id, one.group_place, one.metadata["cut"]) for one in found} == {
        (group, (0, 2), 1), (group, (1, 2), 1)
    }  # fmt: skip


async def test_a_group_is_saved_whole_or_not_at_all(manager, storage):
    good, bad = several("good", "bad")
    bad.state = {"socket": object()}
    with pytest.raises(UnknownValueType):
        await manager.save_group([good, bad])
    await manager.save(Agent("theirs", "v"))
    with pytest.raises(Exception, match="another user"):
        await manager.save_group([good, Agent("theirs", "u")])
    assert [info.agent_id for info in await storage.agents()] == ["theirs"]


async def test_members_go_on_from_the_group(manager):
    agents = several("zoe", "ada")
    group = await manager.save_group(agents)
    [zoe, _] = await manager.restore_group(group)
    member = await manager.latest("zoe")
    assert (await manager.load(await manager.save(zoe))).parent_checkpoint_id == member.id
    assert (await manager.load(await manager.save(agents[0]))).parent_checkpoint_id == member.id


async def test_a_lost_member_is_named(manager):
    group = await manager.save_group(several("zoe", "ada", "mia"))
    await manager.delete((await manager.latest("ada")).id)
    with pytest.raises(UnknownGroup, match="number 2 of 3") as caught:
        await manager.restore_group(group)
    assert caught.value.group_id == group


async def test_a_group_that_lost_all_is_unknown(manager):
    group = await manager.save_group(several("zoe"))
    await manager.delete((await manager.latest("zoe")).id)
    for unknown in (group, "grp_none"):
        with pytest.raises(UnknownGroup, match=unknown):
            await manager.restore_group(unknown)


async def test_two_objects_of_one_agent_are_no_group(manager):
    with pytest.raises(InvalidArgument, match="two objects"):
        await manager.save_group(several("ada", "ada"))
    with pytest.raises(InvalidArgument, match="at least one"):
        await manager.save_group([])
    assert await manager.list_by_user("u") == []


async def test_groups_and_saves_of_the_same_agents_at_once_wait_for_each_other(manager):
    ada, zoe = several("ada", "zoe")
    await asyncio.gather(
        manager.save_group([ada, zoe]),
        manager.save_group([zoe, ada]),
        manager.save(ada),
        manager.save_group([ada, zoe]),
    )
    for agent, count in ((ada, 4), (zoe, 3)):
        newest = await manager.latest(agent.agent_id)
        assert len(await manager.ancestors(newest.id)) == count - 1

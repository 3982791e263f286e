"""What goes by itself, what never does, and that a save comes first."""

from __future__ import annotations

import logging

import pytest

from holdfast import (
    CheckpointManager,
    Corrupt,
    InMemoryCheckpointStorage,
    InvalidArgument,
    Policy,
    SQLiteCheckpointStorage,
    StorageFailed,
)
from tests.unit.durable.samples import Agent, ThreeMethods, Undeletable, ids


async def kinds(manager, agent_id="ada"):
    return [checkpoint.kind for checkpoint in await manager.list_by_agent(agent_id, limit=1000)]


async def test_the_last_three_routine_checkpoints_of_each_agent_stay(manager):
    for name in ("ada", "eve"):
        agent = Agent(name)
        made = [await manager.save(agent.step(n), kind="routine") for n in range(5)]
        assert await ids(manager.list_by_agent(name)) == made[:1:-1]
    assert len(await manager.list_by_user("u")) == 6


async def test_other_kinds_do_not_count_as_routine(manager):
    agent = Agent()
    for kind in ("routine", "manual", "auto", "recovery", "pre_operation", "workflow") * 5:
        await manager.save(agent, kind=kind)
    found = await kinds(manager)
    assert {kind: found.count(kind) for kind in set(found)} == {
        "routine": 3, "manual": 5, "auto": 5, "recovery": 5, "pre_operation": 5, "workflow": 5
    }  # fmt: skip


async def test_a_pinned_checkpoint_stays_until_it_is_unpinned(manager):
    agent = Agent()
    kept = await manager.save(agent, kind="routine", pinned=True)
    later = await manager.save(agent, kind="routine")
    await manager.pin(later)
    for _ in range(5):
        await manager.save(agent, kind="routine")
    listed = await ids(manager.list_by_agent("ada"))
    assert kept in listed
    assert later in listed
    assert (await manager.load(later)).pinned
    await manager.pin(kept, pinned=False)
    await manager.save(agent, kind="routine")
    assert kept not in await ids(manager.list_by_agent("ada"))


async def test_recovery_checkpoints_stay_seven_days(manager, clock):
    agent = Agent()
    await manager.save(agent, kind="recovery")
    clock.pass_days(6)
    second = await manager.save(agent, kind="recovery")
    clock.pass_days(1.5)
    third = await manager.save(agent, kind="recovery")
    assert await ids(manager.list_by_agent("ada")) == [third, second]


async def test_recovery_checkpoints_go_after_seven_days_however_many_there_are(manager, clock):
    agent = Agent()
    for _ in range(10 * 24 // 4):
        await manager.save(agent, kind="recovery")
        clock.pass_days(4 / 24)
    assert len(await manager.list_by_agent("ada", limit=100)) == 7 * 24 // 4 + 1


async def test_the_newest_of_an_agent_stays_however_old_it_is(manager, clock):
    id_ = await manager.save(Agent(), kind="recovery")
    clock.pass_days(100)
    assert await manager.cleanup_old_checkpoints(max_age_days=1) == 0
    assert (await manager.collect_garbage())["retired"] == 0
    assert await ids(manager.list_by_agent("ada")) == [id_]


async def test_pre_operation_checkpoints_stay_until_their_operation_completes(manager, clock):
    agent = Agent()
    for _ in range(5):
        await manager.save(agent, kind="pre_operation")
    clock.pass_days(1000)
    await manager.save(agent)
    assert await manager.cleanup_old_checkpoints(max_age_days=1) == 0
    assert (await manager.collect_garbage())["retired"] == 0
    assert (await kinds(manager)).count("pre_operation") == 5


async def test_clean_up_retires_what_is_older_and_says_how_many(manager, clock):
    agent = Agent()
    await manager.save(agent)
    pinned = await manager.save(agent, pinned=True)
    clock.pass_days(29)
    young = await manager.save(agent)
    clock.pass_days(2)
    newest = await manager.save(agent)
    assert await manager.cleanup_old_checkpoints() == 1
    assert await ids(manager.list_by_agent("ada")) == [newest, young, pinned]
    assert await manager.cleanup_old_checkpoints() == 0
    assert await manager.cleanup_old_checkpoints(max_age_days=1) == 1
    assert await ids(manager.list_by_agent("ada")) == [newest, pinned]


async def test_a_plan_changes_nothing_and_is_what_garbage_collection_carries_out(storage, clock):
    generous = CheckpointManager(storage, retention=Policy(routine_per_agent=None), now=clock)
    agent = Agent()
    made = [await generous.save(agent, kind="routine") for _ in range(5)]
    manager = CheckpointManager(storage, now=clock)
    planned = await manager.plan_retirement()
    assert [removal.checkpoint_id for removal in planned] == [made[1], made[0]]
    assert "routine" in planned[0].reason
    assert len(await manager.list_by_agent("ada")) == 5
    assert (await manager.collect_garbage())["retired"] == 2
    assert await ids(manager.list_by_agent("ada")) == made[:1:-1]


# --- limits per user and in all


@pytest.fixture(params=["memory", "sqlite"])
def limited(request, tmp_path, clock):
    """A manager on a storage that was given limits."""

    def open_(*, per_user=None, total=None):
        policy = None
        if request.param == "memory":
            storage = InMemoryCheckpointStorage(max_checkpoints=total)
            policy = Policy(per_user=per_user, total=total) if per_user else None
        else:
            storage = SQLiteCheckpointStorage(
                tmp_path / "s.db", max_checkpoints_per_user=per_user, max_checkpoints=total
            )
        return CheckpointManager(storage, retention=policy, now=clock)

    return open_


async def test_a_users_oldest_go_beyond_the_users_limit_and_other_users_do_not_mind(limited):
    async with limited(per_user=4) as manager:
        theirs = [await manager.save(Agent("eve", "v")) for _ in range(2)]
        agent = Agent()
        made = [await manager.save(agent, kind=kind) for kind in ("manual", "auto", "workflow") * 3]
        assert await ids(manager.list_by_user("u")) == made[:-5:-1]
        assert await ids(manager.list_by_user("v")) == theirs[::-1]


async def test_the_oldest_of_all_go_beyond_the_total_limit(limited):
    async with limited(total=4) as manager:
        eve = Agent("eve", "v")
        theirs = [await manager.save(eve) for _ in range(2)]
        agent = Agent()
        made = [await manager.save(agent) for _ in range(4)]
        assert await ids(manager.list_by_user("u")) == made[::-1][:4]
        assert await ids(manager.list_by_user("v")) == theirs[1:], "each agent's newest stays: limits are soft"


async def test_the_pinned_and_each_agents_newest_stay_beyond_a_limit(limited):
    async with limited(per_user=2) as manager:
        pinned = await manager.save(Agent(), pinned=True)
        newest = [await manager.save(Agent(f"one-{n}")) for n in range(5)]
        agent = Agent("busy")
        for _ in range(5):
            await manager.save(agent)
        listed = await ids(manager.list_by_user("u"))
        assert pinned in listed
        assert set(newest) <= set(listed)
        assert len(await manager.list_by_agent("busy")) == 2


async def test_more_agents_than_the_limit_do_not_grow_the_store(limited):
    """Each agent's newest is beyond the limit, and free only when that agent saves again."""
    async with limited(total=3) as manager:
        agents = [Agent(f"agent-{n}") for n in range(25)]  # more than one save looks at beyond the limit
        for _ in range(3):
            for agent in agents:
                await manager.save(agent)
        assert len(await manager.list_by_user("u", limit=1000)) == 25


@pytest.mark.parametrize(("agents", "protected"), [(1, 0), (50, 4)])
async def test_a_large_limit_which_is_looked_at_less_often_holds_too(agents, protected):
    manager = CheckpointManager(InMemoryCheckpointStorage(), retention=Policy(total=2000))
    for agent in [Agent(f"agent-{n}") for n in range(agents)]:
        for _ in range(2200 // agents):
            await manager.save(agent)
    assert len(await manager.list_by_user("u", limit=10_000)) <= 2001 + protected


# --- a save comes first


@pytest.mark.parametrize("error", [Corrupt("a damaged row"), StorageFailed("a full moon")])
@pytest.mark.parametrize("kind", ["routine", "manual", "recovery"])
async def test_a_save_never_fails_because_something_cannot_be_deleted(error, kind, clock, caplog):
    policy = Policy(routine_per_agent=1, per_user=1, recovery_days=1)
    manager = CheckpointManager(Undeletable(error), retention=policy, now=clock)
    agent = Agent()
    with caplog.at_level(logging.WARNING, "holdfast"):
        made = []
        for _ in range(3):
            made.append(await manager.save(agent, kind=kind))
            clock.pass_days(2)
    assert await ids(manager.list_by_agent("ada")) == made[::-1]
    assert str(error) in caplog.text
    assert (await manager.load(made[2])).parent_checkpoint_id == made[1]


async def test_a_storage_of_three_methods_keeps_what_it_cannot_delete(caplog):
    manager = CheckpointManager(ThreeMethods())
    agent = Agent()
    made = [await manager.save(agent, kind="routine") for _ in range(5)]
    assert await ids(manager.list_by_user("u")) == made[::-1]
    assert "delete" in caplog.text


async def test_what_a_storage_raises_in_delete_fails_no_save():
    class Broken(ThreeMethods):
        async def delete(self, checkpoint_id):
            raise OSError(5, "broken disk")

    manager = CheckpointManager(Broken(), retention=Policy(routine_per_agent=1))
    agent = Agent()
    made = [await manager.save(agent, kind="routine") for _ in range(3)]
    parents = [(await manager.load(id_)).parent_checkpoint_id for id_ in made]
    assert parents == [None, *made[:2]]


async def test_a_limit_of_a_storage_without_lists_of_all_users_fails_no_save():
    manager = CheckpointManager(ThreeMethods(), retention=Policy(total=1))
    agent = Agent()
    assert [await manager.save(agent) for _ in range(2)]


@pytest.mark.parametrize("days", [10**9, 1e300, float("inf"), 10**30])
async def test_any_number_of_days_is_an_age(clock, days):
    manager = CheckpointManager(InMemoryCheckpointStorage(), now=clock, retention=Policy(recovery_days=days))
    for _ in range(3):
        await manager.save(Agent(), kind="recovery")
        clock.pass_days(400)
    assert await manager.cleanup_old_checkpoints(max_age_days=days) == 0
    assert len(await kinds(manager)) == 3


@pytest.mark.parametrize("days", [-1, float("nan")])
async def test_what_is_no_number_of_days_is_refused(manager, days):
    with pytest.raises(InvalidArgument, match="days"):
        await manager.cleanup_old_checkpoints(max_age_days=days)

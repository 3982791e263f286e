"""What comes back: live agents, by class or factory, with their status, and old states brought up."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, DuplicateId, InvalidArgument, UnknownAgentType, UnknownCheckpoint
from tests.unit.durable.samples import Agent, Level, Mood, Phase, ids


async def test_an_agent_comes_back_as_it_was(manager):
    agent = Agent("ada", "u").step(1)
    agent.status = "PAUSED"
    restored = await manager.restore(await manager.save(agent))
    assert type(restored) is Agent
    assert restored is not agent
    assert (restored.agent_id, restored.user_id, restored.status) == ("ada", "u", "PAUSED")
    assert restored.state == {"steps": [1]}


async def test_restoring_writes_nothing(manager, storage):
    id_ = await manager.save(Agent())
    before = await storage.agent("ada")
    await manager.restore(id_)
    assert await storage.agent("ada") == before


async def test_the_status_is_set_before_the_state_is_restored(manager):
    class Ordered(Agent):
        def restore_state(self, state):
            self.seen = self.status

    manager.register(Ordered)
    agent = Ordered()
    agent.status = "ERROR"
    assert (await manager.restore(await manager.save(agent))).seen == "ERROR"


@pytest.mark.parametrize(("fresh", "status", "kept"), [
    (Mood.CALM, Mood.BUSY, "BUSY"), (Phase.START, Phase.END, "phase-end"), (Level.LOW, Level.HIGH, "HIGH"),
])  # fmt: skip
async def test_an_enum_status_comes_back_as_its_member(manager, fresh, status, kept):
    class Moody(Agent):
        def __init__(self, agent_id, user_id):
            super().__init__(agent_id, user_id)
            self.status = fresh

    manager.register(Moody)
    agent = Moody("m", "u")
    agent.status = status
    id_ = await manager.save(agent)
    assert (await manager.load(id_)).status == kept
    assert (await manager.restore(id_)).status is status


async def test_a_status_that_is_computed_is_the_agents_own_business(manager):
    class Computed(Agent):
        def __init__(self, agent_id, user_id):
            self.agent_id, self.user_id, self.state = agent_id, user_id, {"done": True}

        @property
        def status(self):
            return "DONE" if self.state["done"] else "OPEN"

    manager.register(Computed)
    assert (await manager.restore(await manager.save(Computed("c", "u")))).status == "DONE"


async def test_a_factory_gets_the_checkpoint_and_may_be_async(manager):
    async def make(checkpoint):
        agent = Agent(checkpoint.agent_id, checkpoint.user_id)
        agent.tools = checkpoint.metadata["tools"]
        return agent

    manager.register(make, name="Agent")
    restored = await manager.restore(await manager.save(Agent().step(1), metadata={"tools": ["hammer"]}))
    assert (restored.tools, restored.state) == (["hammer"], {"steps": [1]})


async def test_registering_a_name_again_replaces_it(manager):
    class Other(Agent):
        pass

    manager.register(Other, name="Agent")
    assert type(await manager.restore(await manager.save(Agent()))) is Other


async def test_an_unknown_type_is_named(storage):
    manager = CheckpointManager(storage)
    id_ = await manager.save(Agent())
    with pytest.raises(UnknownAgentType, match="Agent") as caught:
        await manager.restore(id_)
    assert (caught.value.agent_type, caught.value.agent_id, caught.value.checkpoint_id) == ("Agent", "ada", id_)


async def test_what_cannot_be_registered_is_refused(manager):
    with pytest.raises(InvalidArgument, match="name"):
        manager.register(lambda checkpoint: None)
    with pytest.raises(InvalidArgument, match="neither"):
        manager.register("Agent")


@pytest.mark.parametrize("call", ["load", "restore", "fork", "ancestors", "pin"])
async def test_an_unknown_id_is_named(manager, call):
    with pytest.raises(UnknownCheckpoint, match="chk_none") as caught:
        await getattr(manager, call)("chk_none")
    assert caught.value.checkpoint_id == "chk_none"


# --- versions of states


async def test_upgrades_bring_an_old_state_up_step_by_step(manager):
    old = await manager.save(Agent().step("a"))
    cls = type("Agent", (Agent,), {"state_version": 3})
    manager.register(
        cls, upgrades={1: lambda state: {"actions": state["steps"]}, 2: lambda state: {"log": state["actions"]}}
    )
    restored = await manager.restore(old)
    assert restored.state == {"log": ["a"]}
    new = await manager.save(restored)
    assert (await manager.load(new)).state_version == 3
    assert (await manager.restore(new)).state == {"log": ["a"]}


async def test_a_class_that_states_no_version_is_at_the_one_its_upgrades_lead_to(manager):
    old = await manager.save(Agent().step("a"))
    manager.register(Agent, upgrades={1: lambda state: {"log": state["steps"]}})
    restored = await manager.restore(old)
    again = await manager.restore(await manager.save(restored))
    assert again.state == {"log": ["a"]}


async def test_an_upgrade_beyond_the_version_that_a_class_states_is_refused(manager):
    with pytest.raises(InvalidArgument, match="upgrade from 2") as caught:
        manager.register(type("Agent", (Agent,), {"state_version": 2}), upgrades={1: dict, 2: dict})
    assert "state_version = 3" in caught.value.hint


async def test_a_missing_upgrade_is_named(manager):
    old = await manager.save(Agent())
    manager.register(type("Agent", (Agent,), {"state_version": 3}), upgrades={2: dict})
    with pytest.raises(InvalidArgument, match="no upgrade from 1") as caught:
        await manager.restore(old)
    assert caught.value.checkpoint_id == old


async def test_a_state_of_newer_code_is_refused(manager):
    new = type("Agent", (Agent,), {"state_version": 2})
    id_ = await manager.save(new())
    manager.register(type("Agent", (Agent,), {"state_version": 1}))
    with pytest.raises(InvalidArgument, match="version 2"):
        await manager.restore(id_)


async def test_an_upgrade_does_not_touch_what_is_stored(manager):
    old = await manager.save(Agent().step("a"))

    def spoil(state):
        state["steps"].clear()
        return state

    manager.register(Agent, upgrades={1: spoil})
    await manager.restore(old)
    assert (await manager.load(old)).state == {"steps": ["a"]}


# --- forks


async def test_a_fork_is_a_new_agent_that_shares_the_past(manager):
    agent = Agent()
    first = await manager.save(agent.step(1))
    second = await manager.save(agent.step(2))
    fork = await manager.fork(first, agent_id="eve")
    assert (fork.agent_id, fork.user_id, fork.state) == ("eve", "u", {"steps": [1]})
    own = await manager.latest("eve")
    assert (own.parent_checkpoint_id, own.metadata["forked_from"]) == (first, first)
    later = await manager.save(fork.step("eve's"))
    assert await ids(manager.ancestors(later)) == [own.id, first]
    assert [record.id for record in await manager.history("eve") if record.type == "checkpoint"] == [
        first,
        own.id,
        later,
    ]
    assert (await manager.latest("ada")).id == second


async def test_a_fork_without_a_name_gets_one(manager):
    fork = await manager.fork(await manager.save(Agent()))
    assert fork.agent_id.startswith("ada-")


async def test_a_fork_needs_a_new_name(manager):
    first = await manager.save(Agent())
    await manager.save(Agent("eve"))
    with pytest.raises(DuplicateId, match="eve"):
        await manager.fork(first, agent_id="eve")


async def test_a_fork_that_nothing_could_rebuild_is_not_made(storage):
    manager = CheckpointManager(storage)
    first = await manager.save(Agent())
    with pytest.raises(UnknownAgentType):
        await manager.fork(first, agent_id="eve")
    assert await storage.agent("eve") is None


async def test_a_fork_outlives_what_it_came_from(manager):
    first = await manager.save(Agent().step(1))
    fork = await manager.fork(first, agent_id="eve")
    await manager.delete(first)
    assert (await manager.restore((await manager.latest("eve")).id)).state == {"steps": [1]}
    [own, gap] = await manager.ancestors(await manager.save(fork))
    assert (own.deleted, gap.id, gap.deleted) == (False, first, True)


async def test_an_agent_that_saves_itself_is_given_the_manager_it_was_restored_by(manager):
    class Saving(Agent):
        checkpoint_manager = None

    manager.register(Saving)
    assert (await manager.restore(await manager.save(Saving()))).checkpoint_manager is manager

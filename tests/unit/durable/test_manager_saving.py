"""What `save` makes of a live agent, and where the next checkpoint goes on from."""

from __future__ import annotations

import asyncio
import math

import pytest

from holdfast import (
    CheckpointManager,
    InMemoryCheckpointStorage,
    InvalidArgument,
    MissingMethod,
    TooLarge,
    UnknownCheckpoint,
    UnknownValueType,
    WrongOwner,
)
from tests.unit.durable.samples import Agent, ThreeMethods, ids


async def parent_of(manager, checkpoint_id):
    return (await manager.load(checkpoint_id)).parent_checkpoint_id


async def test_everything_the_agent_tells_is_in_the_checkpoint(manager, clock):
    agent = Agent()
    agent.status = "WAITING_FOR_INPUT"
    agent.collected_fields = {"guests": 4}
    agent.required_fields = ["when"]
    agent.context_summary = "a table"
    agent.state_version = 3
    id_ = await manager.save(agent, kind="auto", metadata={"label": ("before", 1)}, operation="book", pinned=True)
    found = await manager.load(id_)
    assert id_.startswith("chk_")
    assert (found.id, found.agent_id, found.agent_type, found.user_id) == (id_, "ada", "Agent", "u")
    assert (found.status, found.kind, found.operation, found.pinned) == ("WAITING_FOR_INPUT", "auto", "book", True)
    assert (found.collected_fields, found.required_fields, found.context_summary) == (
        {"guests": 4},
        ["when"],
        "a table",
    )
    assert (found.metadata, found.timestamp, found.state_version) == ({"label": ("before", 1)}, clock.time, 3)
    assert (found.state, found.parent_checkpoint_id, found.position) == ({"steps": []}, None, 1)


async def test_a_checkpoint_is_the_moment_of_the_call_whatever_the_agent_does_afterwards(manager):
    agent = Agent().step(1)
    agent.collected_fields = {"inner": {"n": 1}}
    metadata = {"inner": [1]}
    saving = asyncio.ensure_future(manager.save(agent, metadata=metadata))
    await asyncio.sleep(0)
    agent.step(2)
    agent.collected_fields["inner"]["n"] = 2
    metadata["inner"].append(2)
    found = await manager.load(await saving)
    assert found.state == {"steps": [1]}
    assert found.collected_fields == {"inner": {"n": 1}}
    assert found.metadata == {"inner": [1]}


async def test_a_loaded_checkpoint_shares_nothing_with_the_store(manager):
    id_ = await manager.save(Agent().step([1]), metadata={"tags": ["a"]})
    found = await manager.load(id_)
    found.state["steps"][0].append(2)
    found.metadata["tags"].append("b")
    again = await manager.load(id_)
    assert (again.state, again.metadata) == ({"steps": [[1]]}, {"tags": ["a"]})


async def test_odd_metadata_comes_back_exactly(manager):
    metadata = {"nan": math.nan, "set": {1, 2}, "tuple": (1,), "bytes": b"\0", "int": 10**30, "ä": None}
    found = await manager.load(await manager.save(Agent(), metadata=metadata))
    assert math.isnan(found.metadata.pop("nan"))
    del metadata["nan"]
    assert found.metadata == metadata
    assert type(found.metadata["tuple"]) is tuple


async def test_an_async_checkpoint_state_is_awaited(manager):
    class Slow(Agent):
        async def checkpoint_state(self):
            await asyncio.sleep(0)
            return {"slow": True}

    assert (await manager.load(await manager.save(Slow()))).state == {"slow": True}


async def test_each_save_of_an_object_goes_on_from_the_one_before(manager):
    agent = Agent()
    first, second, third = [await manager.save(agent.step(n)) for n in range(3)]
    assert await parent_of(manager, first) is None
    assert await parent_of(manager, second) == first
    assert await parent_of(manager, third) == second


async def test_an_object_that_came_from_none_continues_the_newest(manager):
    await manager.save(Agent())
    newest = await manager.save(Agent())
    assert await parent_of(manager, await manager.save(Agent())) == newest


async def test_restore_then_save_is_a_branch(manager):
    agent = Agent()
    first = await manager.save(agent)
    second = await manager.save(agent.step(1))
    restored = await manager.restore(first)
    branch = await manager.save(restored.step("other"))
    assert await parent_of(manager, branch) == first
    rewinds = [record.to for record in await manager.history("ada") if record.type == "rewind"]
    assert rewinds == [(await manager.load(first)).position]
    assert await ids(manager.list_by_agent("ada")) == [branch, second, first]


async def test_several_live_objects_of_one_agent_each_go_on_from_their_own(manager):
    first = await manager.save(Agent())
    one, other = await manager.restore(first), await manager.restore(first)
    from_one = await manager.save(one.step("one"))
    from_other = await manager.save(other.step("other"))
    again = await manager.save(one.step("one more"))
    assert await parent_of(manager, from_one) == first
    assert await parent_of(manager, from_other) == first
    assert await parent_of(manager, again) == from_one
    assert (await manager.load(again)).state == {"steps": ["one", "one more"]}


async def test_what_one_manager_restored_another_of_the_same_storage_goes_on_from(manager, storage):
    first = await manager.save(Agent())
    await manager.save(Agent())
    restored = await manager.restore(first)
    assert await parent_of(manager, await CheckpointManager(storage).save(restored)) == first


async def test_equal_agents_are_two_and_agents_without_hash_or_weak_references_are_fine(manager):
    class Equal(Agent):
        __hash__ = None

        def __eq__(self, other):
            return True

    class Slotted:
        __slots__ = ("agent_id", "state", "status", "user_id")
        checkpoint_state = Agent.checkpoint_state
        __init__ = Agent.__init__

        def restore_state(self, state):
            self.state = state

    for cls in (Equal, Slotted):
        a, b = cls(f"a-{cls.__name__}"), cls(f"b-{cls.__name__}")
        first, _ = await manager.save(a), await manager.save(b)
        assert await parent_of(manager, await manager.save(a)) == first


async def test_an_agent_belongs_to_the_user_of_its_first_write(manager):
    await manager.save(Agent("ada", "u"))
    with pytest.raises(WrongOwner) as caught:
        await manager.save(Agent("ada", "thief"))
    assert (caught.value.agent_id, caught.value.user_id) == ("ada", "thief")
    assert caught.value.hint
    assert await manager.list_by_user("thief") == []


async def test_a_failed_save_is_no_parent(manager):
    agent = Agent()
    first = await manager.save(agent)
    agent.state = {"bad": object()}
    with pytest.raises(UnknownValueType):
        await manager.save(agent)
    agent.state = {}
    assert await parent_of(manager, await manager.save(agent)) == first


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda agent, bad: agent.state.update(memory=[1, {"socket": bad}]), "state.memory[1].socket"),
        (lambda agent, bad: setattr(agent, "collected_fields", {"a": bad}), "collected_fields.a"),
    ],
)  # fmt: skip
async def test_a_value_that_cannot_be_kept_is_named_by_its_path(manager, change, path):
    agent = Agent()
    change(agent, object())
    with pytest.raises(UnknownValueType, match="object") as caught:
        await manager.save(agent)
    assert caught.value.path == path
    assert await manager.list_by_agent("ada") == []


@pytest.mark.parametrize("missing", ["agent_id", "user_id", "status", "checkpoint_state", "restore_state"])
async def test_what_an_agent_lacks_is_named(manager, missing):
    members = {"agent_id": "a", "user_id": "u", "status": "s", "checkpoint_state": dict, "restore_state": print}
    del members[missing]
    with pytest.raises(MissingMethod, match=f"Partial has no {missing}"):
        await manager.save(type("Partial", (), members)())


@pytest.mark.parametrize(("name", "value"), [("agent_id", ""), ("agent_id", 7), ("user_id", None)])
async def test_ids_must_be_texts(manager, name, value):
    agent = Agent()
    setattr(agent, name, value)
    with pytest.raises(InvalidArgument, match=name):
        await manager.save(agent)


@pytest.mark.parametrize("state", [None, [], "state"])
async def test_a_state_must_be_a_dict(manager, state):
    agent = Agent()
    agent.state = state
    with pytest.raises(InvalidArgument, match="not a dict"):
        await manager.save(agent)


async def test_an_unknown_kind_is_refused_with_the_list_of_those_there_are(manager):
    with pytest.raises(InvalidArgument) as caught:
        await manager.save(Agent(), kind="rutine")
    assert "routine" in caught.value.hint
    assert await manager.list_by_agent("ada") == []


async def test_a_state_above_its_cap_is_refused(storage):
    manager = CheckpointManager(storage, state_bytes_max=1000)
    agent = Agent()
    await manager.save(agent)
    agent.state = {"much": ["x" * 100] * 11}
    with pytest.raises(TooLarge) as caught:
        await manager.save(agent)
    assert (caught.value.agent_id, caught.value.path) == ("ada", "state")
    assert len(await manager.list_by_agent("ada")) == 1


async def test_a_value_above_its_cap_is_named_by_its_path(storage):
    manager = CheckpointManager(storage, value_bytes_max=1000)
    agent = Agent()
    agent.state = {"pages": [{"text": "x" * 999}, {"text": "x" * 1001}]}
    with pytest.raises(TooLarge) as caught:
        await manager.save(agent)
    assert caught.value.path == "state.pages[1].text"
    agent.state = {"pages": [{"text": "x" * 999}] * 3}
    assert await manager.save(agent)


async def test_without_a_storage_agents_are_kept_in_memory():
    manager = CheckpointManager()
    manager.register(Agent)
    restored = await manager.restore(await manager.save(Agent().step(1)))
    assert (type(manager.storage), restored.state) == (InMemoryCheckpointStorage, {"steps": [1]})


async def test_a_storage_of_three_methods_is_enough_to_save_restore_list_and_compare():
    manager = CheckpointManager(ThreeMethods())
    manager.register(Agent)
    agent = Agent()
    first, second = await manager.save(agent), await manager.save(agent.step(1))
    assert (await manager.restore(first)).state == {"steps": []}
    assert await parent_of(manager, second) == first
    assert await ids(manager.list_by_user("u")) == [second, first]
    assert (await manager.compare(first, second)).changes
    with pytest.raises(UnknownCheckpoint):
        await manager.load("chk_none")
    with pytest.raises(MissingMethod, match="delete"):
        await manager.delete(first)


async def test_a_storage_that_has_no_hash_serves_a_manager():
    class Equal(ThreeMethods):
        __hash__ = None

        def __eq__(self, other):
            return True

    manager = CheckpointManager(Equal())
    assert await manager.save(Agent())
    await manager.close()

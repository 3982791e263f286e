"""A model's agent and the checkpoint manager: saved, restored, rewound, compared and forked."""

from __future__ import annotations

import pytest

from holdfast.durable.manager import CheckpointManager
from holdfast.errors import WrongAgent
from holdfast.history.fold import live_path
from holdfast.history.records import Rewind, UserMessage
from tests.openai_server import Says
from tests.unit.agents.model.conftest import Killed, types


def prompts(request):
    return [one["content"] for one in request["messages"] if one["role"] == "user"]


@pytest.fixture
def manager(store, agent_with):
    manager = CheckpointManager(store)
    manager.register(lambda found: agent_with(agent_id=found.agent_id, user_id=found.user_id), name="ModelAgent")
    return manager


@pytest.fixture
def server(model):
    return model(script=lambda request: Says(f"answer {len(prompts(request))}"))


async def test_a_checkpoint_shows_the_conversation(server, manager, agent_with):
    agent = agent_with(user_id="ada")
    await agent.run("one")
    checkpoint = await manager.load(await manager.save(agent))
    assert (checkpoint.agent_type, checkpoint.user_id, checkpoint.status) == ("ModelAgent", "ada", "WAITING_FOR_INPUT")
    assert checkpoint.context_summary == "answer 1"
    assert checkpoint.state == {
        "agent_id": "a",
        "position": 2,
        "messages": [
            {"type": "user_message", "content": "one"},
            {"type": "assistant_message", "content": "answer 1", "toolCalls": []},
        ],
    }


async def test_an_agent_that_has_read_nothing_yet_is_saved_whole(server, manager, agent_with):
    await agent_with().run("one")
    checkpoint = await manager.load(await manager.save(agent_with()))
    assert len(checkpoint.state["messages"]) == 2


async def test_two_checkpoints_are_compared_message_by_message(server, manager, agent_with):
    agent = agent_with()
    await agent.run("one")
    first = await manager.save(agent)
    await agent.run("two")
    diff = await manager.compare(first, await manager.save(agent))
    assert "state.messages[2]" in diff.changed_fields
    assert 'user: "two"' in str(diff)


async def test_going_back_shortens_what_the_model_is_told(server, manager, agent_with, store):
    agent = agent_with()
    await agent.run("one")
    early = await manager.save(agent)
    await agent.run("two")
    await manager.save(agent)
    restored = await manager.restore(early)
    assert await restored.recover() is None
    assert not any(isinstance(one, Rewind) for one in await store.read("a"))
    await restored.run("three")
    assert prompts(server.requests[-1]) == ["one", "three"]
    later = await manager.save(restored)
    assert [one.id for one in await manager.ancestors(later)] == [early]
    path = [one.content for one in live_path(await store.read("a")) if isinstance(one, UserMessage)]
    assert path == ["one", "three"]
    await agent_with().run("four")
    assert prompts(server.requests[-1]) == ["one", "three", "four"]


async def test_going_back_to_the_newest_checkpoint_drops_what_was_said_since(server, manager, agent_with):
    agent = agent_with()
    await agent.run("one")
    saved = await manager.save(agent)
    await agent.run("two")
    restored = await manager.restore(saved)
    await restored.run("three")
    assert prompts(server.requests[-1]) == ["one", "three"]
    await restored.run("four")
    assert prompts(server.requests[-1]) == ["one", "three", "four"]


async def test_a_restored_agent_that_is_saved_again_is_the_same(server, manager, agent_with):
    agent = agent_with()
    await agent.run("one")
    saved = await manager.save(agent)
    await agent.run("two")
    again = await manager.save(await manager.restore(saved))
    assert (await manager.load(again)).state == (await manager.load(saved)).state
    restored = await manager.restore(again)
    await restored.run("three")
    assert prompts(server.requests[-1]) == ["one", "three"]
    await manager.save(restored)
    await restored.run("four")
    assert prompts(server.requests[-1]) == ["one", "three", "four"]


async def test_going_back_and_forth(server, manager, agent_with):
    agent = agent_with()
    await agent.run("one")
    first = await manager.save(agent)
    await agent.run("two")
    second = await manager.save(agent)
    back = await manager.restore(first)
    await back.run("three")
    forth = await manager.restore(second)
    await forth.run("four")
    assert prompts(server.requests[-1]) == ["one", "two", "four"]


async def test_a_checkpoint_in_the_middle_of_a_run_is_gone_on_from(model, manager, agent_with, store):
    saved = []
    agents = []

    async def keep() -> str:
        saved.append(await manager.save(agents[0]))
        return "kept"

    server = model(Says("", [("c1", "keep", {})]), Says("done"), Says("more"))
    manager.register(lambda found: agent_with(keep, agent_id=found.agent_id), name="ModelAgent")
    agents.append(agent_with(keep))
    await agents[0].run("one")
    await agents[0].run("two")
    restored = await manager.restore(saved[0])
    agents[0] = restored
    assert (await restored.recover()).output == "done"
    assert prompts(server.requests[-1]) == ["one"]


async def test_a_fork_shares_the_past_and_goes_its_own_way(server, manager, agent_with, store):
    agent = agent_with()
    await agent.run("one")
    saved = await manager.save(agent)
    await agent.run("two")
    fork = await manager.fork(saved, agent_id="b")
    await fork.run("three")
    assert prompts(server.requests[-1]) == ["one", "three"]
    assert types(await store.read("b")) == ["checkpoint", "user_message", "assistant_message"]
    again = await manager.restore((await manager.latest("b")).id)
    await again.run("four")
    assert prompts(server.requests[-1]) == ["one", "four"]
    await agent_with().run("five")
    assert prompts(server.requests[-1]) == ["one", "two", "five"]
    await agent_with(agent_id="b").run("six")
    assert prompts(server.requests[-1]) == ["one", "four", "six"]


async def test_a_fork_makes_the_calls_that_its_past_left_open(model, manager, agent_with, store):
    died = []

    def act(n: int) -> int:
        if not died:
            died.append(n)
            raise Killed
        return n

    server = model(Says("", [("c1", "run_python", {"code": "n = 3\nact(n=n)"})]), Says("done"))
    manager.register(lambda found: agent_with(act, agent_id=found.agent_id, run_python=True), name="ModelAgent")
    agent = agent_with(act, run_python=True)
    with pytest.raises(Killed):
        await agent.run("one")
    saved = await manager.save(agent_with(act, run_python=True))
    fork = await manager.fork(saved, agent_id="b")
    result = await fork.recover()
    assert result.output == "done"
    assert [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"] == ["3"]
    assert types(await store.read("b"))[-3:] == ["rlm_complete", "tool_result", "assistant_message"]


async def test_a_state_of_another_agent_is_refused(server, manager, agent_with):
    agent = agent_with()
    await agent.run("one")
    other = agent_with(agent_id="c")
    other.restore_state(agent.checkpoint_state())
    with pytest.raises(WrongAgent):
        await other.run("two")


async def test_a_run_inside_a_critical_operation(server, manager, agent_with, store):
    agent = agent_with()
    async with manager.operation(agent, "deploy"):
        assert (await agent.run("one")).output == "answer 1"
        assert (await store.agent("a")).owner is not None
    assert (await store.agent("a")).owner is None


async def test_an_agent_that_a_tool_saves_after_going_back_is_where_it_is_now(model, manager, agent_with):
    def script(request):
        asked = request["messages"][-1]
        return Says("", [("c1", "keep", {})]) if asked["content"] == "three" else Says("answer")

    async def keep() -> str:
        return await manager.save(agent)

    model(script=script)
    agent = agent_with(keep)
    await agent.run("one")
    early = await manager.save(agent)
    await agent.run("two")
    await manager.restore_into(agent, early)
    await agent.run("three")
    saved = await manager.latest("a")
    messages = (await manager.load(saved.id)).state["messages"]
    assert [one["content"] for one in messages if one["type"] == "user_message"] == ["one", "three"]
    assert saved.parent_checkpoint_id == early

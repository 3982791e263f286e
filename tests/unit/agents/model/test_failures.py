"""Providers that fail, limits that are reached: the agent says so, keeps what it has, and can go on."""

from __future__ import annotations

import sys

import pytest

from holdfast.agents.model.limits import ModelLimits
from holdfast.errors import (
    Closed,
    ContextTooLong,
    InvalidArgument,
    LimitReached,
    MissingExtra,
    ModelFailed,
    OwnedElsewhere,
)
from tests.openai_server import Fails, Says
from tests.unit.agents.model.conftest import Slept, types


def double(n: int) -> int:
    return n * 2


def in_turn(*answers):
    """A script that gives each answer once, whatever is asked."""
    left = list(answers)
    return lambda _: left.pop(0)


async def test_a_provider_that_fails_for_a_while_is_asked_again(model, agent_with):
    slept = Slept()
    busy = Fails(429, {"message": "slow down"}, {"x-should-retry": "false", "retry-after": "7"})
    model(script=in_turn(busy, Fails(500, {"message": "oops"}), Says("at last")))
    assert (await agent_with(sleep=slept).run("Hi")).output == "at last"
    assert slept.seconds == [7, 2]


async def test_it_never_waits_longer_than_the_limit(model, agent_with):
    slept = Slept()
    busy = Fails(429, {"message": "slow down"}, {"x-should-retry": "false", "retry-after": "7000"})
    model(script=in_turn(busy, Says("at last")))
    await agent_with(sleep=slept).run("Hi")
    assert slept.seconds == [60]


async def test_a_provider_that_goes_on_failing_is_an_error_and_the_prompt_stays(model, agent_with, store):
    server = model(script=lambda _: Fails(500, {"message": "oops"}))
    agent = agent_with()
    with pytest.raises(ModelFailed, match=r"The model of agent a failed 3 times: ModelServerError: .*oops") as caught:
        await agent.run("Hi")
    assert caught.value.agent_id == "a"
    assert caught.value.__cause__.status_code == 500
    assert agent.status == "ERROR"
    assert types(await store.read("a")) == ["user_message"]
    server.script = lambda _: Says("now")
    assert (await agent.recover()).output == "now"
    assert await agent.recover() is None
    assert agent.status == "WAITING_FOR_INPUT"


async def test_a_failure_gives_the_agent_back(model, agent_with, store):
    model(script=lambda _: Fails(401, {"message": "who are you?"}))
    with pytest.raises(ModelFailed, match="who are you"):
        await agent_with().run("Hi")
    assert (await store.agent("a")).owner is None


async def test_a_prompt_after_a_failure_in_the_same_process_comes_on_top(model, agent_with):
    server = model(script=in_turn(Fails(401), Says("both")))
    agent = agent_with()
    with pytest.raises(ModelFailed):
        await agent.run("one")
    assert (await agent.run("two")).output == "both"
    assert [one["content"] for one in server.requests[1]["messages"]] == ["one", "two"]


async def test_what_will_not_pass_is_not_asked_again(model, agent_with):
    slept = Slept()
    server = model(script=lambda _: Fails(401, {"message": "who are you?"}))
    with pytest.raises(ModelFailed):
        await agent_with(sleep=slept).run("Hi")
    assert (len(server.requests), slept.seconds) == (1, [])


async def test_an_answer_that_is_not_whole_is_none(agent_with, store):
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    def half(messages, info):
        return ModelResponse(parts=[TextPart("to be or")], state="interrupted")

    with pytest.raises(ModelFailed, match="is interrupted"):
        await agent_with(model=FunctionModel(half)).run("Hi")
    assert types(await store.read("a")) == ["user_message"]


async def test_a_conversation_that_is_too_long_has_an_error_of_its_own(model, agent_with, store):
    too_long = {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}
    server = model(script=lambda _: Fails(400, too_long))
    with pytest.raises(ContextTooLong, match="context_length_exceeded"):
        await agent_with().run("Hi")
    assert len(server.requests) == 1
    assert types(await store.read("a")) == ["user_message"]


async def test_a_run_makes_no_more_requests_than_it_may(model, agent_with):
    server = model(*[Says("", [(f"c{n}", "double", {"n": n})]) for n in range(5)], Says("done"))
    agent = agent_with(double, limits=ModelLimits(requests_max=2))
    with pytest.raises(LimitReached, match="has made 2 requests"):
        await agent.run("Hi")
    assert len(server.requests) == 2
    result = await agent_with(double).recover()
    assert (result.output, result.usage.requests) == ("done", 6)


async def test_a_run_uses_no_more_tokens_than_it_may(model, agent_with):
    model(Says("", [("c1", "double", {"n": 1})], tokens=(900, 200)), Says("done"), Says("again"))
    agent = agent_with(double, limits=ModelLimits(tokens_max=1000))
    with pytest.raises(LimitReached, match="has used 1,100 tokens, and may use 1,000"):
        await agent.run("Hi")
    await agent_with(double).recover()
    assert (await agent.run("A new prompt counts anew")).output == "again"


@pytest.mark.parametrize("name", ["nonsense", "nowhere:model", "openai-chat:gpt-5"])
async def test_what_is_wrong_with_a_model_is_said_before_anything_is_recorded(name, agent_with, store, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidArgument):
        await agent_with(model=name).run("Hi")
    assert await store.read("a") == []


async def test_without_pydantic_ai_the_error_says_what_to_install(agent_with, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(MissingExtra) as caught:
        await agent_with().run("Hi")
    assert caught.value.hint == "pip install 'holdfast[models]'"
    assert await store.read("a") == []


async def test_an_agent_does_one_thing_after_another(model, agent_with):
    agent = agent_with()
    other = agent_with()

    async def meddle() -> str:
        with pytest.raises(OwnedElsewhere, match="in this process"):
            await agent.run("me, too")
        with pytest.raises(OwnedElsewhere):
            await other.run("me, too")
        return "refused"

    model(Says("", [("c1", "meddle", {})]), Says("done"))
    agent._setting.toolbox.tools = type(agent._setting.toolbox.tools).of([meddle])
    assert (await agent.run("Hi")).output == "done"


async def test_a_closed_agent_stays_closed(model, agent_with, store):
    model(Says("Hello!"))
    async with agent_with() as agent:
        await agent.run("Hi")
    await agent.close()
    with pytest.raises(Closed):
        await agent.run("Hi")

"""The loop of an agent, through the real client: what is asked, called and recorded, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.runner import PythonRunner
from holdfast.errors import InvalidArgument
from holdfast.history.records import AssistantMessage, ToolCall, ToolResult, UserMessage
from tests.openai_server import Fails, Says
from tests.unit.agents.model.conftest import errors, results, types, until

WRONG = "ValueError: double() got a wrong argument: n: Input should be a valid integer, got [1]"


def double(n: int) -> int:
    """Twice the number."""
    return n * 2


async def test_a_prompt_is_answered_and_both_are_on_record(model, agent_with, store):
    server = model(Says("Hello!", tokens=(7, 3)))
    agent = agent_with(instructions="Be brief.")
    result = await agent.run("Hi")
    assert (result.status, result.output) == ("complete", "Hello!")
    assert (result.usage.requests, result.usage.input_tokens, result.usage.total_tokens) == (1, 7, 10)
    assert agent.status == "WAITING_FOR_INPUT"
    [asked, answered] = await store.read("a")
    assert (asked.content, answered.content, answered.tool_calls) == ("Hi", "Hello!", [])
    assert (answered.model, answered.usage) == ("gpt-5", {"input_tokens": 7, "output_tokens": 3})
    assert [one["content"] for one in server.requests[0]["messages"]] == ["Be brief.", "Hi"]
    assert "tools" not in server.requests[0]
    assert (await store.agent("a")).owner is None


async def test_each_step_is_durable_before_the_next_one_begins(model, agent_with, store):
    seen = []

    async def look() -> str:
        seen.append(types(await store.read("a")))
        return "seen"

    def script(request):
        asked = len(request["messages"]) > 1
        return Says("done") if asked else Says("", [("c1", "look", {})])

    model(script=script)
    await agent_with(look).run("Hi")
    assert seen == [["user_message", "assistant_message", "tool_call"]]
    assert types(await store.read("a")) == [*seen[0], "tool_result", "assistant_message"]


async def test_calls_of_one_message_run_together_and_the_model_is_told_in_call_order(model, agent_with, store):
    both = asyncio.Barrier(2)
    first_may_end = asyncio.Event()

    async def first() -> str:
        await both.wait()
        await first_may_end.wait()
        return "one"

    async def second() -> str:
        await both.wait()
        return "two"

    server = model(Says("", [("c1", "first", {}), ("c2", "second", {})]), Says("done"))
    running = asyncio.ensure_future(agent_with(first, second).run("Hi"))

    async def told() -> bool:
        return "tool_result" in types(await store.read("a"))

    await until(told)
    first_may_end.set()
    await running
    recorded = [one.tool_call_id for one in await store.read("a") if isinstance(one, ToolResult)]
    assert recorded == ["c2", "c1"]
    assert results(server.requests[1]) == [("c1", "one"), ("c2", "two")]


async def test_calls_that_begin_together_are_one_commit(model, agent_with, store):
    model(Says("", [("c1", "double", {"n": 1}), ("c2", "double", {"n": 2})]), Says("done"))
    await agent_with(double).run("Hi")
    calls = [one for one in await store.read("a") if isinstance(one, ToolCall)]
    assert [one.attempt for one in calls] == [1, 1]
    assert calls[0].at == calls[1].at


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("tripple", {"n": 1}, "There is no tool tripple. The tools are: double"),
        ("double", '{"n": 1', "ValueError: the arguments of double() are no JSON object: '{\"n\": 1'"),
        ("double", "[1]", "ValueError: the arguments of double() are no JSON object: '[1]'"),
        ("double", {"n": [1]}, WRONG),
        ("double", {"m": 1}, "TypeError: double() got an unexpected keyword argument 'm'"),
        ("double", {}, "TypeError: double() missing 1 required positional argument: 'n'"),
    ],
)  # fmt: skip
async def test_a_call_that_can_not_be_made_is_told_to_the_model(name, arguments, told, model, agent_with, store):
    server = model(Says("", [("c1", name, arguments)]), Says("", [("c2", "double", {"n": 2})]), Says("mended"))
    result = await agent_with(double).run("Hi")
    assert result.output == "mended"
    assert errors(server.requests[1]) == [told]
    [refused, made] = [one for one in await store.read("a") if isinstance(one, ToolResult)]
    assert (refused.is_error, made.content) == (True, 4)
    assert [one.tool_call_id for one in await store.read("a") if isinstance(one, ToolCall)] == ["c2"]


async def test_what_a_tool_raises_is_told_to_the_model(model, agent_with):
    def refuse() -> None:
        raise KeyError("no such order")

    async def cancels() -> None:
        raise asyncio.CancelledError

    server = model(Says("", [("c1", "refuse", {}), ("c2", "cancels", {})]), Says("I see"))
    assert (await agent_with(refuse, cancels).run("Hi")).output == "I see"
    assert errors(server.requests[1]) == ["KeyError: 'no such order'", "CancelledError: the tool cancelled itself"]


async def test_a_result_that_is_too_large_was_called_all_the_same(model, agent_with):
    def much() -> str:
        return "x" * (1 << 21)

    server = model(Says("", [("c1", "much", {})]), Says("I see"))
    await agent_with(much).run("Hi")
    assert "was called; its result of 2,097,157 bytes is over" in results(server.requests[1])[0][1]


async def test_ids_that_a_provider_uses_again_get_names_of_their_own(model, agent_with, store):
    again = [("call", "double", {"n": 1}), ("call", "double", {"n": 2})]
    server = model(Says("", again), Says("", again), Says("done"))
    await agent_with(double).run("Hi")
    asked = [one for one in await store.read("a") if isinstance(one, AssistantMessage)]
    ids = [call["id"] for one in asked for call in one.tool_calls]
    assert ids == ["call", "call-2", "call-3", "call-4"]
    assert results(server.requests[2]) == [("call", "2"), ("call-2", "4"), ("call-3", "2"), ("call-4", "4")]


async def test_a_program_calls_the_agents_tools_and_only_its_result_is_shown(model, agent_with, store):
    code = "print('hi')\ndouble(n=double(n=3))"
    server = model(Says("I compute", [("c1", "run_python", {"code": code})]), Says("12!"))
    result = await agent_with(double, run_python=True).run("Hi")
    assert result.output == "12!"
    assert types(await store.read("a")) == [
        "user_message", "assistant_message", "rlm_start", "rlm_tool_call", "rlm_tool_result", "rlm_tool_call",
        "rlm_tool_result", "rlm_complete", "tool_result", "assistant_message",
    ]  # fmt: skip
    assert results(server.requests[1]) == [("c1", "hi\n12")]
    offered = {one["function"]["name"]: one["function"] for one in server.requests[0]["tools"]}
    assert set(offered) == {"double", "run_python"}
    assert "def double(n: int)" in offered["run_python"]["description"]
    assert offered["double"]["description"] == "Twice the number."


async def test_agents_may_share_a_runner_whose_programs_have_tools_of_their_own(model, agent_with, store):
    def triple(n: int) -> int:
        return n * 3

    server = model(Says("", [("c1", "run_python", {"code": "triple(n=3)"})]), Says("9!"))
    async with PythonRunner(store, [triple]) as runner:
        for name in ("a", "b"):
            assert (await agent_with(double, agent_id=name, run_python=runner).run("Hi")).output == "9!"
    assert results(server.requests[1]) == results(server.requests[3]) == [("c1", "9")]
    with pytest.raises(InvalidArgument, match="storage"):
        agent_with(run_python=PythonRunner())


async def test_the_text_comes_in_pieces_and_only_the_whole_message_is_recorded(model, agent_with, store):
    model(Says("one two", [("c1", "double", {"n": 1})]), Says("three"))
    pieces = []
    result = await agent_with(double).run("Hi", on_text=lambda delta: pieces.append((delta.text, delta.attempt)))
    assert pieces == [("one ", 1), ("two ", 1), ("three ", 1)]
    assert result.output == "three "
    contents = [one.content for one in await store.read("a") if isinstance(one, AssistantMessage)]
    assert contents == ["one two ", "three "]


async def test_a_stream_that_breaks_off_is_not_an_answer(model, agent_with, store):
    answers = iter([Says("one two three", cut_after=3), Says("one two three")])
    server = model(script=lambda _: next(answers))
    pieces = []

    async def listen(delta):
        pieces.append((delta.text, delta.attempt))

    result = await agent_with().run("Hi", on_text=listen)
    assert result.output == "one two three "
    assert pieces == [("one ", 1), ("two ", 1), ("one ", 2), ("two ", 2), ("three ", 2)]
    assert len(server.requests) == 2
    assert types(await store.read("a")) == ["user_message", "assistant_message"]


async def test_a_listener_that_fails_keeps_nobody_from_going_on(model, agent_with, caplog):
    model(Says("one"))

    def listen(_):
        raise ValueError("no")

    assert (await agent_with().run("Hi", on_text=listen)).output == "one "
    assert "listens" in caplog.text


async def test_what_the_provider_wants_back_is_given_back_by_another_process(model, agent_with):
    server = model(
        Says("hm", [("c1", "double", {"n": 1})], reasoning="SEALED"), Fails(400, {"message": "later"}), Says("2")
    )
    with pytest.raises(Exception, match="later"):
        await agent_with(double, model="openai:gpt-5").run("Hi")
    server.script = lambda _: Says("2")
    result = await agent_with(double, model="openai:gpt-5").recover()
    assert result is not None
    assert result.output == "2"
    first, again = server.requests[1]["input"], server.requests[2]["input"]
    assert first == again
    assert [one.get("encrypted_content") for one in again if one.get("type") == "reasoning"] == ["SEALED"]
    assert [one["output"] for one in again if one.get("type") == "function_call_output"] == ["2"]


async def test_a_conversation_goes_on_in_another_process(model, agent_with):
    server = model(Says("Ada"), Says("Lovelace"))
    await agent_with().run("First name?")
    assert (await agent_with().run("And then?")).output == "Lovelace"
    assert [one["content"] for one in server.requests[1]["messages"]] == ["First name?", "Ada", "And then?"]


async def test_a_prompt_may_have_parts_that_are_no_text(model, agent_with, store):
    from pydantic_ai.messages import ImageUrl

    server = model(Says("a cat"), Says("still"))
    await agent_with().run(["What is it?", ImageUrl(url="https://example.org/cat.png")])
    await agent_with().run("And now?")
    content = server.requests[1]["messages"][0]["content"]
    assert content == server.requests[0]["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"] == "https://example.org/cat.png"
    [asked, *_] = await store.read("a")
    assert isinstance(asked, UserMessage)


async def test_a_tool_knows_which_call_it_is(model, agent_with):
    from holdfast import current_call

    calls = []

    def note() -> None:
        calls.append(current_call())

    model(Says("", [("c1", "note", {}), ("c2", "note", {})]), Says("done"))
    await agent_with(note).run("Hi")
    assert sorted((one.agent_id, one.tool_call_id, one.attempt) for one in calls) == [("a", "c1", 1), ("a", "c2", 1)]
    assert len({one.idempotency_key for one in calls}) == 2


async def test_secrets_among_the_arguments_reach_the_tool_and_no_record(model, agent_with, store):
    got = []

    def login(password: str) -> str:
        got.append(password)
        return "in"

    model(Says("", [("c1", "login", {"password": "hunter2"})]), Says("done"))
    await agent_with(login).run("Hi")
    assert got == ["hunter2"]
    [asked] = [one for one in await store.read("a") if isinstance(one, AssistantMessage) and one.tool_calls]
    assert asked.tool_calls[0]["arguments"] == {"password": "[redacted]"}
    assert asked.redacted == ["toolCalls[0].arguments.password"]

"""What a dead process left is brought to its end: calls as their tools want it, programs, requests, prompts."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.agents.model.calls import RESTARTED
from holdfast.durable.manager import CheckpointManager
from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Unknown
from holdfast.durable.runs.tool import Tool
from holdfast.errors import OwnedElsewhere, StaleWriter, StillWaiting, WrongOwner
from holdfast.history.records import AssistantMessage, ToolCall, ToolResult, UserMessage
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.openai_server import Says
from tests.unit.agents.model.conftest import Killed, results, types

ONE_CALL = (Says("", [("c1", "act", {"n": 1})]), Says("done"))


class Act:
    """A tool in whose first call the process dies, after the effect."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.keys: set[str] = set()

    def tool(self, **options):
        async def act(n: int) -> str:
            self.attempts.append(current_call().attempt)
            self.keys.add(current_call().idempotency_key)
            if len(self.attempts) == 1:
                raise Killed
            return f"done {n}"

        return Tool(act, **options)


async def recovered(agent_with, act, **options):
    with pytest.raises(Killed):
        await agent_with(act.tool(**options)).run("Hi")
    return await agent_with(act.tool(**options)).recover()


async def test_a_call_that_may_have_happened_is_not_made_again(model, agent_with, store):
    server, act = model(*ONE_CALL), Act()
    result = await recovered(agent_with, act)
    assert result.output == "done"
    assert act.attempts == [1]
    [told] = [one for one in await store.read("a") if isinstance(one, ToolResult)]
    assert (told.content, told.is_error) == (RESTARTED, True)
    assert "Process was restarted" in results(server.requests[1])[0][1]


async def test_a_call_that_may_be_repeated_is_made_again_under_the_same_key(model, agent_with, store):
    server, act = model(*ONE_CALL), Act()
    await recovered(agent_with, act, on_restart="retry")
    assert act.attempts == [1, 2]
    assert len(act.keys) == 1
    assert [one.attempt for one in await store.read("a") if isinstance(one, ToolCall)] == [1, 2]
    assert results(server.requests[1]) == [("c1", "done 1")]


@pytest.mark.parametrize(
    ("answer", "attempts", "told"),
    [
        (Happened("it was"), [1], "it was"),
        (DidNotHappen(), [1, 2], "done 1"),
        (Unknown(), [1], RESTARTED),
        ("nonsense", [1], RESTARTED),
    ],
)
async def test_a_tool_that_can_find_out_is_asked_what_happened(answer, attempts, told, model, agent_with, store):
    model(*ONE_CALL)
    act, asked = Act(), []

    async def happened(call):
        asked.append((call.tool_call_id, call.arguments, current_call().tool_name))
        return answer

    await recovered(agent_with, act, on_restart="reconcile", reconcile=happened)
    assert asked == [("c1", {"n": 1}, "act")]
    assert act.attempts == attempts
    [result] = [one for one in await store.read("a") if isinstance(one, ToolResult)]
    assert (result.content, result.is_error) == (told, told == RESTARTED)


async def test_calls_that_never_began_are_simply_made(model, agent_with, store):
    model(script=lambda _: Says("done"))
    asked = AssistantMessage(content="", tool_calls=[{"id": "c1", "name": "act", "arguments": {"n": 5}}])
    await CheckpointManager(store).append("a", UserMessage(content="Hi"), asked)
    act = Act()
    act.attempts.append(0)  # nobody dies
    result = await agent_with(act.tool()).recover()
    assert result.output == "done"
    assert act.attempts == [0, 1]


async def test_a_prompt_without_an_answer_is_answered(model, agent_with, store):
    model(Says("Hello!"))
    await CheckpointManager(store).append("a", UserMessage(content="Hi"))
    agent = agent_with()
    assert (await agent.recover()).output == "Hello!"
    assert await agent.recover() is None


async def test_nothing_is_written_where_nothing_is_pending(model, agent_with, store):
    server = model()
    assert await agent_with().recover() is None
    assert await store.agent("a") is None
    assert server.requests == []


async def test_a_new_prompt_brings_the_old_one_to_its_end_first(model, agent_with, store):
    server, act = model(*ONE_CALL, Says("second")), Act()
    with pytest.raises(Killed):
        await agent_with(act.tool()).run("first")
    assert (await agent_with(act.tool()).run("then")).output == "second"
    assert types(await store.read("a")) == [
        "user_message", "assistant_message", "tool_call", "tool_result", "assistant_message", "user_message",
        "assistant_message",
    ]  # fmt: skip
    assert len(server.requests) == 3


async def test_a_program_goes_on_where_it_stood_and_the_model_is_told(model, agent_with, store):
    server = model(Says("", [("c1", "run_python", {"code": "a = await act(n=1)\na + '!'"})]), Says("done"))
    act = Act()
    with pytest.raises(Killed):
        await agent_with(act.tool(on_restart="retry"), run_python=True).run("Hi")
    result = await agent_with(act.tool(on_restart="retry"), run_python=True).recover()
    assert result.output == "done"
    assert act.attempts == [1, 2]
    assert types(await store.read("a"))[-6:] == [
        "rlm_tool_call", "rlm_tool_result", "rlm_complete", "tool_result", "user_message", "assistant_message",
    ]  # fmt: skip
    said = server.requests[1]["messages"]
    assert [one["role"] for one in said] == ["user", "assistant", "tool", "user"]
    assert said[2]["content"] == "done 1!"
    assert said[3]["content"].startswith('<system_message origin="rlm_restore">')


async def test_a_program_and_a_call_beside_it_are_both_recovered(model, agent_with, store):
    program = ("c1", "run_python", {"code": "await act(n=1)"})
    server, act = model(Says("", [program, ("c2", "wait", {})]), Says("done")), Act()
    waits = iter([asyncio.Event().wait, lambda: asyncio.sleep(0)])

    async def wait() -> str:
        await next(waits)()
        return "waited"

    tools = (act.tool(on_restart="retry"), Tool(wait, on_restart="retry"))
    with pytest.raises(Killed):
        await agent_with(*tools, run_python=True).run("Hi")
    await agent_with(*tools, run_python=True).recover()
    assert results(server.requests[1]) == [("c1", "done 1"), ("c2", "waited")]
    assert [one["role"] for one in server.requests[1]["messages"]] == ["user", "assistant", "tool", "tool", "user"]


async def test_a_program_that_can_not_go_on_is_parked_and_the_agent_says_why(model, agent_with):
    model(Says("", [("c1", "run_python", {"code": "await act(n=1)"})]), Says("done"))
    act = Act()
    with pytest.raises(Killed):
        await agent_with(act.tool(), run_python=True).run("Hi")
    elsewhere = agent_with(run_python=True)  # a host without the tool
    result = await elsewhere.recover()
    assert (result.status, elsewhere.status) == ("parked", "PAUSED")
    assert "act" in result.reason
    with pytest.raises(StillWaiting, match="act"):
        await elsewhere.run("And?")
    assert (await agent_with(act.tool(), run_python=True).recover()).status == "complete"


async def test_an_agent_that_another_process_advances_is_left_to_it(model, agent_with, tmp_path):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(n: int) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    model(*ONE_CALL)
    theirs = SQLiteCheckpointStorage(tmp_path / "store.db")
    running = asyncio.ensure_future(agent_with(act).run("Hi"))
    await begun.wait()
    for attempt in (agent_with(act, storage=theirs).run("me"), agent_with(act, storage=theirs).recover()):
        with pytest.raises(OwnedElsewhere):
            await attempt
    go_on.set()
    assert (await running).output == "done"
    assert await agent_with(act, storage=theirs).recover() is None
    await theirs.close()


async def test_two_processes_do_not_ask_the_same_twice(model, agent_with, store, tmp_path):
    asked, answer = threading.Event(), threading.Event()

    def script(_):
        asked.set()
        answer.wait(10)
        return Says("once")

    server = model(script=script)
    await CheckpointManager(store).append("a", UserMessage(content="Hi"))
    theirs = SQLiteCheckpointStorage(tmp_path / "store.db")
    recovering = asyncio.ensure_future(agent_with().recover())
    await asyncio.to_thread(asked.wait, 10)
    with pytest.raises(OwnedElsewhere):
        await agent_with(storage=theirs).recover()
    answer.set()
    assert (await recovering).output == "once"
    assert len(server.requests) == 1
    await theirs.close()


async def test_who_was_taken_over_writes_nothing_more(model, agent_with, tmp_path):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(n: int) -> str:
        begun.set()
        await go_on.wait()
        return "late"

    model(*ONE_CALL)
    theirs = SQLiteCheckpointStorage(tmp_path / "store.db")
    running = asyncio.ensure_future(agent_with(act).run("Hi"))
    await begun.wait()
    assert (await agent_with(act, storage=theirs).recover(take_over=True)).output == "done"
    go_on.set()
    with pytest.raises(StaleWriter):
        await running
    told = [one.content for one in await theirs.read("a") if isinstance(one, ToolResult)]
    assert told == [RESTARTED]
    await theirs.close()


async def test_a_run_that_is_cancelled_gives_the_agent_back_and_can_be_recovered(model, agent_with, store):
    begun = asyncio.Event()

    async def act(n: int) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model(*ONE_CALL)
    agent = agent_with(act)
    running = asyncio.ensure_future(agent.run("Hi"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await store.agent("a")).owner is None
    assert agent.status == "PAUSED"
    assert (await agent.recover()).output == "done"


async def test_a_result_that_is_known_when_another_call_fails_is_not_lost(model, agent_with, store):
    server = model(Says("", [("c1", "good", {}), ("c2", "act", {"n": 1})]), Says("done"))
    act = Act()

    async def good() -> str:
        return "good"

    with pytest.raises(Killed):
        await agent_with(good, act.tool()).run("Hi")
    assert [one.content for one in await store.read("a") if isinstance(one, ToolResult)] == ["good"]
    await agent_with(good, act.tool()).recover()
    assert results(server.requests[1])[0] == ("c1", "good")


async def test_another_users_agent_is_not_even_read_aloud(model, agent_with):
    server = model(Says("secret"))
    await agent_with(user_id="ada").run("Hi")
    for attempt in (agent_with(user_id="bob").run("Hi"), agent_with(user_id="bob").recover()):
        with pytest.raises(WrongOwner):
            await attempt
    assert len(server.requests) == 1


async def test_after_everything_was_erased_nothing_is_remembered(model, agent_with, store):
    server = model(script=lambda _: Says("ok"))
    agent = agent_with(user_id="ada")
    await agent.run("my secret")
    await CheckpointManager(store).clear_user_history("ada")
    await agent.run("Hi")
    assert [one["content"] for one in server.requests[1]["messages"]] == ["Hi"]

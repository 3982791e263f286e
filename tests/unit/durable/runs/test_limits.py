"""What a program may use, what is refused before it begins, and what a tool can't do to its host."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from holdfast.durable.runs import seats
from holdfast.durable.runs.limits import Limits
from holdfast.errors import Closed, InvalidArgument, MissingExtra, WrongOwner
from holdfast.history.records import AssistantMessage, RlmStart, RlmToolCall, UserMessage
from holdfast.storage.protocol import Change


async def step(n: int) -> int:
    return n


@pytest.mark.parametrize("wrong", [{"turn_seconds_max": -1}, {"crashes_max": 0}, {"print_bytes_max": "1"}])
def test_a_limit_is_a_number_above_0(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Limits(**wrong)


@pytest.mark.parametrize("workers", [0, -1])
async def test_without_workers_nothing_can_run(runner_with, workers):
    with pytest.raises(InvalidArgument):
        runner_with(step, workers=workers)


@pytest.mark.parametrize("name", ["agent_id", "tool_call_id"])
@pytest.mark.parametrize("value", [None, 3, ""])
async def test_what_is_no_name_is_refused_before_anything_is_recorded(runner_with, store, name, value):
    with pytest.raises(InvalidArgument, match=name):
        await runner_with(step).run(**({"agent_id": "a", "code": "1", "tool_call_id": "c"} | {name: value}))
    assert await store.agents() == []


async def test_code_is_a_text(runner_with, store):
    with pytest.raises(InvalidArgument, match="code"):
        await runner_with(step).run("a", None, "c")
    assert await store.agents() == []
    assert (await runner_with(step).run("a", "", "c")).output is None


async def test_without_the_sandbox_a_run_does_not_use_up_its_name(runner_with, store, monkeypatch):
    runner = runner_with(step)
    monkeypatch.setattr(seats, "find_spec", lambda name: None)
    for refused in (runner.run("a", "1", "c"), runner.recover(), runner.fork("c", at=1, result=1)):
        with pytest.raises(MissingExtra, match="pydantic-monty"):
            await refused
    assert await store.agents() == []
    monkeypatch.setattr(seats, "find_spec", importlib.util.find_spec)
    assert (await runner.run("a", "1", "c")).output == 1


async def test_gathered_calls_are_allowed_up_to_the_limit(runner_with):
    code = """
import asyncio
async def careful(n):
    try:
        return await step(n)
    except RuntimeError as error:
        return str(error)
await asyncio.gather(*[careful(n) for n in range(3)])"""
    result = await runner_with(step, limits=Limits(tool_calls_max=2), type_check=False).run("a", code, "c")
    assert result.output == [0, 1, "A program may make 2 tool calls"]


async def test_prints_are_counted_in_bytes(runner_with):
    runner = runner_with(limits=Limits(print_bytes_max=100))
    assert not (await runner.run("a", "print('x' * 90)", "ascii")).is_error
    assert (await runner.run("a", "print('☃' * 40)", "snow")).is_error


async def test_a_value_that_is_too_large_is_an_error_that_says_so(runner_with, store):
    called = []

    async def take(text: str) -> None:
        called.append(len(text))

    runner = runner_with(take, limits=Limits(value_bytes_max=1000))
    result = await runner.run("a", "'x' * 1001", "output")
    assert "more than the 1,000 that are kept" in result.error
    code = "try:\n    await take('x' * 1001)\nexcept ValueError as error:\n    print(error)\nawait take('x')"
    result = await runner.run("a", code, "argument")
    assert "the arguments of take() would take" in result.print_output
    assert called == [1]
    result = await runner.run("a", "import os\nlen(os.urandom(1000)), os.urandom(1001)", "random")
    assert "at most 1000 bytes" in result.error


async def test_a_number_of_too_many_digits_is_an_outcome_too(runner_with, store):
    asked = AssistantMessage(content="", tool_calls=[{"id": "call_1", "name": "run_python", "arguments": {}}])
    await store.commit(Change(agent_id="a", user_id="default", records=(UserMessage(content="go"), asked)))
    result = await runner_with(step).run("a", "10**5000", "call_1")
    assert result.output == 10**5000
    assert "no text" in result.content


async def test_a_number_of_too_many_digits_is_an_argument_too(runner_with, store):
    async def twice(n: int) -> int:
        return 2 * n

    result = await runner_with(twice).run("a", "await twice(10**5000)", "call_1")
    assert result.output == 2 * 10**5000
    assert await store.pending("run") == []


async def test_a_replay_that_differs_in_such_a_number_is_parked_like_any_other(runner_with, store):
    start = RlmStart(tool_call_id="call_1", code="await step(10**5000 + 1)", preamble="")
    call = RlmToolCall(
        tool_call_id="call_1", call_id=0, snapshot=None, print_output="", tool_call_count=1, tool_name="step",
        tool_args={"n": 10**5000},
    )  # fmt: skip
    await store.commit(Change(agent_id="a", user_id="default", records=(start, call)))
    [result] = await runner_with(step).recover()
    assert result.status == "parked"
    assert "does not repeat call 0" in result.error


async def test_a_tool_that_cancels_itself_only_fails(runner_with):
    async def fetch() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(10))
        inner.cancel()
        await inner

    code = "try:\n    await fetch()\nexcept RuntimeError as error:\n    told = str(error)\ntold"
    assert (await runner_with(fetch).run("a", code, "c")).output == "fetch() was cancelled by something that it called"


async def test_whoever_waits_for_a_run_of_a_closed_runner_is_told(runner_with):
    entered = asyncio.Event()

    async def wait() -> None:
        entered.set()
        await asyncio.sleep(60)

    runner = runner_with(wait)
    asked = asyncio.ensure_future(runner.run("a", "await wait()", "c"))
    await entered.wait()
    runner._users.join(object_that_stays := type("User", (), {})())
    await runner.close()
    with pytest.raises(Closed):
        await asked
    for refused in (runner.run("a", "1", "d"), runner.recover(), runner.fork("c", at=1, result=1)):
        with pytest.raises(Closed):
            await refused
    assert object_that_stays


async def test_a_runner_of_one_user_knows_nothing_of_others(runner_with, store):
    ada, eve = runner_with(step, user_id="ada"), runner_with(step, user_id="eve")
    await ada.run("a", "await step(1)", "c")
    with pytest.raises(WrongOwner):
        await eve.run("a", "await step(1)", "c")
    with pytest.raises(WrongOwner):
        await eve.run("a", "2", "c")
    assert await eve.recover(user_id="ada") == []


async def test_runs_that_sleep_do_not_keep_others_from_being_recovered(runner_with, store):
    async def left(name, code):
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.2):
                await runner_with(step, type_check=False).run(name, code, "c")

    await asyncio.gather(*(left(f"a{n}", "import time\ntime.sleep(0.3)\ntime.sleep(0.1)") for n in range(12)))
    await left("b", "import time\ntime.sleep(0.3)\nawait step(1)")
    results = await runner_with(step, type_check=False).recover()
    assert {result.status for result in results} == {"complete"}
    assert len(results) == 13

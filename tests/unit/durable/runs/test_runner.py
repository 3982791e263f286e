"""Programs run, each step is in the history before it has effects, and a run of one name is made once."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.tool import Tool
from holdfast.errors import RunMismatch
from holdfast.history.records import RlmToolCall
from tests.unit.durable.runs.conftest import Killed


def types(records):
    return [record.type for record in records]


async def test_the_last_expression_and_the_prints_come_back(runner_with):
    result = await runner_with().run("a", "print('hello')\n1 + 1", "call_1")
    assert (result.output, result.print_output, result.tool_call_count) == (2, "hello\n", 0)
    assert not result.is_error
    assert result.error is None


async def test_a_program_calls_tools_and_every_step_is_recorded(runner_with, store):
    def add(a: int, b: int = 1) -> int:
        return a + b

    async def double(n: int) -> int:
        return 2 * n

    result = await runner_with(add, double).run("a", "x = add(1, b=2)\nprint(x)\ny = await double(x)\n[x, y]", "call_1")
    assert (result.output, result.print_output, result.tool_call_count) == ([3, 6], "3\n", 2)
    records = await store.read("a")
    assert types(records) == [
        "rlm_start", "rlm_tool_call", "rlm_tool_result", "rlm_tool_call", "rlm_tool_result", "rlm_complete",
    ]  # fmt: skip
    first, second = (record for record in records if isinstance(record, RlmToolCall))
    assert (first.tool_name, first.tool_args, first.tool_call_count, first.print_output) == (
        "add",
        {"a": 1, "b": 2},
        1,
        "",
    )
    assert (second.tool_name, second.tool_args, second.tool_call_count) == ("double", {"n": 3}, 2)
    assert second.print_output == "3\n"
    assert first.snapshot is not None


async def test_the_call_is_durable_before_the_tool_begins(runner_with, store):
    seen = []

    async def look() -> int:
        seen.append(types(await store.read("a")))
        return 1

    await runner_with(look).run("a", "await look()\nawait look()", "call_1")
    assert seen == [
        ["rlm_start", "rlm_tool_call"],
        ["rlm_start", "rlm_tool_call", "rlm_tool_result", "rlm_tool_call"],
    ]


async def test_a_tool_that_raises_gives_the_program_an_exception_that_it_can_catch(runner_with):
    def pay(amount: int) -> int:
        raise ConnectionError(f"no answer to {amount}")

    code = "try:\n    pay(5)\nexcept OSError as error:\n    caught = str(error)\ncaught"
    assert (await runner_with(pay).run("a", code, "call_1")).output.endswith("no answer to 5")


async def test_a_program_that_fails_says_where(runner_with):
    result = await runner_with().run("a", "print('before')\n1 / 0", "call_1")
    assert result.is_error
    assert result.print_output == "before\n"
    assert "line 2" in result.error
    assert "ZeroDivisionError" in result.error


async def test_a_finished_run_is_not_run_again(runner_with):
    calls = []

    def effect() -> int:
        calls.append(1)
        return 7

    runner = runner_with(effect)
    first = await runner.run("a", "effect()", "call_1")
    again = await runner.run("a", "effect()", "call_1")
    other = await runner_with(effect).run("a", "effect()", "call_1")
    assert first == again == other
    assert len(calls) == 1


async def test_the_same_name_with_other_code_is_refused(runner_with):
    runner = runner_with()
    await runner.run("a", "1", "call_1")
    with pytest.raises(RunMismatch) as refused:
        await runner.run("a", "2", "call_1")
    assert (refused.value.agent_id, refused.value.tool_call_id) == ("a", "call_1")


async def test_two_tasks_that_ask_for_one_run_share_it(runner_with):
    calls = []

    async def effect() -> int:
        calls.append(1)
        await asyncio.sleep(0)
        return 7

    runner = runner_with(effect)
    results = await asyncio.gather(*(runner.run("a", "await effect()", "call_1") for _ in range(3)))
    assert [result.output for result in results] == [7, 7, 7]
    assert len(calls) == 1


async def test_an_unknown_function_is_a_name_error_in_the_program(runner_with):
    result = await runner_with(type_check=False).run("a", "nope(1)", "call_1")
    assert result.is_error
    assert "NameError: name 'nope' is not defined" in result.error


async def test_a_program_that_fails_the_type_check_does_not_start(runner_with, store):
    def send(to: str) -> None:
        raise Killed

    result = await runner_with(send).run("a", "print('started')\nsend(to=3)", "call_1")
    assert result.is_error
    assert "Expected `str`" in result.error
    assert result.print_output == ""
    assert types(await store.read("a")) == ["rlm_start", "rlm_complete"]


async def test_a_call_that_does_not_fit_is_told_to_the_program_and_not_recorded(runner_with, store):
    def send(to: str, *, times: int = 1) -> str:
        return to * times

    code = "try:\n    send('a', times='many')\nexcept (ValueError, TypeError) as error:\n    e = str(error)\ne"
    result = await runner_with(send, type_check=False).run("a", code, "call_1")
    assert "times" in result.output
    assert types(await store.read("a")) == ["rlm_start", "rlm_complete"]


async def test_a_thousand_calls_just_work(runner_with):
    def plus(n: int) -> int:
        return n + 1

    result = await runner_with(plus).run("a", "n = 0\nfor _ in range(1000):\n    n = plus(n)\nn", "call_1")
    assert (result.output, result.tool_call_count) == (1000, 1000)


async def test_limits_end_a_program_and_not_the_runner(runner_with):
    runner = runner_with(limits=Limits(turn_seconds_max=0.2, memory_bytes_max=50 << 20, print_bytes_max=1000))
    for name, code, what in [
        ("time", "while True:\n    pass", "TimeoutError"),
        ("memory", "x = []\nwhile True:\n    x.append('a' * 100000 + str(len(x)))", "MemoryError"),
        ("print", "while True:\n    print('x' * 100)", "MemoryError"),
    ]:
        result = await runner.run("a", code, name)
        assert result.is_error
        assert what in result.error
    assert (await runner.run("a", "1", "fine")).output == 1


async def test_more_calls_than_allowed_are_refused(runner_with):
    def one() -> int:
        return 1

    result = await runner_with(one, limits=Limits(tool_calls_max=2)).run("a", "one()\none()\none()", "call_1")
    assert result.is_error
    assert "2 tool calls" in result.error


async def test_a_result_that_is_too_large_is_an_error_that_says_that_the_call_happened(runner_with):
    def big() -> str:
        return "x" * 2000

    code = "try:\n    big()\nexcept ValueError as error:\n    e = str(error)\ne"
    result = await runner_with(big, limits=Limits(result_bytes_max=1000)).run("a", code, "call_1")
    assert "was called" in result.output


async def test_a_tool_that_takes_too_long_is_a_timeout_in_the_program(runner_with):
    async def hang() -> None:
        await asyncio.sleep(60)

    code = "try:\n    await hang()\nexcept TimeoutError:\n    e = 'late'\ne"
    assert (await runner_with(Tool(hang, timeout_seconds=0.01)).run("a", code, "call_1")).output == "late"


async def test_a_run_that_belongs_to_an_assistant_message_is_completed_by_its_tool_result(runner_with, store):
    from holdfast.history.records import AssistantMessage, UserMessage
    from holdfast.storage.protocol import Change

    asked = AssistantMessage(content="", tool_calls=[{"id": "call_1", "name": "run_python", "arguments": {}}])
    await store.commit(Change(agent_id="a", user_id="default", records=(UserMessage(content="go"), asked)))
    await runner_with().run("a", "print(1)\n2", "call_1")
    records = await store.read("a")
    assert types(records) == ["user_message", "assistant_message", "rlm_start", "rlm_complete", "tool_result"]
    assert (records[-1].tool_call_id, records[-1].content, records[-1].is_error) == ("call_1", "1\n2", False)


async def test_two_hundred_programs_at_once_finish_on_two_workers(runner_with):
    async def slow(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    runner = runner_with(slow, workers=2)
    results = await asyncio.gather(
        *(runner.run(f"agent-{n}", f"a = await slow({n})\nb = await slow(a)\nb", "call_1") for n in range(200))
    )
    assert [result.output for result in results] == list(range(200))


async def test_a_program_may_run_programs(runner_with):
    async def nested(depth: int) -> int:
        if depth == 0:
            return 0
        return 1 + (await runner.run(f"depth-{depth}", f"await nested({depth - 1})", "call_1")).output

    runner = runner_with(nested, workers=1)
    assert (await runner.run("top", "await nested(5)", "call_1")).output == 5

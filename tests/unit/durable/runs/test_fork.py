"""Another answer to the n-th call makes another run, and the original stays as it was."""

from __future__ import annotations

import pytest

from holdfast.durable.runs.tool import Tool
from holdfast.errors import DuplicateId, InvalidArgument, UnknownRun
from tests.unit.durable.runs.conftest import Killed

CODE = """
got = []
for n in range(4):
    try:
        got.append(look(n))
    except ValueError as error:
        got.append(str(error))
if got[1] == 99:
    got.append(send(got[1]))
got
"""


@pytest.fixture
def calls():
    return []


@pytest.fixture
async def runner(runner_with, calls):
    def look(n: int) -> int:
        calls.append(("look", n))
        return n * 10

    def send(n: int) -> str:
        calls.append(("send", n))
        return "sent"

    runner = runner_with(look, send)
    await runner.run("a", CODE, "call_1")
    calls.clear()
    return runner


async def test_a_fork_goes_on_from_another_answer_and_calls_nothing_that_was_answered(runner, calls, store):
    before = await store.read("a")
    result = await runner.fork("call_1", at=2, result=50, agent_id="b")
    assert result.output == [0, 50, 20, 30]
    assert result.agent_id == "b"
    assert calls == []
    assert await store.read("a") == before
    start = (await store.read("b"))[0]
    assert start.forked_from == {
        "agentId": "a",
        "toolCallId": "call_1",
        "at": 2,
        "seq": before[3].seq,
        "tools": "recorded",
    }


async def test_an_exception_is_an_answer_too(runner):
    result = await runner.fork("call_1", at=3, exception=ValueError("no"))
    assert result.output == [0, 10, "no", 30]
    assert result.agent_id.startswith("a-")


async def test_a_fork_stops_before_a_call_without_a_recorded_answer(runner, calls):
    result = await runner.fork("call_1", at=2, result=99)
    assert result.is_error
    assert "send()" in result.error
    assert calls == []


async def test_a_tool_that_only_reads_is_called(runner_with, runner, calls):
    def look(n: int) -> int:
        return 0

    def send(n: int) -> str:
        calls.append(("send", n))
        return "read"

    other = runner_with(look, Tool(send, read_only=True))
    assert (await other.fork("call_1", at=2, result=99)).output == [0, 99, 20, 30, "read"]
    assert calls == [("send", 99)]


async def test_live_tools_are_called_from_there_on(runner, calls):
    result = await runner.fork("call_1", at=2, result=99, tools="live")
    assert result.output == [0, 99, 20, 30, "sent"]
    assert calls == [("look", 2), ("look", 3), ("send", 99)]


async def test_a_fork_without_snapshots_is_replayed(runner, calls, store):
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))
    assert (await runner.fork("call_1", at=4, result=1)).output == [0, 10, 20, 1]
    assert calls == []


async def test_a_fork_of_a_fork_works(runner):
    await runner.fork("call_1", at=2, result=50, agent_id="b")
    result = await runner.fork("call_1", at=3, result=60, agent_id="c", source_agent_id="b")
    assert result.output == [0, 50, 60, 30]


async def test_what_can_not_be_forked_is_named(runner):
    with pytest.raises(UnknownRun) as unknown:
        await runner.fork("call_9", at=1, result=1)
    assert unknown.value.tool_call_id == "call_9"
    with pytest.raises(InvalidArgument, match="4 tool calls"):
        await runner.fork("call_1", at=5, result=1)
    with pytest.raises(InvalidArgument, match="answer"):
        await runner.fork("call_1", at=1)
    with pytest.raises(DuplicateId):
        await runner.fork("call_1", at=1, result=1, agent_id="a")
    await runner.fork("call_1", at=1, result=1, agent_id="b")
    with pytest.raises(InvalidArgument, match="a, b"):
        await runner.fork("call_1", at=1, result=1, agent_id="c")


async def forked_and_killed(runner_with, *tools, dies_in, run="call_1", **options):
    """A fork of a run whose process died in this tool, which only reads."""

    def dying(n: int) -> int:
        raise Killed

    tools = [tool for tool in tools if getattr(tool, "__name__", tool) != dies_in]
    with pytest.raises(Killed):
        await runner_with(*tools, Tool(dying, name=dies_in, read_only=True)).fork(run, **options)


async def test_a_fork_that_was_killed_still_calls_no_real_tool(runner_with, calls):
    def look(n: int) -> int:
        return n

    def send(n: int) -> str:
        calls.append(("send", n))
        return f"sent {len(calls)}"

    def peek(n: int) -> int:
        return n

    code = "a = look(1)\nb = send(9)\nc = peek(a)\nd = send(9)\n[a, b, c, d]"
    calls.clear()
    await runner_with(look, send, peek).run("a", code, "call_2")
    calls.clear()
    await forked_and_killed(runner_with, look, send, run="call_2", dies_in="peek", at=1, result=2)
    [result] = await runner_with(look, send, Tool(peek, read_only=True, on_restart="retry")).recover()
    assert result.output == [2, "sent 1", 2, "sent 2"], "with the answers of the original, each used once"
    assert calls == []


async def test_a_fork_knows_calls_whose_arguments_were_redacted(runner_with, calls):
    def login(name: str, password: str) -> str:
        calls.append(name)
        return "welcome " + name

    runner = runner_with(login)
    code = 'login("a", "s3cret")\nlogin("b", "s3cret")\nlogin("c", "s3cret")'
    await runner.run("a", code, "call_1")
    calls.clear()
    assert (await runner.fork("call_1", at=1, result="no")).output == "welcome c"
    assert calls == []


async def test_a_fork_of_a_session_s_run_that_was_killed_has_the_session_s_variables(runner_with, store):
    def look(n: int) -> int:
        return n

    def peek(n: int) -> int:
        return n

    runner = runner_with(look, peek)
    await runner.run("a", "x = 40", "call_0", session="s")
    await runner.run("a", "a = look(1)\nb = peek(a)\n[x, a, b]", "call_1", session="s")
    await forked_and_killed(runner_with, look, dies_in="peek", at=1, result=2)
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))
    [result] = await runner_with(look, Tool(peek, read_only=True, on_restart="retry")).recover()
    assert result.output == [40, 2, 2]

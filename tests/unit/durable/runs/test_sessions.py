"""What a program defines is there for the next one of its session, in this process or another."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.tool import Tool
from holdfast.errors import InvalidArgument
from tests.unit.durable.runs.conftest import Killed


async def test_variables_and_functions_live_from_one_run_to_the_next(runner_with):
    runner = runner_with()
    await runner.run("a", "x = 41\ndef more(n):\n    return n + 1", "call_1", session="s")
    assert (await runner.run("a", "x = more(x)\nx", "call_2", session="s")).output == 42
    assert (await runner_with().run("a", "x", "call_3", session="s")).output == 42


async def test_sessions_are_apart(runner_with):
    runner = runner_with(type_check=False)
    await runner.run("a", "x = 1", "call_1", session="s")
    assert (await runner.run("a", "x", "call_2", session="t")).is_error
    assert (await runner.run("b", "x", "call_3", session="s")).is_error
    assert (await runner.run("a", "x", "call_4")).is_error


async def test_a_program_that_failed_leaves_what_it_had_done(runner_with):
    runner = runner_with()
    await runner.run("a", "x = 1", "call_1", session="s")
    assert (await runner.run("a", "x = 2\n1 / 0", "call_2", session="s")).is_error
    assert (await runner.run("a", "x", "call_3", session="s")).output == 2


async def test_a_call_in_a_function_of_an_earlier_program_works(runner_with):
    async def fetch(n: int) -> int:
        return n * 2

    runner = runner_with(fetch)
    await runner.run("a", "async def twice(n):\n    return await fetch(await fetch(n))", "call_1", session="s")
    assert (await runner.run("a", "await twice(3)", "call_2", session="s")).output == 12


async def test_a_recovered_run_of_a_session_goes_on_in_it(runner_with):
    def step(n: int) -> int:
        if n == 2 and dying:
            raise Killed
        return n

    dying = True
    runner = runner_with(step)
    await runner.run("a", "x = step(1)", "call_1", session="s")
    code = "y = x + step(1)\ntry:\n    step(2)\nexcept RuntimeError:\n    y += 100"
    with pytest.raises(Killed):
        await runner.run("a", code, "call_2", session="s")
    dying = False
    await runner_with(step).recover()
    assert (await runner_with(step).run("a", "y", "call_3", session="s")).output == 102


@pytest.mark.parametrize("lost", ["DELETE FROM snapshots", "UPDATE snapshots SET body = x'00'"])
async def test_a_session_without_its_snapshots_is_made_again_from_its_programs(runner_with, store, lost):
    calls = []

    def step(n: int) -> int:
        calls.append(n)
        return n

    runner = runner_with(step)
    await runner.run("a", "x = step(1)", "call_1", session="s")
    await runner.run("a", "x += step(10)", "call_2", session="s")
    await store.write_side.alone(lambda session: session.db.execute(lost))
    assert (await runner_with(step).run("a", "x + step(100)", "call_3", session="s")).output == 111
    assert calls == [1, 10, 100]


async def test_programs_of_a_session_that_are_asked_for_at_once_follow_each_other(runner_with):
    async def slow(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    runner = runner_with(slow)
    found = await asyncio.gather(
        runner.run("a", "x = await slow(1)", "one", session="s"),
        runner.run("a", "x += await slow(1)\nx", "two", session="s"),
        runner.run("a", "x += await slow(1)\nx", "three", session="s"),
    )
    assert [result.error for result in found] == [None, None, None]
    assert [result.output for result in found] == [None, 2, 3]


async def test_a_tool_can_not_run_a_program_in_the_session_that_waits_for_the_tool(runner_with):
    async def nested(session: str) -> int:
        return (await runner.run("a", "1", f"in-{session}", session=session)).output

    runner = runner_with(nested)
    code = (
        "try:\n    await nested('s')\nexcept ValueError as error:\n    told = str(error)\n[told, await nested('other')]"
    )
    result = await runner.run("a", code, "out", session="s")
    told, other = result.output
    assert "it would wait for itself" in told
    assert other == 1


async def without_snapshots(store):
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))


async def test_a_session_that_is_made_again_has_the_chance_and_the_clock_of_the_first_time(runner_with, store):
    runner = runner_with()
    code = "import random, time\nx = [random.random(), time.time()]\nx"
    first = await runner.run("a", code, "one", session="s")
    await without_snapshots(store)
    assert (await runner.run("a", "x", "two", session="s")).output == first.output


async def test_making_a_session_again_calls_and_writes_nothing(runner_with, store):
    calls = []

    def step(n: int) -> int:
        calls.append(n)
        return n

    runner = runner_with(step)
    await runner.run("a", "import random\nx = step(1) if random.random() < 2 else 0", "one", session="s")
    await runner.run("a", "y = x + step(2)", "two", session="s")
    before = await store.read("a")
    await without_snapshots(store)
    assert (await runner.run("a", "[x, y]", "three", session="s")).output == [1, 3]
    assert calls == [1, 2]
    after = await store.read("a")
    assert [record.seq for record in after][: len(before)] == [record.seq for record in before]
    assert len(after) == len(before) + 2


async def test_a_state_that_the_sandbox_refuses_is_made_again(runner_with, store, caplog):
    runner = runner_with()
    await runner.run("a", "x = 1", "one", session="s")
    await runner.run("a", "x += 1", "two", session="s")
    from holdfast.durable.runs.interpreter import Interpreter, SnapshotRefused

    begin = Interpreter._begin
    kept = [await store.snapshot("a", place.end) for place in await store.runs(session="s")]
    assert all(kept)

    def refusing(self, seat, state):
        if state in kept:
            raise SnapshotRefused("another version")
        return begin(self, seat, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interpreter, "_begin", refusing)
        assert (await runner.run("a", "x", "three", session="s")).output == 2
    assert "made again" in caplog.text


async def test_a_program_that_was_left_behind_ends_before_the_next_of_its_session_begins(runner_with, store):
    async def dying(n: int) -> int:
        raise Killed

    async def step(n: int) -> int:
        return n

    with pytest.raises(Killed):
        await runner_with(dying, type_check=False).run(
            "a", "x = 1\ntry:\n    await dying(1)\nexcept RuntimeError:\n    x = 2", "one", session="s"
        )
    runner = runner_with(Tool(step, name="dying"), type_check=False)
    assert (await runner.run("a", "x", "two", session="s")).output == 2
    assert await store.pending("run") == []


async def test_a_session_whose_last_program_waits_for_a_host_begins_no_other(runner_with, store):
    async def dying(n: int) -> int:
        raise Killed

    with pytest.raises(Killed):
        await runner_with(dying).run("a", "x = await dying(1)", "one", session="s")
    with pytest.raises(InvalidArgument, match="no tool dying"):
        await runner_with().run("a", "x", "two", session="s")
    assert [pending.name for pending in await store.pending("run")] == ["one"]

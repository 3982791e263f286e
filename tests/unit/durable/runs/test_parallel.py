"""Calls that are awaited together really overlap, and each keeps its result."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.history.records import RlmToolCall
from tests.unit.durable.runs.conftest import Killed

GATHER = "import asyncio\nawait asyncio.gather(step(1), step(2), step(3))"


async def test_gathered_calls_overlap_and_are_one_commit(runner_with, store):
    together = asyncio.Barrier(3)
    commits = []

    async def step(n: int) -> int:
        commits.append((await store.agent("a")).commit_number)
        await together.wait()  # nobody passes before all three are here
        return n * 10

    result = await runner_with(step).run("a", GATHER, "call_1")
    assert result.output == [10, 20, 30]
    assert len(set(commits)) == 1
    calls = [record for record in await store.read("a") if isinstance(record, RlmToolCall)]
    assert [call.batch for call in calls] == [calls[0].call_id] * 3
    assert [call.tool_call_count for call in calls] == [1, 2, 3]


async def test_plain_functions_overlap_too(runner_with):
    import threading

    together = threading.Barrier(2)

    def step(n: int) -> int:
        together.wait(5)
        return n

    code = "import asyncio\nawait asyncio.gather(step(1), step(2))"
    assert (await runner_with(step, type_check=False).run("a", code, "call_1")).output == [1, 2]


async def test_after_a_crash_the_finished_calls_keep_their_results(runner_with):
    calls = []

    def stepping(*, dying):
        finished = asyncio.Event()

        async def step(n: int) -> int:
            calls.append(n)
            if n == 2 and dying:
                await finished.wait()
                await asyncio.sleep(0.02)  # the other results are durable by now
                raise Killed
            if n == 3:
                finished.set()
            return n * 10

        return step

    code = """
import asyncio
async def careful(n):
    try:
        return await step(n)
    except RuntimeError as error:
        return error
await asyncio.gather(careful(1), careful(2), careful(3))
"""
    with pytest.raises(Killed):
        await runner_with(stepping(dying=True)).run("a", code, "call_1")
    [result] = await runner_with(stepping(dying=False)).recover()
    first, second, third = result.output
    assert (first, third) == (10, 30)
    assert "Process was restarted" in str(second)
    assert sorted(calls) == [1, 2, 3]


async def test_results_are_delivered_in_the_order_in_which_they_were_recorded(runner_with):
    """So a replay takes the same way, although the calls end in another order when nothing is asked again."""
    code = """
import asyncio
order = []
async def work(n):
    got = await step(n)
    order.append(got)
    return await step(got + 1)
result = await asyncio.gather(work(1), work(2), work(3))
last = final(order)
[order, result, last]
"""
    calls = []

    def tools(*, dying):
        gates = {n: asyncio.Event() for n in (1, 2, 3)}
        gates[3].set()
        after = {3: 1, 1: 2}

        async def step(n: int) -> int:
            calls.append(n)
            if n in gates:
                await gates[n].wait()
                await asyncio.sleep(0.001)
                if n in after:
                    gates[after[n]].set()
            return n * 10

        def final(order: list[int]) -> list[int]:
            if dying:
                raise Killed
            return order

        return step, final

    with pytest.raises(Killed):
        await runner_with(*tools(dying=True)).run("a", code, "call_1")
    step, final = tools(dying=False)
    from holdfast.durable.runs.tool import Tool

    [result] = await runner_with(step, Tool(final, on_restart="retry")).recover()
    order, results, last = result.output
    assert order == last == [30, 10, 20]
    assert results == [110, 210, 310]
    assert sorted(calls) == [1, 2, 3, 11, 21, 31]


async def test_plain_and_awaited_calls_mix(runner_with):
    def plain(n: int) -> int:
        return n

    async def slow(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    code = """
import asyncio
a = plain(1)
f = slow(2)
b = plain(3)
c = await f
d = await plain(4)
[a, b, c, d, *await asyncio.gather(*[slow(n) for n in range(3)])]
"""
    result = await runner_with(plain, slow, type_check=False).run("a", code, "call_1")
    assert result.output == [1, 3, 2, 4, 0, 1, 2]


async def test_a_sandbox_killed_under_gathered_calls_loses_none(runner_with):
    calls = []

    async def step(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0.01 * n)
        if n == 2:
            for seat in runner._executor.seats._made:
                seat.kill()
        return n * 10

    runner = runner_with(step)
    assert (await runner.run("a", GATHER, "call_1")).output == [10, 20, 30]
    assert sorted(calls) == [1, 2, 3]

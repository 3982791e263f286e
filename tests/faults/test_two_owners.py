"""Two processes that both believe they own a run: the one that hung writes nothing more and starts no further tool."""

import asyncio
import fcntl
import json
import os
import random
import signal
from collections import Counter

import pytest

from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.tool import Tool
from holdfast.errors import OwnedElsewhere
from holdfast.history.records import RlmComplete, RlmRestart, RlmToolCall
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import continued
from tests.faults.children import ended, line, running, tell
from tests.faults.report import LONG
from tests.faults.report import tell as report

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

WORLD = """
import json
from holdfast import PythonRunner, Tool, current_call

def happen(who, tool, n):
    call = current_call()
    told = {"who": who, "tool": tool, "n": n, "epoch": call.epoch, "key": call.idempotency_key}
    descriptor = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, (json.dumps(told) + "\\n").encode())
    os.close(descriptor)
"""

HANGS = (
    WORLD
    + """
def step(n: int) -> int:
    if n == 2:
        say("in the call")
        sys.stdin.readline()
    happen("old", "step", n)
    return n

told_to_go_on = []

async def wide(n: int) -> int:
    say("in the call")
    if not told_to_go_on:
        told_to_go_on.append(asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline)))
    await asyncio.shield(told_to_go_on[0])
    happen("old", "wide", n)
    return n

async def main():
    runner = PythonRunner(SQLiteCheckpointStorage(path), tools=[Tool(step, on_restart="retry"), wide], type_check=False)
    try:
        say("ended", (await runner.run("a", sys.argv[3], "call_1")).output)
    except HoldfastError as error:
        say(type(error).__name__, error.agent_id, error.epoch)
    await runner.close()
asyncio.run(main())
"""
)

STEPS = "[await step(n) for n in range(5)]"
WIDE = """
import asyncio
got = []
for n in range(2):
    try:
        got += await asyncio.gather(*[wide(10 * n + k) for k in range(3)])
    except RuntimeError as error:
        got.append(str(error))
got
"""


class World:
    """What happened, in order, whoever did it; with `fenced` it refuses an epoch older than one that it has seen."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def happen(self, tool, n):
        call = current_call()
        told = {"who": "new", "tool": tool, "n": n, "epoch": call.epoch, "key": call.idempotency_key}
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(told) + "\n").encode())
        os.close(descriptor)

    def runner(self, store):
        def step(n: int) -> int:
            self.happen("step", n)
            return n

        async def wide(n: int) -> int:
            await asyncio.to_thread(self.happen, "wide", n)
            return n

        return PythonRunner(store, tools=[Tool(step, on_restart="retry"), wide], type_check=False)


async def history_is_sound(store):
    """One end, one takeover, no call recorded by the old owner after it, and everything authentic."""
    records = await store.read("a", snapshots=False)
    [restart] = [record.seq for record in records if isinstance(record, RlmRestart)]
    [complete] = [record for record in records if isinstance(record, RlmComplete)]
    assert not complete.is_error
    report_of = await store.verify()
    assert report_of.ok, report_of.damaged
    return {record.call_id for record in records if isinstance(record, RlmToolCall) and record.seq < restart}


async def test_a_hung_owner_of_a_run_is_refused_and_starts_no_further_tool(tmp_path):
    path, world = tmp_path / "store.db", World(tmp_path / "world")
    store = SQLiteCheckpointStorage(path)
    runner = world.runner(store)
    with running(HANGS, path, world.path, STEPS) as old:
        assert line(old) == "in the call"
        stop_outside_of_a_commit(old, path)
        with pytest.raises(OwnedElsewhere):
            await runner.run("a", STEPS, "call_1")
        assert await runner.recover() == [], "a process that hangs is no dead one"
        result = await runner.run("a", STEPS, "call_1", take_over=True)
        assert result.output == [0, 1, 2, 3, 4]
        old.send_signal(signal.SIGCONT)
        tell(old)
        assert ended(old) == ["StaleWriter a 1"]
    await history_is_sound(store)
    happened = world.lines()
    assert [one["n"] for one in happened if one["who"] == "old"] == [0, 1, 2], "the call it was in, and no other"
    assert [one["n"] for one in happened if one["who"] == "new"] == [2, 3, 4]
    twice = [one for one in happened if one["n"] == 2]
    assert twice[0]["key"] == twice[1]["key"], "a receiver that knows the key takes one of them"
    assert {one["who"]: one["epoch"] for one in twice} == {"old": 1, "new": 2}, "or refuses the older epoch"
    await runner.close()


async def test_a_hung_owner_of_parallel_calls_starts_none_of_the_next(tmp_path):
    path, world = tmp_path / "store.db", World(tmp_path / "world")
    store = SQLiteCheckpointStorage(path)
    runner = world.runner(store)
    with running(HANGS, path, world.path, WIDE) as old:
        assert [line(old) for _ in range(3)] == ["in the call"] * 3
        stop_outside_of_a_commit(old, path)
        result = await runner.run("a", WIDE, "call_1", take_over=True)
        assert result.output == ["Process was restarted", 10, 11, 12]
        old.send_signal(signal.SIGCONT)
        tell(old)
        assert ended(old) == ["StaleWriter a 1"]
    await history_is_sound(store)
    assert sorted(one["n"] for one in world.lines() if one["who"] == "old") == [0, 1, 2]
    assert max(Counter(one["key"] for one in world.lines()).values()) == 1
    await runner.close()


COUNTS = (
    WORLD
    + """
def step(n: int) -> int:
    happen("old", "step", n)
    return n

async def main():
    runner = PythonRunner(SQLiteCheckpointStorage(path), tools=[step], type_check=False)
    await runner.storage.agents()
    say("begins")
    try:
        say("ended", len((await runner.run("a", sys.argv[3], "call_1")).output))
    except HoldfastError as error:
        say(type(error).__name__)
    await runner.close()
asyncio.run(main())
"""
)
MANY = """
got = []
for n in range(150):
    try:
        got.append(await step(n))
    except RuntimeError as error:
        got.append("lost")
got
"""
TURNS = 60 if LONG else 3


@pytest.mark.slow
@pytest.mark.timeout(1200 if LONG else 60)
async def test_an_owner_that_is_stopped_anywhere_does_at_most_the_one_call_it_was_in(tmp_path):
    chance = random.Random(7)
    outcomes = Counter()
    for turn in range(TURNS):
        path, world = tmp_path / f"{turn}.db", World(tmp_path / f"world-{turn}")
        store = SQLiteCheckpointStorage(path)
        runner = PythonRunner(store, tools=[Tool(stepping(world), name="step")], type_check=False)
        with running(COUNTS, path, world.path, MANY) as old:
            assert line(old) == "begins"
            await until_it_is_under_way(world, chance.randrange(1, 100))
            stop_outside_of_a_commit(old, path)
            result = await runner.run("a", MANY, "call_1", take_over=True)
            before = world.lines()
            old.send_signal(signal.SIGCONT)
            [said] = ended(old)
        assert len(result.output) == 150
        later = world.lines()[len(before) :]
        assert all(one["who"] == "old" for one in later)
        assert len(later) <= 1, "a serial program is in one call at most"
        by_key = Counter(one["key"] for one in world.lines())
        outcomes["made twice"] += by_key.total() - len(by_key)  # what may have happened is not called again
        outcomes["calls that happened after the takeover"] += len(later)
        if await store.pending("run"):
            raise AssertionError("the run has ended")
        if said.startswith("ended"):
            outcomes["had ended before it was stopped"] += 1
        else:
            assert said == "StaleWriter"
            await history_is_sound(store)
            outcomes["refused as stale"] += 1
            lost = {n for n, one in enumerate(result.output) if one == "lost"}
            assert len(lost) <= 1
            assert {one["n"] for one in later} <= lost
        await runner.close()
    report(
        "Two owners of a run", "One stopped with SIGSTOP anywhere, taken over, and woken.", runs=TURNS, **dict(outcomes)
    )
    assert outcomes["made twice"] == 0
    assert outcomes["refused as stale"] >= TURNS / 2


def stepping(world):
    def step(n: int) -> int:
        world.happen("step", n)
        return n

    return step


async def until_it_is_under_way(world, calls):
    while not world.path.exists() or world.path.read_bytes().count(b"\n") < calls:  # noqa: ASYNC110 - of a process
        await asyncio.sleep(0)


def stop_outside_of_a_commit(child, path):
    """Who is stopped in the middle of a commit holds the lock by which all take turns: they wait until it is woken."""
    while True:
        child.send_signal(signal.SIGSTOP)
        descriptor = os.open(f"{path}.lock", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            child.send_signal(signal.SIGCONT)
        else:
            return
        finally:
            os.close(descriptor)


async def test_who_is_stopped_in_the_middle_of_a_commit_is_waited_for(tmp_path):
    """A limit: nobody can take a lock away from a process that lives. Nothing is lost when it is woken, or killed."""
    path = tmp_path / "store.db"
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path)
        await continued(store)
        turn = store.write_side.session.turn.held()
        turn.__enter__()
        say("in turn")
        sys.stdin.readline()
    asyncio.run(main())
    """
    with running(program, path) as old:
        assert line(old) == "in turn"
        old.send_signal(signal.SIGSTOP)
        store = SQLiteCheckpointStorage(path)
        waiting = asyncio.ensure_future(continued(store))
        await asyncio.wait({waiting}, timeout=0.2)
        assert not waiting.done()
        reader = SQLiteCheckpointStorage(path, read_only=True)
        assert len(await reader.read("agent")) == 1, "who only reads need not wait"
        await reader.close()
        old.kill()
        assert (await waiting).position == 2
    await store.close()

"""A run happens once, whoever asks for it at the same time, here or in another process."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.tool import Tool
from holdfast.errors import OwnedElsewhere, StaleWriter, WrongOwner
from holdfast.history.records import RlmStart
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.unit.durable.runs.conftest import Killed

CODE = "await step(1)"


class Busy(SQLiteCheckpointStorage):
    """A store of another process that is asked for a run just before something else happens to it."""

    meanwhile = None

    async def runs(self, **query):
        found = await super().runs(**query)
        if self.meanwhile is not None:
            happening, self.meanwhile = self.meanwhile, None
            await happening()
        return found

    async def read(self, *arguments, **options):
        found = await super().read(*arguments, **options)
        if self.meanwhile_read is not None:
            happening, self.meanwhile_read = self.meanwhile_read, None
            await happening()
        return found

    meanwhile_read = None


@pytest.fixture
async def elsewhere(tmp_path):
    store = Busy(tmp_path / "store.db")
    yield store
    await store.close()


def stepping(done: list[int]):
    async def step(n: int) -> int:
        done.append(n)
        await asyncio.sleep(0)
        return n

    return step


async def left_behind(runner_with, **options):
    """A run whose process died in its second call."""

    async def step(n: int) -> int:
        if n == 2:
            raise Killed
        return n

    with pytest.raises(Killed):
        await runner_with(step, **options).run("a", "await step(1)\nawait step(2)\nawait step(3)", "call_1")


async def starts(store):
    return sum(isinstance(record, RlmStart) for record in await store.read("a"))


async def test_two_runners_of_a_process_do_not_run_it_twice(runner_with, store):
    done = []
    first, second = runner_with(stepping(done)), runner_with(stepping(done))
    one, other = await asyncio.gather(
        first.run("a", CODE, "call_1"), second.run("a", CODE, "call_1"), return_exceptions=True
    )
    assert one.output == 1
    assert isinstance(other, OwnedElsewhere)
    assert (done, await starts(store)) == ([1], 1)
    assert (await second.run("a", CODE, "call_1")).output == 1, "afterwards its result is there for everybody"


async def test_two_recoveries_at_once_make_its_calls_once(runner_with):
    await left_behind(runner_with)
    done = []
    tool = Tool(stepping(done), on_restart="retry")
    first, second = runner_with(tool), runner_with(tool)
    found = await asyncio.gather(first.recover(), first.recover(), second.recover())
    assert sorted(result.status for results in found for result in results) == ["complete", "elsewhere", "elsewhere"]
    assert done == [2, 3]


async def test_a_run_that_another_process_began_and_ended_meanwhile_is_not_begun_again(runner_with, store, elsewhere):
    done = []
    here, there = runner_with(stepping(done), storage=elsewhere), runner_with(stepping(done))

    async def run_there():
        await there.run("a", CODE, "call_1")

    elsewhere.meanwhile = run_there
    assert (await here.run("a", CODE, "call_1")).output == 1
    assert (done, await starts(store)) == ([1], 1)


async def test_a_run_that_another_process_recovered_meanwhile_is_not_gone_on_with(runner_with, elsewhere):
    await left_behind(runner_with)
    done = []
    tool = Tool(stepping(done), on_restart="retry")
    here, there = runner_with(tool, storage=elsewhere), runner_with(tool)
    elsewhere.meanwhile_read = there.recover
    [result] = await here.recover()
    assert (result.status, result.output) == ("complete", 3)
    assert done == [2, 3]


async def test_other_runs_of_the_agent_do_not_keep_one_from_beginning(runner_with, elsewhere):
    here, there = runner_with(stepping([]), storage=elsewhere), runner_with(stepping([]))

    async def run_there():
        await there.run("a", "await step(7)", "another")

    elsewhere.meanwhile = run_there
    assert (await here.run("a", CODE, "call_1")).output == 1


async def test_a_run_of_a_process_that_hangs_can_be_taken_over_and_the_old_owner_calls_no_more_tools(
    runner_with, elsewhere
):
    entered, hangs, done = asyncio.Event(), asyncio.Event(), []

    async def step(n: int) -> int:
        done.append(("old", n))
        entered.set()
        await hangs.wait()
        return n

    code = "await step(1)\nawait step(2)"
    old = asyncio.ensure_future(runner_with(step).run("a", code, "call_1"))
    await entered.wait()

    async def again(n: int) -> int:
        done.append(("new", n))
        return n

    new: PythonRunner = runner_with(Tool(again, name="step", on_restart="retry"), storage=elsewhere)
    with pytest.raises(OwnedElsewhere, match="live process"):
        await new.run("a", code, "call_1")
    assert (await new.run("a", code, "call_1", take_over=True)).output == 2
    hangs.set()
    with pytest.raises(StaleWriter):
        await old
    assert done == [("old", 1), ("new", 1), ("new", 2)]


async def test_a_run_goes_on_when_one_of_those_who_wait_for_it_gives_up(runner_with):
    entered, go_on, done = asyncio.Event(), asyncio.Event(), []

    async def step(n: int) -> int:
        done.append(n)
        entered.set()
        await go_on.wait()
        return n

    runner = runner_with(step)
    first = asyncio.ensure_future(runner.run("a", CODE, "call_1"))
    second = asyncio.ensure_future(runner.run("a", CODE, "call_1"))
    await entered.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    assert (await second).output == 1
    assert done == [1]


async def test_a_run_that_nobody_waits_for_any_more_is_left_for_recovery(runner_with, store):
    entered, cancelled = asyncio.Event(), []

    async def step(n: int) -> int:
        entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(n)
            raise
        return n

    runner = runner_with(step)
    asked = [asyncio.ensure_future(runner.run("a", CODE, "call_1")) for _ in range(2)]
    await entered.wait()
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    assert cancelled == [1], "whoever gives up last waits until the tool has let go"
    [pending] = await store.pending("run")
    assert (pending.name, pending.owner_alive) == ("call_1", False)
    [result] = await runner.recover()
    assert "Process was restarted" in result.error


async def test_another_user_gets_nobody_elses_result(runner_with):
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def step(n: int) -> int:
        entered.set()
        await go_on.wait()
        return n

    runner = runner_with(step)
    mine = asyncio.ensure_future(runner.run("a", CODE, "call_1", user_id="ada"))
    await entered.wait()
    with pytest.raises(WrongOwner):
        await runner.run("a", CODE, "call_1", user_id="bob")
    go_on.set()
    assert (await mine).output == 1
    with pytest.raises(WrongOwner):
        await runner.run("a", CODE, "call_1", user_id="bob")

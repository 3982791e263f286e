"""A program that takes another way when it is replayed is parked: nothing is called again, nothing is guessed."""

from __future__ import annotations

import pytest

from holdfast.durable.runs.tool import Tool
from holdfast.history.records import RlmComplete, RlmRestart
from tests.unit.durable.runs.conftest import Killed

LISTS = """
import pathlib
for path in sorted(pathlib.Path("/data").iterdir()):
    path.read_text()
step(1)
step(2)
"""


def stepping(calls, *, dies_at=None):
    def step(n: int) -> int:
        calls.append(n)
        if n == dies_at:
            raise Killed
        return n

    return step


async def without_snapshots(store):
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))


async def test_calls_that_move_are_not_made_again(runner_with, store, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").write_text("1")
    calls, mounts = [], {"/data": tmp_path / "data"}
    with pytest.raises(Killed):
        await runner_with(stepping(calls, dies_at=2), mounts=mounts).run("a", LISTS, "call_1")
    await without_snapshots(store)
    (tmp_path / "data" / "two").write_text("2")
    (tmp_path / "data" / "three").write_text("3")
    [result] = await runner_with(stepping(calls), mounts=mounts).recover()
    assert result.status == "parked"
    assert "does not repeat call" in result.error
    assert calls == [1, 2]
    assert not any(isinstance(record, RlmComplete) for record in await store.read("a"))


async def test_a_program_that_ends_before_what_is_recorded_of_it_is_not_completed(runner_with, store, tmp_path):
    (tmp_path / "data").mkdir()
    code = "import pathlib\nif not pathlib.Path('/data/over').exists():\n    step(1)\n    step(2)\n'over'"
    calls, mounts = [], {"/data": tmp_path / "data"}
    with pytest.raises(Killed):
        await runner_with(stepping(calls, dies_at=2), mounts=mounts).run("a", code, "call_1")
    await without_snapshots(store)
    (tmp_path / "data" / "over").write_text("")
    [result] = await runner_with(stepping(calls), mounts=mounts).recover()
    assert result.status == "parked"
    assert "its end" in result.error
    (tmp_path / "data" / "over").unlink()
    [again] = await runner_with(stepping(calls)).recover()
    assert again.status == "parked", "it waits for a person"
    [again] = await runner_with(Tool(stepping(calls), on_restart="retry"), mounts=mounts).recover(again=True)
    assert (again.output, calls) == ("over", [1, 2, 2])


async def test_a_recorded_call_is_not_refused_for_what_its_tool_takes_today(runner_with, store):
    calls = []
    with pytest.raises(Killed):
        await runner_with(stepping(calls, dies_at=2)).run("a", "[step(1), step(2), step(3)]", "call_1")
    await without_snapshots(store)

    def step(n: str) -> str:
        calls.append(n)
        return n

    code_error = await runner_with(Tool(step)).recover()
    [result] = code_error
    assert "Process was restarted" in result.error, "the first result was delivered, the second call is unknown"
    assert calls == [1, 2]


async def test_a_recorded_call_that_its_tool_does_not_take_any_more_is_shown(runner_with, store):
    with pytest.raises(Killed):
        await runner_with(stepping([], dies_at=2)).run("a", "[step(n=1), step(2)]", "call_1")
    await without_snapshots(store)

    def step(number: int, /) -> int:
        return number

    [result] = await runner_with(step).recover()
    assert result.status == "parked"
    assert "step(n)" in result.error
    [*_, restart] = await store.read("a")
    assert isinstance(restart, RlmRestart)
    assert restart.attempt == 1


async def test_a_run_whose_earlier_program_may_call_a_tool_that_is_not_here_is_left(runner_with):
    def fetch(n: int) -> int:
        return n

    both = runner_with(stepping([], dies_at=2), fetch)
    await both.run("a", "def more(n):\n    return fetch(n)", "one", session="s")
    with pytest.raises(Killed):
        await both.run("a", "[step(1), step(2), more(3)]", "two", session="s")
    [result] = await runner_with(stepping([])).recover()
    assert result.status == "left"
    assert "fetch" in result.error


async def test_the_clock_of_a_recovered_program_does_not_go_back(runner_with):
    code = "import time\nat = time.time()\nstep(1)\nstep(2)"
    with pytest.raises(Killed):
        await runner_with(stepping([], dies_at=2), now=lambda: 1000.0).run("a", code, "call_1")

    def step(n: int) -> int:
        return n

    code = code.replace("step(2)", "try:\n    step(2)\nexcept RuntimeError:\n    pass\n[at, time.time()]")
    with pytest.raises(Killed):
        await runner_with(stepping([], dies_at=2), now=lambda: 1000.0).run("a", code, "call_2")
    found = {result.tool_call_id: result for result in await runner_with(step, now=lambda: 500.0).recover()}
    assert found["call_2"].output == [1000.0, 1000.0]

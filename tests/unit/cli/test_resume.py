"""`holdfast resume`: what dead processes left comes to its end, or it is said why not."""

from __future__ import annotations

import asyncio
import json

import pytest
from inline_snapshot import snapshot

from holdfast import PythonRunner, SQLiteCheckpointStorage
from tests.unit.cli.conftest import BOOK, TOOLS

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

RETRY = "from holdfast import Tool\n" + TOOLS + "\npay = Tool(pay, on_restart='retry')\n"
WITH = ("--tools", "tools.py")


def test_every_run_that_was_left_behind_is_told_with_its_outcome(holdfast, programs, left_behind):
    left_behind(BOOK, "trip-1", "call_1")
    left_behind("try:\n    await pay('x')\nexcept RuntimeError as error:\n    print(error)\n1 / 0", "trip-2", "call_2")
    left_behind("await pay('y')", "trip-3", "call_3")
    programs(tools=RETRY)
    ran = holdfast("resume", *WITH)
    assert (ran.code, ran.err) == (1, "")
    assert sorted(ran.out.splitlines()) == snapshot(
        [
            "RUN     AGENT   STATE     CALLS",
            'call_1  trip-1  finished  3 calls  "booked"',
            "call_2  trip-2  failed    1 call   ZeroDivisionError: division by zero",
            'call_3  trip-3  finished  1 call   "paid y"',
        ]
    )
    assert holdfast("runs", "--pending").out == "No run is pending here.\n"
    ran = holdfast("resume", *WITH)
    assert (ran.code, ran.out) == (0, "No run is pending here.\n")


def test_one_run_is_resumed_and_the_others_stay(holdfast, programs, left_behind):
    left_behind(BOOK, "trip-1", "call_1")
    left_behind(BOOK, "trip-2", "call_2")
    programs(tools=RETRY)
    assert holdfast("resume", "call_2", *WITH).out == snapshot("""\
RUN     AGENT   STATE     CALLS
call_2  trip-2  finished  3 calls  "booked"
""")
    assert [one["tool_call_id"] for one in json.loads(holdfast("runs", "--pending", "--json").out)] == ["call_1"]
    assert json.loads(holdfast("resume", "--agent", "trip-2", *WITH, "--json").out) == []


def test_a_run_that_is_finished_tells_its_recorded_result(holdfast, programs):
    holdfast("run", "book.py", *WITH)
    ran = holdfast("resume", "book", *WITH)
    assert (ran.code, ran.out) == snapshot(
        (
            0,
            """\
RUN   AGENT  STATE     CALLS
book  book   finished  4 calls  "booked"
""",
        )
    )


def test_a_run_whose_tools_are_missing_is_left_and_the_others_go_on(holdfast, programs, left_behind):
    left_behind("find('x')\nawait pay('x')", "trip-1", "call_1")
    left_behind("await pay('y')", "trip-2", "call_2")
    programs(tools="async def pay(hotel: str) -> str:\n    return ''")
    ran = holdfast("resume", *WITH, "--json")
    assert ran.code == 6
    assert {one["tool_call_id"]: one["state"] for one in json.loads(ran.out)} == {"call_1": "left", "call_2": "failed"}
    ran = holdfast("resume", *WITH)
    assert (ran.code, ran.out, ran.err) == snapshot(
        (
            6,
            """\
RUN     AGENT   STATE  CALLS
call_1  trip-1  left          This host has no tool find, which the run may call
""",
            "hint: Name a tools file with the tools that are missing.\n",
        )
    )


def test_a_parked_run_is_tried_again_only_on_demand(holdfast, programs, left_behind, monkeypatch):
    left_behind("find('x')\nawait pay('x')")
    programs(tools=RETRY.replace("city", "town"))
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.durable.runs.log.RunLog.snapshots", lambda _: [])  # so that it is replayed
        assert holdfast("resume", *WITH).code == 6
    programs(tools=RETRY)
    ran = holdfast("resume", "trip", *WITH)
    assert (ran.code, ran.err) == (
        6,
        "hint: `holdfast trace RUN` shows where a run is parked; --again tries once more.\n",
    )
    assert "recorded \"find(city='x')\", replayed" in ran.out
    assert "parked: Run trip does not repeat call 0" in holdfast("trace", "trip").out
    programs(run="find('x')\nawait pay('x')")
    ran = holdfast("run", "run.py", *WITH, "--agent", "trip", "--id", "trip")
    assert ran.code == 6
    assert ran.err.endswith(
        "hint: `holdfast trace trip` shows where; `holdfast resume trip --tools tools.py --again` tries once more.\n"
    )
    assert holdfast("resume", "trip", "--again", *WITH).code == 0


def test_a_run_of_a_live_process_is_elsewhere(holdfast, programs, tmp_path):
    async def meanwhile():
        reached, go = asyncio.Event(), asyncio.Event()

        async def pay(hotel: str) -> str:
            reached.set()
            await go.wait()
            return "paid"

        async with PythonRunner(SQLiteCheckpointStorage(tmp_path / "checkpoints.db"), [pay]) as runner:
            task = asyncio.ensure_future(runner.run("trip", "await pay('x')", "trip"))
            await reached.wait()
            told = await asyncio.to_thread(run_elsewhere, tmp_path)
            go.set()
            assert (await task).output == "paid"
        return told

    programs(trip="await pay('x')")
    (resumed, resumed_code), (ran, ran_code), states = asyncio.run(meanwhile())
    assert (resumed_code, ran_code, states) == (6, 6, ["running"])
    assert resumed == snapshot("""\
RUN   AGENT  STATE      CALLS
trip  trip   elsewhere         A live process has its agent
""")
    assert ran == snapshot("""\
error: Run trip of agent trip is running in a live process
hint: Wait until it ends; `holdfast runs --agent trip` shows what it does.
""")


def run_elsewhere(folder):
    """What other processes are told."""
    import subprocess
    import sys

    def told(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr, done.returncode

    states = [one["state"] for one in json.loads(told("runs", "--json")[0])]
    return told("resume", *WITH), told("run", "trip.py", *WITH), states

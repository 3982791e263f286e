"""`holdfast workflow`: runs a file's workflow and goes on with it, checks one, and shows its graph."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap

import pytest

from holdfast import CheckpointManager, SQLiteCheckpointStorage
from holdfast.durable.holding import holding
from tests.unit.cli.conftest import timeless

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

AGENTS = """\
from pathlib import Path
from holdfast import InputField, StandardAgent

async def find(inputs, context):
    print("finding in", inputs["city"])
    return {"hotels": ["Alma", "Rio"], "guests": inputs.get("guests")}

async def book(inputs):
    if not Path("open").exists():
        raise ConnectionError("nobody there")
    return f"booked {inputs['hotel']}"

class Thanks(StandardAgent):
    name = InputField("Whom shall I thank?")

    async def on_running(self, msg):
        return self.make_result(status="COMPLETED", raw_message=f"Thank you, {self.name}.")

def no_agent(inputs): ...
class NoAgent: ...
"""
TRIP = """\
steps:
  - {name: search, agent: find, inputs: {city: "${input.city}", guests: "${input.guests}"}, timeout_seconds: 60}
  - {name: news, agent: find, needs: [], inputs: {city: "${env:HOME_CITY}"}, checkpoint: false, on_error: continue}
  - {name: big, agent: book, needs: search, when: "${search.output.guests} > 6"}
  - name: book
    agent: book
    needs: [search, big, news]
    inputs: {hotel: "${search.output.hotels[0]}"}
    retry: {max_attempts: 2}
"""
THANKS = "steps: [{name: thanks, agent: Thanks}]"
RUN = ("workflow", "run", "trip.yaml", "--agents", "agents.py")
INPUTS = ("--input", "city=Rome", "--input", "guests:=2")


@pytest.fixture
def trip(programs, monkeypatch, tmp_path):
    """agents.py and trip.yaml in the working directory; returns what writes another file."""
    programs(agents=AGENTS)
    monkeypatch.setenv("HOME_CITY", "Turin")

    def write(name, text):
        (tmp_path / name).write_text(textwrap.dedent(text))

    write("trip.yaml", TRIP)
    return write


def shown(ran):
    return timeless(re.sub(r"chk_\w{26}", "chk_", ran.out))


def test_a_workflow_fails_is_mended_and_goes_on_by_the_line_that_is_offered(holdfast, trip, tmp_path):
    ran = holdfast(*RUN, *INPUTS, "--id", "monday")
    assert ran.code == 1
    assert shown(ran) == (
        "trip/monday  ERROR  chk_\n"
        '  done      search  {"hotels": ["Alma", "Rio"], "guests": 2}\n'
        '  done      news    {"hotels": ["Alma", "Rio"], "guests": None}\n'
        "  skipped   big\n"
        "  failed    book    ConnectionError: nobody there\n"
    )
    assert ran.err == (
        "finding in Rome\nfinding in Turin\n"
        "error: Run monday has ended early: step book failed\n"
        "hint: holdfast workflow run trip.yaml --agents agents.py --resume monday tries again.\n"
    )
    (tmp_path / "open").touch()
    hint = ran.err.splitlines()[-1].removeprefix("hint: holdfast ").removesuffix(" tries again.")
    again = holdfast(*shlex.split(hint))
    assert (again.code, again.err) == (0, "")  # nothing was found again
    assert 'done      book    "booked Alma"' in again.out


@pytest.mark.parametrize("how", ["monday", "trip/monday", "chk"])
def test_a_run_is_gone_on_with_by_its_name_or_from_a_checkpoint(holdfast, trip, tmp_path, how):
    ran = holdfast(*RUN, *INPUTS, "--id", "monday", "--json")
    (tmp_path / "open").touch()
    newest = json.loads(ran.out)["checkpoint_id"]
    done = holdfast(*RUN, "--resume", newest[:-2] if how == "chk" else how, "--json")
    told = json.loads(done.out)
    assert (done.code, told["status"], told["run"]) == (0, "COMPLETED", "monday")
    assert told["outputs"]["book"] == "booked Alma"
    assert told["steps"] == {"search": "done", "news": "done", "big": "skipped", "book": "done"}
    assert set(told) == {"workflow", "run", "agent_id", "status", "outputs", "errors", "skipped", "waiting", "steps",
                         "checkpoint_id", "checkpoint_ids"}  # fmt: skip


def test_a_step_that_waits_is_answered(holdfast, trip):
    trip("thanks.yaml", THANKS)
    run = ("workflow", "run", "thanks.yaml", "--agents", "agents.py")
    ran = holdfast(*run, "--id", "r")
    assert ran.code == 6
    assert shown(ran) == "thanks/r  WAITING_FOR_INPUT  chk_\n  waiting   thanks  Whom shall I thank?\n"
    assert ran.err == (
        "note: Run r waits for an answer to step thanks\n"
        "hint: holdfast workflow run thanks.yaml --agents agents.py --resume r --answer thanks=TEXT\n"
    )
    assert "waiting" in holdfast("workflow", "show", "thanks.yaml", "--run", "r").out
    told = json.loads(holdfast("workflow", "show", "thanks.yaml", "--run", "r", "--json").out)
    assert told["steps"][0]["waits_for"] == "Whom shall I thank?"
    ran = holdfast(*run, "--resume", "r", "--answer", "thanks=Ada")
    assert ran.code == 0
    assert '{"name": "Ada", "message": "Thank you, Ada."}' in ran.out


def test_check_tells_everything_by_line(holdfast, trip, tmp_path):
    trip("bad.yaml", """\
        steps:
          - name: a
            agent: fnd
            retry: {max_attempt: 3}
          - {name: b, agent: find, needs: [c]}
    """)  # fmt: skip
    ran = holdfast("workflow", "check", "bad.yaml", "--agents", "agents.py")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == (
        "bad.yaml:3:12: steps[0].agent: there is no agent 'fnd'; did you mean find?\n"
        "bad.yaml:4:13: steps[0].retry.max_attempt: unknown key; did you mean max_attempts?\n"
        "bad.yaml:5:35: steps[1].needs: there is no step 'c'; there is a, b\n"
    )
    told = json.loads(holdfast("workflow", "check", "bad.yaml", "--json").out)
    assert (told["ok"], [one["line"] for one in told["problems"]]) == (False, [4, 5])
    ran = holdfast("workflow", "run", "bad.yaml", "--agents", "agents.py")
    assert ran.code == 1
    assert ran.err.startswith("error: bad.yaml, line 3: steps[0].agent: there is no agent 'fnd'")
    assert not (tmp_path / "checkpoints.db").exists()


def test_check_tells_what_a_file_in_order_needs(holdfast, trip):
    ran = holdfast("workflow", "check", "trip.yaml", "--agents", "agents.py")
    assert (ran.code, ran.out) == (0, (
        "trip.yaml is in order: workflow trip, 4 steps\n"
        "agents       book, find\n"
        "inputs       city, guests\n"
        "environment  HOME_CITY\n"
    ))  # fmt: skip
    assert json.loads(holdfast("workflow", "check", "trip.yaml", "--json").out) == {
        "ok": True, "problems": [], "workflow": "trip", "steps": 4, "agents": ["book", "find"],
        "inputs": ["city", "guests"], "environment": ["HOME_CITY"],
    }  # fmt: skip


def test_show_draws_the_graph_and_how_far_a_run_is(holdfast, trip):
    assert holdfast("workflow", "show", "trip.yaml").out == (
        "trip: 4 steps\n"
        "\n"
        "   STEP    AGENT  AFTER\n"
        "1  search  find   -                  at most 60 s\n"
        "   news    find   -                  may fail; no checkpoint\n"
        "2  big     book   search             when ${search.output.guests} > 6\n"
        "3  book    book   search, big, news  up to 2 attempts\n"
    )
    made = json.loads(holdfast(*RUN, *INPUTS, "--id", "monday", "--json").out)["checkpoint_ids"]
    lines = shown(holdfast("workflow", "show", "trip.yaml", "--run", "monday")).splitlines()
    assert lines[1] == "run monday  ERROR  chk_  <time>"
    assert [re.split("  +", line)[2] for line in lines[4:]] == ["done", "done", "skipped", "failed, attempt 2"]
    first = shown(holdfast("workflow", "show", "trip.yaml", "--run", made[0])).splitlines()
    assert [re.split("  +", line)[2] for line in first[4:]] == ["running (begun, not ended)"] * 2 + ["pending"] * 2
    told = json.loads(holdfast("workflow", "show", "trip.yaml", "--run", "trip/monday", "--json").out)
    assert (told["run"], told["status"], told["steps"][0]["level"]) == ("monday", "ERROR", 1)
    assert told["steps"][3]["error"] == "ConnectionError: nobody there"


def test_a_run_or_checkpoint_that_is_not_there_is_told(holdfast, trip, ids):
    holdfast(*RUN, *INPUTS, "--id", "monday")
    for command in (("workflow", "show", "trip.yaml", "--run"), (*RUN, "--resume")):
        ran = holdfast(*command, "tuesday")
        assert (ran.code, ran.err) == (1, "error: Workflow trip has no run tuesday\nhint: There is trip/monday.\n")
        ran = holdfast(*command, ids[0])
        assert ran.code == 1
        assert "is of trip-1, and not of a run of" in ran.err
    assert holdfast("workflow", "show", "trip.yaml", "--run", "x", "--store", "none.db").code == 4


def test_a_file_that_changed_is_refused_unless_it_is_allowed(holdfast, trip, tmp_path):
    holdfast(*RUN, *INPUTS, "--id", "monday")
    (tmp_path / "open").touch()
    trip("trip.yaml", TRIP.replace("[0]", "[1]"))
    ran = holdfast(*RUN, "--resume", "monday")
    assert (ran.code, ran.out) == (1, "")
    assert "is not what run trip/monday began with: step book was changed" in ran.err
    assert "booked Rio" in holdfast(*RUN, "--resume", "monday", "--allow-changes").out


def test_a_missing_input_is_told_before_anything_runs(holdfast, trip):
    ran = holdfast(*RUN, "--input", "city=Rome")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: trip.yaml, line 2: search: ${input.guests}: there is no input.guests")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "city"),
        ("--input", "=x"),
        ("--input", "n:=oops"),
        ("--answer", "a"),
        ("--id", "a", "--resume", "b"),
        (),
    ],
)
def test_what_makes_no_sense_ends_with_2(holdfast, trip, arguments):
    ran = holdfast(*(RUN if arguments else RUN[:3]), *arguments)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "agents.py has no agents"),
        ("AGENTS = 7", "AGENTS in agents.py is int, no list and no mapping"),
        ("AGENTS = [dict]", "agents.py: Agent dict can't do a step: dict has no run(inputs, context)"),
        ("1 / 0", "agents.py, line 1: ZeroDivisionError: division by zero"),
        ("async def", "agents.py, line 1: SyntaxError"),
    ],
)
def test_an_agents_file_that_is_wrong_is_told(holdfast, trip, programs, text, told):
    programs(agents=text)
    ran = holdfast(*RUN)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {told}")


def test_a_list_or_mapping_of_agents_counts_before_what_is_defined(holdfast, trip, programs):
    programs(agents=f"{AGENTS}\nAGENTS = {{'find': book}}\n")
    ran = holdfast("workflow", "check", "trip.yaml", "--agents", "agents.py")
    assert "there is no agent 'book'; there is find" in ran.out


def test_at_a_terminal_each_step_is_told_as_it_begins_and_ends(holdfast, trip, monkeypatch):
    from holdfast.agents.workflow.result import StepProgress
    from holdfast.agents.workflow.state import StepStatus
    from holdfast.cli.workflowtext import Progress

    class Terminal:
        text = ""

        def isatty(self):
            return True

        def write(self, text):
            self.text += text

        def flush(self): ...

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress()
    progress(StepProgress(step="a", status=StepStatus.RUNNING, attempt=1))
    progress(StepProgress(step="a", status=StepStatus.RETRYING, attempt=1, error="ValueError: no\x1b[31m"))
    progress(StepProgress(step="a", status=StepStatus.RUNNING, attempt=2, error="ValueError: no"))
    progress(StepProgress(step="a", status=StepStatus.DONE, attempt=2))
    progress(StepProgress(step="b", status=StepStatus.SKIPPED, attempt=0))
    assert re.sub(r"\d\.\d s", "0.0 s", terminal.text) == (
        "running   a\n"
        "retrying  a  0.0 s  ValueError: no\\x1b[31m\n"
        "running   a  attempt 2\n"
        "done      a  0.0 s\n"
        "skipped   b\n"
    )


async def test_a_run_that_is_going_on_elsewhere_ends_with_6(trip, tmp_path):
    command = [sys.executable, "-m", "holdfast", *RUN, *INPUTS, "--id", "monday"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    async with CheckpointManager(SQLiteCheckpointStorage(tmp_path / "checkpoints.db")) as manager:
        async with holding(manager, "trip/monday", "default"):
            ran = await asyncio.to_thread(
                subprocess.run, command, cwd=tmp_path, env=env, text=True, capture_output=True, check=False
            )
        assert await manager.list_by_agent("trip/monday") == []
    assert (ran.returncode, ran.stdout) == (6, "")
    assert ran.stderr.startswith("error: Agent trip/monday is being advanced by another live process")


def test_ctrl_c_says_how_to_go_on(trip, tmp_path):
    (tmp_path / "agents.py").write_text(
        "import asyncio\nfrom pathlib import Path\n"
        "async def find(inputs):\n    print('finding', flush=True)\n"
        "    if not Path('open').exists():\n        await asyncio.Event().wait()\n"
    )
    (tmp_path / "trip.yaml").write_text("steps: [{name: a, agent: find}]")
    command = [sys.executable, "-m", "holdfast", *RUN]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        command, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stderr.readline() == "finding\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=15)
    assert (running.returncode, out) == (130, "")
    told = re.fullmatch(r"error: stopped; run (run_\w+) can go on\nhint: holdfast (.+)\n", err)
    assert told, err
    (tmp_path / "open").touch()
    again = [sys.executable, "-m", "holdfast", *shlex.split(told[2])]
    done = subprocess.run(again, cwd=tmp_path, env=env, text=True, capture_output=True, check=False)
    assert (done.returncode, f"trip/{told[1]}  COMPLETED" in done.stdout) == (0, True), done.stderr

"""Input made to do harm: bytes, lines of an import, command lines, files. Each is refused, or is what it says."""

import asyncio
import contextlib
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.cli.app import _HOMES, main
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.transfer import export_lines, import_lines, parse_lines
from holdfast.errors import InvalidImport
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.children import ROOT
from tests.faults.report import LONG, tell
from tests.faults.stores import copied, small_store

pytestmark = [pytest.mark.faults]


def decoded(*words):
    """What `hostile_bytes` tells. Threads get no memory of their own to grow into, which would count as used."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.hostile_bytes", *map(str, words)],
        capture_output=True, text=True, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(1800 if LONG else 60)
def test_no_bytes_crash_a_decoder_or_take_more_memory_than_its_bound():
    told = decoded(1, 200_000 if LONG else 2000)
    tell(
        "Hostile bytes",
        "Values, differences, patches and lines, mutated and crafted, under a bound on memory.",
        refused=told["refused"], decoded=told["decoded"], crashes=told["crashed"],
    )  # fmt: skip
    assert told["broken"] == []
    assert told["crashed"] == 0
    assert told["refused"] > told["decoded"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the bound on memory is not set")
def test_a_decoder_that_believes_what_it_is_told_is_found_out():
    told = decoded(1, 0, "naive")
    assert any("MemoryError" in one for one in told["broken"])
    assert told["crashed"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the bound on memory is not set")
@pytest.mark.timeout(600 if LONG else 60)
def test_what_a_few_bytes_make_takes_three_times_the_limit_at_most():
    told = decoded("bombs", "" if LONG else "patch on a base,one list")
    tell("Bombs", "Some KB that make all that a decoder makes, in a process with room for three times that.",
         bombs=told["bombs"], broken=len(told["broken"]))  # fmt: skip
    assert told["broken"] == {}
    assert told["largest"] < 1 << 16


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the bound on memory is not set")
def test_a_decoder_that_collects_what_it_makes_is_found_out():
    assert "MemoryError" in decoded("bombs", "patch on a base", "naive")["broken"]["patch on a base"]


@pytest.mark.slow
@pytest.mark.timeout(600 if LONG else 60)
def test_no_file_makes_the_command_line_crash_or_take_more_memory_than_its_bound(tmp_path):
    told = decoded("files", tmp_path)
    assert told["broken"] == []
    assert told["exit 0"] > 40
    assert told["exit 1"] > 20


# --- imports

VALUES = [
    None, True, -1, 0, 1, 2, 10**30, 2**63, 2**64, -(2**63), 1.5, 1e308, "", "x" * 10, "\ud800", "\0", "run-1", "run-0",
    [], [1], {}, {"$tuple": [1]}, {"$int": "0x" + "f" * 300}, {"$dict": [[1, 2]]}, {"$decimal": "1E+999999999"},
    {"$range": [0, 10**30, 1]}, {"$bytes": "AA=="}, {"agentId": "a", "seq": 1},
    {"agentId": "a", "seq": 10**30, "toolCallId": "run-1", "at": 10**40, "tools": "live"},
    [["clock", [1e300]]], [["clock", ["x"]]], [["clock", None]], [["random", [1]]], [[1, 2]],
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z",
    [{"id": "a", "name": "b", "arguments": 1}],
]  # fmt: skip
OPTIONAL = ("session", "feed", "batch", "attempt", "forkedFrom", "osAnswers", "line", "redacted")
IMPORTS = 3000 if LONG else 60


def spoilt(objects, chance):
    objects = json.loads(json.dumps(objects))
    for _ in range(chance.randrange(1, 4)):
        one = chance.choice(objects)
        key = chance.choice([*one, *OPTIONAL])
        way = chance.random()
        if way < 0.1:
            one.pop(key, None)
        elif way < 0.2:
            objects.append(json.loads(json.dumps(chance.choice(objects))))
        elif way < 0.3:
            chance.shuffle(objects)
        else:
            one[key] = chance.choice(VALUES)
    return [json.dumps(one) for one in objects]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(1800 if LONG else 60)
async def test_what_is_imported_is_refused_or_leaves_a_store_in_which_everything_goes_on(tmp_path):
    path = await small_store(tmp_path / "source")
    source = SQLiteCheckpointStorage(path)
    histories = []
    for agent in ("ada-fork", "bob", "dee"):
        lines = await export_lines(source, agent, everything=True)
        histories.append([json.loads(line) for line in lines])
    await source.close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    runner = PythonRunner(store, type_check=False)
    chance, outcomes, crashes = random.Random(1), Counter(), []
    for number in range(IMPORTS):
        lines = spoilt(chance.choice(histories), chance)
        try:
            await imported(store, runner, f"agent-{number}", lines, outcomes)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            crashes.append((lines, repr(error)))
    report = await store.verify()
    await runner.close()
    tell(
        "Hostile imports",
        "Exports with fields changed, lines moved, doubled and left out.",
        crashes=len(crashes), **dict(outcomes),
    )  # fmt: skip
    assert crashes == []
    assert outcomes["imported"] > IMPORTS / 20
    assert outcomes["refused"] > IMPORTS / 20
    assert report.ok, report.damaged


async def imported(store, runner, agent, lines, outcomes):
    """Counts what becomes of the lines, and goes on with whatever they made."""
    try:
        await import_lines(store, parse_lines(lines), agent_id=agent, user_id="user")
    except InvalidImport:
        outcomes["refused"] += 1
        return
    outcomes["imported"] += 1
    parse_lines(await export_lines(store, agent, everything=True))
    await export_lines(store, agent)
    for result in await runner.recover(agent):
        outcomes[f"runs {result.status}"] += 1
    await export_lines(store, agent, snapshots="rebuild")


@pytest.mark.parametrize(
    ("field", "value"), [("toolArgs", 1.5), ("callId", "0"), ("osAnswers", [["clock", ["x"]]]), ("osAnswers", [1])]
)
@pytest.mark.anyio
async def test_a_run_whose_records_no_runner_wrote_is_parked_and_says_which(tmp_path, field, value):
    at = {"at": "2026-01-01T00:00:00Z"}
    start = {"type": "rlm_start", **at, "seq": 1, "toolCallId": "c", "code": "1", "preamble": "9-8-"}
    call = {
        "type": "rlm_tool_call", **at, "seq": 2, "toolCallId": "c", "callId": 0, "snapshot": None, "printOutput": "",
        "toolCallCount": 1, "toolName": "t", "toolArgs": {}, field: value,
    }  # fmt: skip
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    records = parse_lines([json.dumps(start), json.dumps(call)])
    await import_lines(store, records, agent_id="a", user_id="u")
    runner = PythonRunner(store)
    [result] = await runner.recover()
    assert result.status == "parked"
    assert "Record 2 is not what a runner writes" in result.error
    assert len(await export_lines(store, "a", snapshots="rebuild")) == 2
    await runner.close()


# --- the command line

ITS_OWN_LOOP = pytest.mark.blocks_the_loop("a command has a loop of its own, which nobody else waits for")
WORDS = [
    "\0", "a\0b", "\udcff", "", "-", "--", "-1", "0", "9" * 30, "1e999", "nan", "inf", "@", "@latest", "ada@latest",
    "ada~1", "ada~" + "9" * 30, "ada~-1", "~", "~~", "~nouser/x", "chk_", "chk-0", "chk-30", "/", "//", "/dev/null",
    "/dev/zero/x", "s", "s/store.db", "s/store.db.key", "sqlite:///", "sqlite:////", "file:///", "file:", "memory:",
    "sqlite://x", "http://x", "x" * 5000, "%00", "sqlite:///%00", "file:///%00", "\U0001f4a5", "\n", "\x1b[2J", "ada",
    "first", "--json", "--all", "--limit", "--user", "--agent", "--snapshots", "kept", "rebuild", "--anchor",
    "--older-than", "--dry-run", "--per-user", "--routine", "--recovery-days", "--full", "--state", "--help", "--store",
    "--secret", "show", "rotate", "reset", "..", "fifo", "loop", "sparse", "text", "header",
]  # fmt: skip
READS_PIPES = {"run", "resume", "fork", "drift", "workflow"}
COMMANDS = 5000 if LONG else 120


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return asyncio.run(small_store(tmp_path_factory.mktemp("original")))


@pytest.fixture
def folder(original, tmp_path, monkeypatch):
    copied(original, tmp_path / "s")
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    Path("loop").symlink_to("loop")
    Path("text").write_text("{}\n" * 10)
    Path("header").write_bytes(original.read_bytes()[:100] + bytes(5000))
    with Path("sparse").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    return tmp_path


def ran(arguments):
    """The exit code; whatever is raised is a finding."""
    out, err = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b"junk\n"))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return main(arguments), err.getvalue()
    finally:
        sys.stdin = stdin


@ITS_OWN_LOOP
@pytest.mark.slow
@pytest.mark.timeout(1800 if LONG else 60)
def test_no_command_line_ends_in_anything_but_an_exit_code_and_a_sentence(folder):
    chance, codes, crashes = random.Random(1), Counter(), []
    names = [name for name in _HOMES if name != "demo"]
    for _ in range(COMMANDS):
        store = chance.choice(["s/store.db"] * 60 + WORDS)
        arguments = ["--store", store, chance.choice(names), *chance.choices(WORDS, k=chance.randrange(4))]
        if "import" in arguments and "sparse" in arguments:
            continue  # an import holds its file in memory
        if "fifo" in arguments and set(arguments) & READS_PIPES:
            continue  # whoever names a pipe waits for what comes out of it
        try:
            code, said = ran(arguments)
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            crashes.append((arguments, repr(error)))
            continue
        if code not in range(7) or not (code == 0 or "error:" in said or code == 3):
            crashes.append((arguments, code, said))
        codes[f"exit {code}"] += 1
    tell(
        "Hostile command lines",
        "Random words, paths and options after every command.",
        crashes=len(crashes), **dict(codes),
    )  # fmt: skip
    assert crashes == []
    assert codes["exit 0"]
    assert codes["exit 1"]
    assert codes["exit 2"]


@ITS_OWN_LOOP
@pytest.mark.parametrize("name", ["fifo", "loop", "sparse", "text", "header", "s", "~nouser/x", "/dev/zero", "\0"])
@pytest.mark.parametrize("command", [["verify"], ["log"], ["stats"], ["export", "ada"], ["gc"]])
def test_no_file_passes_for_a_store(folder, name, command):
    if name == "s" and command != ["export", "ada"]:
        return  # a folder may be one of checkpoint files
    code, said = ran(["--store", name, *command])
    assert code in (1, 3, 4), said
    assert "error:" in said


@ITS_OWN_LOOP
@pytest.mark.parametrize("name", ["fifo", "loop", "sparse", "text", "header", "s", "/dev/zero", "s/store.db", "\0"])
def test_no_file_passes_for_an_anchor(folder, name):
    before = Path("s/store.db").read_bytes()
    code, said = ran(["--store", "s/store.db", "verify", "--anchor", name])
    assert code in (1, 2, 4), said
    assert "error:" in said
    assert Path("s/store.db").read_bytes() == before


@ITS_OWN_LOOP
@pytest.mark.parametrize("name", ["fifo", "sparse", "text", "s", "s/store.db", "/dev/zero", "\0", ""])
def test_no_place_passes_for_one_for_a_backup(folder, name):
    before = Path("s/store.db").read_bytes()
    code, said = ran(["--store", "s/store.db", "backup", name])
    assert code in (1, 2, 4, 5), said
    assert "error:" in said
    assert Path("s/store.db").read_bytes() == before

"""`holdfast run` in processes of its own: killed in the middle of a call, and stopped by Ctrl-C wherever it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.children import ROOT

pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform == "win32", reason="signals")]

TOOLS = """
import asyncio, os, subprocess, time
from pathlib import Path
from holdfast import Tool

def effect(text: str) -> str:
    with Path("effects.txt").open("a") as file:
        file.write(text + "\\n")
    return text

def begun():
    Path("begun.txt").touch()

def slow(n: int) -> int:
    if not Path("again.txt").exists():
        begun()
        time.sleep(60)
    return n

async def slow_async(n: int) -> int:
    if not Path("again.txt").exists():
        begun()
        await asyncio.sleep(60)
    return n

async def blocks(n: int) -> int:
    if not Path("again.txt").exists():
        begun()
        time.sleep(60)
    return n

def shell(n: int) -> int:
    if not Path("again.txt").exists():
        begun()
        subprocess.run(["sleep", "60"], check=True)
    return n

async def stubborn(n: int) -> int:
    if not Path("again.txt").exists():
        begun()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    return n

def computing() -> str:
    begun()
    return ""

TOOLS = [effect, computing, *(Tool(one, on_restart="retry") for one in (slow, slow_async, blocks, shell, stubborn))]
"""
PROGRAM = """
print("first", flush=True)
effect("before")
x = {call}
effect("after")
print("last")
x
"""
COMPUTES = "x = computing()\nfor n in range(25_000_000):\n    x = 7"


@contextmanager
def running(folder: Path):
    """The command, in a process group of its own as a shell would start it, killed in the end whatever happens."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "run", "book.py", "--tools", "tools.py"], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=env,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def reached(folder: Path, child: subprocess.Popen[str]) -> None:
    """Waits until the tool has begun."""
    deadline = time.monotonic() + 15
    while not (folder / "begun.txt").exists():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def prepare(folder: Path, call: str) -> None:
    (folder / "tools.py").write_text(TOOLS)
    program = PROGRAM.format(call=call) if "\n" not in call else PROGRAM.replace("x = {call}", call)
    (folder / "book.py").write_text(program)


def effects(folder: Path) -> list[str]:
    return (folder / "effects.txt").read_text().splitlines()


def goes_on(folder: Path, output: str) -> None:
    """The same command again comes to the end as if nothing had happened, and once more shows just that."""
    (folder / "again.txt").touch()
    for _ in range(2):
        with running(folder) as child:
            out, err = child.communicate(timeout=20)
        assert (child.returncode, out) == (0, f"first\nlast\n{output}\n"), err
    assert effects(folder) == ["before", "after"]


def test_a_run_that_is_killed_in_the_middle_of_a_call_goes_on_with_the_same_command(tmp_path):
    prepare(tmp_path, "slow(5)")
    with running(tmp_path) as child:
        reached(tmp_path, child)
        assert child.stdout.readline() == "first\n"  # passed on when it was printed
        child.kill()
        child.wait()
    goes_on(tmp_path, "5")


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("slow(5)", "5"), ("await slow_async(5)", "5"), ("await blocks(5)", "5"), ("shell(5)", "5"),
        ("await stubborn(5)", "5"), (COMPUTES, "7"),
    ],
    ids=["a plain tool", "an async tool", "one that blocks the loop", "a child", "one that won't", "a computation"],
)  # fmt: skip
def test_ctrl_c_ends_it_with_130_and_the_same_command_goes_on(tmp_path, call, output):
    """A terminal sends it to every process of the group: to the sandbox, too, and to what the tools have started."""
    prepare(tmp_path, call)
    with running(tmp_path) as child:
        reached(tmp_path, child)
        time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=10)
    assert (child.returncode, out) == (130, "first\n"), err
    assert err.splitlines()[-2:] == [
        "error: stopped after 2 calls; run book can go on",
        "hint: `holdfast run book.py --tools tools.py` goes on with it.",
    ]
    goes_on(tmp_path, output)


def test_a_second_ctrl_c_ends_it_at_once(tmp_path):
    prepare(tmp_path, "await stubborn(5)")
    with running(tmp_path) as child:
        reached(tmp_path, child)
        for _ in range(3):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGINT)
                time.sleep(0.02)
        _, err = child.communicate(timeout=10)
    assert child.returncode == 130
    assert err.count("error: stopped") == 1
    assert "Traceback" not in err
    goes_on(tmp_path, "5")

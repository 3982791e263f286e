"""Programs of their own for the tests that kill, stop and fork them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PRELUDE = """
import asyncio, os, sys
from holdfast.errors import *
from holdfast.storage.protocol import Change, Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued, save, saving
path = sys.argv[1]
def say(*words):
    print(*words, flush=True)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a Python program with the prelude; its output is a pipe."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def told_by(module: str, *arguments: object) -> dict[str, Any]:
    """What a module of ours, run as a program, says in its last line, which is a JSON object."""
    return told_by_each([(module, *arguments)])[0]


def told_by_each(programs: Sequence[tuple[object, ...]]) -> list[dict[str, Any]]:
    """The same for some that run side by side. What they write on stderr is shown if the test fails."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    started = [
        subprocess.Popen([sys.executable, "-m", *map(str, program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
        for program in programs
    ]  # fmt: skip
    said = [one.communicate() for one in started]
    for process, (_, errors) in zip(started, said, strict=True):
        sys.stderr.write(errors[-4000:])
        assert process.returncode == 0, errors[-4000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@contextmanager
def running(program: str, *arguments: object):
    """The same, killed in the end whatever happens."""
    child = start(program, *arguments)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGCONT)
            child.kill()
        child.communicate()


def line(child: subprocess.Popen[str]) -> str:
    """The next line that the child says."""
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    assert said, f"the child said nothing more and ended with {child.wait()}"
    assert not said.startswith("Traceback"), "".join(rest(child))
    return said


async def said_until_killed(program: str, folder: object, names: Sequence[str], seconds: float) -> list[list[str]]:
    """The words of each line that these children said, one child for each name, until all were killed together."""
    with ExitStack() as stack:
        children = [stack.enter_context(running(program, folder, name)) for name in names]
        said = [line(child) for child in children]
        await asyncio.sleep(seconds)
        for child in children:
            child.kill()
            said += rest(child)
    return [one.split() for one in said]


def tell(child: subprocess.Popen[str], word: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


def ended(child: subprocess.Popen[str]) -> list[str]:
    """Everything that the child said until it ended by itself."""
    said = [line.rstrip("\n") for line in rest(child)]
    assert child.returncode == 0, said
    return said


def rest(child: subprocess.Popen[str]) -> list[str]:
    """What the child still says until it ends. (`communicate` would lose what `line` has read ahead.)"""
    assert child.stdout is not None
    said = child.stdout.read()
    child.wait(timeout=15)
    return [line for line in said.splitlines(keepends=True) if line.endswith("\n")]

"""How soon a run that a dead process left goes on, in a store with a million checkpoints and in a small one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import heap, million
from benchmarks.numbers import Samples, times
from benchmarks.options import Options
from benchmarks.result import Result, Target
from holdfast import PythonRunner, SQLiteCheckpointStorage

_TIMES = 12
_KILOBYTES = 60
_CALLS = 20  # of the program, before the one in which its host dies
_CODE = f"""{heap.holding(_KILOBYTES)}
for n in range({_CALLS}):
    note(n)
try:
    die()
except RuntimeError:
    arrived()
"""


def measure(options: Options) -> list[Result]:
    path, count = million.store(options)
    result = Result(
        name="recover",
        title=f"A run that goes on in a store with {count:,} checkpoints",
        how=(
            f"A program with {_KILOBYTES} KB on its heap makes {_CALLS} calls; its host is killed in the next one. "
            "Then, in a process that has imported Holdfast: from nothing, over opening the store, finding the run, "
            "taking it, loading its snapshot into a sandbox and telling the program of the restart, to the next tool "
            f"that it calls. {_TIMES} times, in turn with a store that has nothing else. A new sandbox alone: its "
            "process started, and one line run in it."
        ),
        columns=("what", "ms p50 (p10 … p90)", "beside the small store"),
    )
    large, small, sandboxes = Samples(), Samples(), Samples()
    with options.workspace() as workspace:
        for number in range(_TIMES):
            for where, samples in ((path, large), (workspace / "small.db", small)):
                agent = f"pending-{time.time_ns()}-{number}"
                _killed(where, agent)
                asyncio.run(_recovered(where, agent, samples))
            with sandboxes.timed():
                heap.dumps("1")
    result.add("a new sandbox alone", sandboxes.spread, times(sandboxes.p50 / small.p50))
    result.add("a store with this run", small.spread, times(1.0))
    result.add(f"a store with {count:,}", large.spread, times(large.p50 / small.p50))
    result.targets.append(Target(what="recovering", measured=large.p50 * 1000, at_most=100, unit=" ms"))
    result.figures |= {"large": large.p50, "small": small.p50, "sandbox": sandboxes.p50}
    return [result]


def _killed(path: Path, agent: str) -> None:
    """A process that begins the run and is dead in the middle of it."""
    child = subprocess.run([sys.executable, "-m", "benchmarks.recovering", str(path), agent], check=False)
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the child was to be killed; it ended with {child.returncode}")


async def _recovered(path: Path, agent: str, samples: Samples) -> None:
    at: list[float] = []

    def note(number: int) -> dict[str, object]:
        return heap.told(number)

    def die() -> None:
        raise SystemError("this call is not made again")

    def arrived() -> None:
        at.append(time.perf_counter())

    started = time.perf_counter()
    async with PythonRunner(SQLiteCheckpointStorage(path), tools=[note, die, arrived]) as runner:
        [result] = await runner.recover(agent)
    if result.is_error or len(at) != 1:
        raise RuntimeError(f"{result.error}, {len(at)} calls")
    samples.seconds.append(at[0] - started)


async def _dies(path: Path, agent: str) -> None:
    def note(number: int) -> dict[str, object]:
        return heap.told(number)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def arrived() -> None:
        """Never called here."""

    await PythonRunner(SQLiteCheckpointStorage(path), tools=[note, die, arrived]).run(agent, _CODE, "run")


if __name__ == "__main__":
    asyncio.run(_dies(Path(sys.argv[1]), sys.argv[2]))

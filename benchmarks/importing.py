"""How long `import holdfast` and `holdfast --help` take, beside a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.numbers import Samples, times
from benchmarks.options import Options
from benchmarks.result import Result, Target

_COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import holdfast": ["-c", "import holdfast"],
    "… and use a manager on SQLite": ["-c", "from holdfast import CheckpointManager, SQLiteCheckpointStorage"],
    "holdfast --help": ["-m", "holdfast", "--help"],
}
_LIMITS = {"import holdfast": 100, "holdfast --help": 250}  # milliseconds


def measure(options: Options) -> list[Result]:
    rounds = options.some(20, 5)
    result = Result(
        name="import",
        title="Starting up",
        how=f"The whole process, from start to exit, {rounds} times in turn.",
        columns=("command", "ms p50 (p10 … p90)", "beside python -c pass"),
    )
    timed = {name: Samples() for name in _COMMANDS}
    failed = set()
    for _ in range(rounds + 1):
        for name, arguments in _COMMANDS.items():
            with timed[name].timed():
                done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
            if done.returncode:
                failed.add(name)
    bare = timed["python -c pass"].part(1)
    for name, samples in timed.items():
        warm = samples.part(1)  # the first round compiled and read what the others find
        if name in failed:
            result.notes.append(f"`{name}` failed here.")
            continue
        result.add(name, warm.spread, times(warm.p50 / bare.p50))
        result.figures[name] = warm.p50
        if name in _LIMITS:
            result.targets.append(Target(what=name, measured=warm.p50 * 1000, at_most=_LIMITS[name], unit=" ms"))
    return [result]

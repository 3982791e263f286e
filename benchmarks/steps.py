"""A program's tool calls, kept so that it can go on after its process died: `run_python` beside other ways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from benchmarks import heap
from benchmarks.disk import RawCommits, bytes_in
from benchmarks.meter import EVERY, Meter, mean
from benchmarks.numbers import Samples, mb, ms, times
from benchmarks.options import Options, say
from benchmarks.peers import dbos, harness, langgraph
from benchmarks.peers.holdfast import LargeSandboxed, Sandboxed
from benchmarks.peers.program import Program
from benchmarks.result import Result

CALLS = 300
_OURS = "Holdfast run_python, 60 KB"


@dataclass
class _Found:
    ratios: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    behind: int = 0  # calls that began before the results of all before them were stored
    looked_at: int = 0
    back: dict[int, Samples] = field(default_factory=dict)


def ways() -> dict[str, type[Program]]:
    """Every way that is installed here, by name."""
    others: dict[str, tuple[str, type[Program]]] = {
        "DBOS workflow of steps": ("dbos", dbos.Workflow),
        "LangGraph tasks": ("langgraph", langgraph.Tasks),
        "pydantic-ai StepPersistence": ("pydantic_ai_harness", harness.Conversation),
    }
    ours: dict[str, type[Program]] = {_OURS: Sandboxed, "Holdfast run_python, 1.1 MB": LargeSandboxed}
    return ours | {name: way for name, (package, way) in others.items() if find_spec(package) is not None}


def measure(options: Options) -> list[Result]:
    rounds, deaths = options.some(5, 1), (20, CALLS)
    result = Result(
        name="steps",
        title="A program's tool calls beside other ways",
        how=(
            f"A program calls a tool {CALLS} times, one call after the other, {rounds} times in turn in new stores; "
            "what a call costs is the mean from where the tool returns to where it is called again, beside raw commits "
            "that the tool makes now and then. Then the process is killed in the call after the "
            f"{deaths[0]}th, and in that after the {deaths[1]}th; from nothing (imports not counted) to the next call "
            f"that is made, medians of {rounds}. DBOS and LangGraph run the program again from its beginning and "
            "give it the stored results: what it computes between calls is computed again, and it must be the same "
            "each time. StepPersistence keeps messages, so its program is a scripted model that asks for each call; "
            "what the same agent takes without it is subtracted from a call."
        ),
        columns=(
            "kept by", "raw commits for a call", "beside Holdfast", "MB on disk", f"back after {deaths[0]} calls, ms",
            f"after {deaths[1]}, ms", "the interrupted call",
        ),
    )  # fmt: skip
    found = {name: _Found(back={after: Samples() for after in deaths}) for name in ways()}
    for number in range(rounds):
        say(f"  round {number + 1} of {rounds}")
        for name, way in ways().items():
            with options.workspace() as path:
                _run(path, way, found[name])
            for after in deaths:
                with options.workspace() as path:
                    found[name].back[after].seconds.append(_back(path, way, name, after))
    ours = Samples(found[_OURS].ratios).p50
    for name, one in found.items():
        ratio = Samples(one.ratios).p50
        result.add(
            name, times(ratio), times(ratio / ours), mb(Samples(one.sizes).p50),
            *(ms(one.back[after].p50) for after in deaths), ways()[name].interrupted,
        )  # fmt: skip
        result.figures |= {f"{name}: ratio": ratio, f"{name}: bytes": Samples(one.sizes).p50}
        result.figures |= {f"{name}: back after {after}": one.back[after].p50 for after in deaths}
        if one.behind:
            result.notes.append(
                f"{name}: {one.behind} of {one.looked_at} calls that were looked at began before the results of all "
                "before them were stored; so they cost less, and can be made twice."
            )
        quicker = ["a call costs less"] if ratio < ours else []
        quicker += [f"it is back sooner after {n}" for n in deaths if one.back[n].p50 < found[_OURS].back[n].p50]
        if quicker and name != _OURS:
            result.notes.append(f"{name}: {', '.join(quicker)} than with {_OURS}.")
    result.notes += [
        "A call of Holdfast is two commits: the call before it is made, so that it is not made twice, then its result.",
        "DBOS takes up what was left through a queue that it polls each second.",
    ]
    return [result]


def _run(path: Path, way: type[Program], found: _Found) -> None:
    calls, commits, behind = _metered(path / "store", way)
    if (without := way.without()) is not None:
        calls -= _metered(path / "without", without)[0]
    found.ratios.append(calls / commits)
    found.sizes.append(bytes_in(path / "store"))
    found.behind += behind
    found.looked_at += CALLS // EVERY


def _metered(path: Path, way: type[Program]) -> tuple[float, float, int]:
    """A call and a raw commit, the means; and how often what had been returned was not on the disk yet."""
    path.mkdir()
    meter = Meter(RawCommits(path.with_name(f"{path.name}.raw.db")))
    behind = 0

    program = way(path, meter.note, lambda: None)

    def look(number: int) -> None:
        nonlocal behind
        stored = program.stored()
        behind += stored is not None and stored < number - 1

    meter.also = look
    program.run(CALLS)
    meter.raw.close()
    return mean(meter.calls()), mean(meter.commits), behind


def _back(path: Path, way: type[Program], name: str, after: int) -> float:
    """Seconds from nothing to the next call, in a process that has not seen the program before."""
    child = subprocess.run([sys.executable, "-m", "benchmarks.steps", name, str(path), str(after)], check=False)
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the child was to be killed; it ended with {child.returncode}")
    arrived: list[float] = []
    program = way(path, heap.told, lambda: arrived.append(time.perf_counter()))
    started = time.perf_counter()
    program.go_on(after)
    if len(arrived) != 1:
        raise RuntimeError(f"{name} went on with {len(arrived)} calls")
    return arrived[0] - started


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    ways()[sys.argv[1]](Path(sys.argv[2]), heap.told, _die).run(int(sys.argv[3]))

"""What an inner call of `run_python` costs, in raw commits on the same disk at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import heap
from benchmarks.disk import RawCommits, bytes_in
from benchmarks.meter import BODY, Meter, mean
from benchmarks.numbers import Samples, mb, times
from benchmarks.options import Options, say
from benchmarks.result import Result, Target
from holdfast import PythonRunner, SQLiteCheckpointStorage, Tool
from holdfast.history.records import RlmToolCall

CALLS = 300

_BATCH = 8


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A program that is run in every round."""

    kilobytes: float
    how: str
    code: str
    is_async: bool = False
    batch: int = 1


@dataclass(kw_only=True)
class _Found:
    """What the rounds of a case found."""

    ratios: list[float] = field(default_factory=list)  # the mean of a round's calls beside that of its raw commits
    calls: Samples = field(default_factory=Samples)
    commits: Samples = field(default_factory=Samples)
    snapshots: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def amortised(self) -> float:
        return Samples(self.ratios).p50

    @property
    def median(self) -> float:
        return self.calls.p50 / self.commits.p50


def measure(options: Options) -> list[Result]:
    rounds = options.some(7, 2)
    cases = {
        "16 KB": _sequential(16),
        "60 KB": _sequential(60),
        "1.1 MB": _sequential(1100),
        "60 KB, awaited": _Case(kilobytes=60, how="awaited", code=heap.awaiting(CALLS), is_async=True),
        f"60 KB, {_BATCH} at a time": _Case(
            kilobytes=60, how="gather", code=heap.gathering(CALLS, _BATCH), is_async=True, batch=_BATCH
        ),
    }
    result = Result(
        name="calls",
        title="An inner call of run_python",
        how=(
            f"A program fills its heap and calls a tool {CALLS} times, {rounds} times in turn in new stores. A call "
            "is two recorded facts, the call (with a snapshot, if one is due) and its result; measured from where the "
            "tool returns to where it is called again. In every fifth call the tool makes a raw commit of "
            f"{len(BODY)} bytes (SQLite, WAL, synchronous=FULL), whose time is not counted. The tool is a plain "
            "function, or an async one where calls are awaited. Amortised: the mean of a round's calls beside the "
            "mean of its raw commits, p50 of the rounds."
        ),
        columns=(
            "heap", "ms p50 (p10 … p90)", "raw commits, p50", "raw commits, amortised", "snapshots",
            "MB on disk", "base64 of every call (reckoned), MB",
        ),
    )  # fmt: skip
    found = {name: _Found() for name in cases}
    for number in range(rounds):
        say(f"  round {number + 1} of {rounds}")
        for name, case in cases.items():
            with options.workspace() as path:
                asyncio.run(_round(path, case, found[name]))
    for name, case in cases.items():
        _add(result, name, case, found[name])
    small, large = found["60 KB"], found["1.1 MB"]
    result.targets += [
        Target(what="60 KB, raw commits for a call, amortised", measured=small.amortised, at_most=4),
        Target(what="1.1 MB, raw commits for a call, amortised", measured=large.amortised, at_most=4),
        Target(
            what=f"1.1 MB, on disk after {CALLS} calls", measured=Samples(large.sizes).p50 / 1e6, at_most=1, unit=" MB"
        ),
    ]
    spread = ", ".join(f"{ratio:.2f}" for ratio in sorted(small.ratios))
    result.notes.append(f"The rounds of the 60 KB heap, amortised: {spread}.")
    return [result]


def _sequential(kilobytes: float) -> _Case:
    return _Case(kilobytes=kilobytes, how="one by one", code=heap.calling(CALLS))


def _add(result: Result, name: str, case: _Case, found: _Found) -> None:
    naive = ""
    if case.how == "one by one":
        dumped = heap.dumps(heap.holding(case.kilobytes) + case.code)
        result.figures |= {f"{name}: dump": dumped[-1], f"{name}: base64": heap.in_base64(dumped)}
        naive = mb(heap.in_base64(dumped))
    size, snapshots = Samples(found.sizes).p50, Samples(found.snapshots).p50
    result.add(
        name, found.calls.spread, times(found.median), times(found.amortised), f"{snapshots:.0f}", mb(size), naive
    )
    result.figures |= {
        f"{name}: ratio": found.median, f"{name}: amortised": found.amortised, f"{name}: call": found.calls.p50,
        f"{name}: commit": found.commits.p50, f"{name}: bytes": size, f"{name}: snapshots": snapshots,
    }  # fmt: skip


async def _round(path: Path, case: _Case, found: _Found) -> None:
    meter = Meter(RawCommits(path / "raw.db"))
    (path / "store").mkdir()
    async with PythonRunner(
        SQLiteCheckpointStorage(path / "store" / "checkpoints.db"),
        tools=[Tool(meter.awaited if case.is_async else meter.note, name="note")],
    ) as runner:
        done = await runner.run("agent", heap.holding(case.kilobytes) + case.code, "run")
        records = await runner.storage.read("agent", snapshots=False)
    if done.is_error:
        raise RuntimeError(done.error)
    meter.raw.close()
    calls = meter.calls(case.batch)
    found.ratios.append(mean(calls) / mean(meter.commits))
    found.calls.seconds += calls.seconds
    found.commits.seconds += meter.commits.seconds
    found.snapshots.append(sum(isinstance(one, RlmToolCall) and one.snapshot is not None for one in records))
    found.sizes.append(bytes_in(path / "store"))

"""How long a store with a million checkpoints takes to open, beside an empty one and raw SQLite."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks import million
from benchmarks.disk import RawCommits, bytes_in
from benchmarks.keeping import manager_at
from benchmarks.numbers import Samples, mb, times
from benchmarks.options import Options
from benchmarks.result import Result, Target
from benchmarks.talker import Talker

_TIMES = 20


def measure(options: Options) -> list[Result]:
    path, count = million.store(options)
    result = Result(
        name="open",
        title=f"Opening a store with {count:,} checkpoints",
        how=(
            f"{mb(bytes_in(path.parent))} MB on disk. From nothing to the newest checkpoint of one agent, "
            f"{_TIMES} times in turn with a store that has one checkpoint, and with raw SQLite: open, one commit, "
            "one read. Opening for writing reaches the disk several times: it trusts no log that a crash may have left."
        ),
        columns=("what", "ms p50 (p10 … p90)", "beside the store with one"),
    )
    with options.workspace() as workspace:
        large, small, raw = asyncio.run(_opens(path, workspace))
    for what, samples in (
        ("raw SQLite", raw),
        ("a store with one checkpoint", small),
        (f"a store with {count:,}", large),
    ):
        result.add(what, samples.spread, times(samples.p50 / small.p50))
    result.targets.append(Target(what="opening", measured=large.p50 * 1000, at_most=100, unit=" ms"))
    result.figures |= {"large": large.p50, "small": small.p50, "raw": raw.p50, "bytes": bytes_in(path.parent)}
    return [result]


async def _opens(path: Path, workspace: Path) -> tuple[Samples, Samples, Samples]:
    large, small, raw = Samples(), Samples(), Samples()
    async with manager_at(workspace / "one.db") as manager:
        await manager.save(Talker())
    for _ in range(_TIMES):
        await _open(path, million.name_of(0), large)
        await _open(workspace / "one.db", "talker", small)
        with raw.timed():
            commits = RawCommits(workspace / "raw.db")
            commits.commit(b"x" * 500)
            commits.read(1)
        commits.close()
    return large, small, raw


async def _open(path: Path, agent_id: str, samples: Samples) -> None:
    with samples.timed():
        manager = manager_at(path)
        newest = await manager.latest(agent_id)
    await manager.close()
    if newest is None:
        raise RuntimeError(f"{agent_id} has no checkpoint")

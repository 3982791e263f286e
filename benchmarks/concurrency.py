"""How many saves a second 64 agents get through one manager, beside single raw commits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks import slowdisk
from benchmarks.disk import RawCommits
from benchmarks.keeping import manager_at
from benchmarks.numbers import Samples, times
from benchmarks.options import Options, say
from benchmarks.result import Result, Target
from benchmarks.talker import Talker
from benchmarks.words import messages
from holdfast import CheckpointManager

AGENTS = 64
_SAVES = 20  # of each agent in a phase
_COMMITS = 400
_SLOWER_SECONDS = 0.001


def measure(options: Options) -> list[Result]:
    phases = options.some(12, 3)
    result = Result(
        name="concurrency",
        title=f"{AGENTS} agents saving at once through one manager",
        how=(
            f"Small states (4 messages of 200 characters). Phases alternate {phases} times: each agent saves {_SAVES} "
            f"times, all at once; then {_COMMITS} raw commits of 500 bytes, one after the other. Rates per second, p50 "
            "of the phases. Then both again on the same disk with a millisecond added to each sync, as on a network "
            "volume or a disk that is in use: a save shares its sync with others, a raw commit does not."
        ),
        columns=("what", "per second, p50 (p10 … p90)", "beside raw commits"),
    )
    say(f"  {phases} phases")
    with options.workspace() as path:
        measured = asyncio.run(_phases(path, phases))
    slow_disk = slowdisk.SlowDisk(_SLOWER_SECONDS)
    with options.workspace() as path:
        slow = asyncio.run(_phases(path, phases, vfs=slowdisk.NAME))
    slow_disk.unregister()
    ratio = _add(result, "", *measured)
    slow_ratio = _add(result, ", syncs 1 ms slower", *slow)
    result.targets.append(Target(what="saves per raw commit, p50 of the pairs", measured=ratio, at_least=3, unit=" x"))
    each = 1e6 / Samples(measured[0]).p50
    result.notes.append(
        f"A save among many takes {each:,.0f} µs, nearly all of it Python's: on a disk that commits once in "
        f"{3 * each:,.0f} µs or more, saves of many agents are 3 x as many as raw commits."
    )
    result.figures |= {
        "ratio": ratio,
        "slow_ratio": slow_ratio,
        "saves_per_second": Samples(measured[0]).p50,
        "commits_per_second": Samples(measured[1]).p50,
    }
    return [result]


def _add(result: Result, where: str, saves: list[float], commits: list[float]) -> float:
    """Adds the two rows of one disk; how many saves there were for each raw commit."""
    ratio = Samples([save / commit for save, commit in zip(saves, commits, strict=True)]).p50
    for what, rates in (("raw commits", commits), (f"saves of {AGENTS} agents", saves)):
        samples = Samples(rates)
        shown = f"{samples.p50:,.0f} ({samples.percentile(10):,.0f} … {samples.percentile(90):,.0f})"
        result.add(what + where, shown, "1" if rates is commits else times(ratio))
    return ratio


async def _phases(path: Path, phases: int, *, vfs: str | None = None) -> tuple[list[float], list[float]]:
    said = messages(4, 200)
    agents = [Talker(f"agent-{number}") for number in range(AGENTS)]
    for agent in agents:
        agent.messages = list(said)
    raw, body = RawCommits(path / "raw.db", vfs=vfs), b"x" * 500
    saves, commits = [], []
    async with manager_at(path / "checkpoints.db", vfs=vfs) as manager:
        await asyncio.gather(*(_saves(manager, agent, 2) for agent in agents))  # they exist before the clock runs
        for _ in range(phases):
            started = time.perf_counter()
            await asyncio.gather(*(_saves(manager, agent, _SAVES) for agent in agents))
            between = time.perf_counter()
            for _ in range(_COMMITS):
                raw.commit(body)
            ended = time.perf_counter()
            saves.append(AGENTS * _SAVES / (between - started))
            commits.append(_COMMITS / (ended - between))
    raw.close()
    return saves, commits


async def _saves(manager: CheckpointManager, agent: Talker, count: int) -> None:
    for number in range(count):
        agent.status = f"step {number}"
        await manager.save(agent)

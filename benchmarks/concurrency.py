"""How many saves a second 64 agents get through one manager, beside single raw commits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

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


def measure(options: Options) -> list[Result]:
    phases = options.some(12, 3)
    result = Result(
        name="concurrency",
        title=f"{AGENTS} agents saving at once through one manager",
        how=(
            f"Small states (4 messages of 200 characters). Phases alternate {phases} times: each agent saves {_SAVES} "
            f"times, all at once; then {_COMMITS} raw commits of 500 bytes, one after the other. Rates per second, p50 "
            "of the phases."
        ),
        columns=("what", "per second, p50 (p10 … p90)", "beside raw commits"),
    )
    say(f"  {phases} phases")
    with options.workspace() as path:
        saves, commits = asyncio.run(_phases(path, phases))
    ratio = Samples([save / commit for save, commit in zip(saves, commits, strict=True)]).p50
    for what, rates in (("raw commits", commits), (f"saves of {AGENTS} agents", saves)):
        samples = Samples(rates)
        shown = f"{samples.p50:,.0f} ({samples.percentile(10):,.0f} … {samples.percentile(90):,.0f})"
        result.add(what, shown, "1" if rates is commits else times(ratio))
    result.targets.append(Target(what="saves per raw commit, p50 of the pairs", measured=ratio, at_least=3, unit=" x"))
    result.figures |= {
        "ratio": ratio,
        "saves_per_second": Samples(saves).p50,
        "commits_per_second": Samples(commits).p50,
    }
    return [result]


async def _phases(path: Path, phases: int) -> tuple[list[float], list[float]]:
    said = messages(4, 200)
    agents = [Talker(f"agent-{number}") for number in range(AGENTS)]
    for agent in agents:
        agent.messages = list(said)
    raw, body = RawCommits(path / "raw.db"), b"x" * 500
    saves, commits = [], []
    async with manager_at(path / "checkpoints.db") as manager:
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

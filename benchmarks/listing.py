"""How long the 50 newest of a million checkpoints take to list, by user and by agent."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks import million
from benchmarks.keeping import manager_at
from benchmarks.numbers import Samples, ms
from benchmarks.options import Options
from benchmarks.result import Result, Target
from benchmarks.talker import Talker

_TIMES = 200


def measure(options: Options) -> list[Result]:
    path, count = million.store(options)
    result = Result(
        name="list",
        title=f"The 50 newest of {count:,} checkpoints",
        how=(
            f"One user, {million.AGENTS:,} agents, {count:,} checkpoints in one store. A first listing after opening "
            "holds the whole index against authenticated numbers."
        ),
        columns=("listing", "ms p50 (p10 … p90)"),
    )
    timed = asyncio.run(_lists(path))
    first, by_user, by_agent, after_save = timed
    result.add("by user, the first after opening (opening included)", ms(first.p50))
    result.add("by user", by_user.spread)
    result.add("by agent", by_agent.spread)
    result.add("by user, each after another save", after_save.spread)
    for what, samples in (
        ("by user", by_user),
        ("by agent", by_agent),
        ("by user, each after another save", after_save),
    ):
        result.targets.append(Target(what=f"{what}, p50", measured=samples.p50 * 1000, at_most=5, unit=" ms"))
        result.figures[what] = samples.p50
    result.figures["first"] = first.p50
    return [result]


async def _lists(path: Path) -> tuple[Samples, Samples, Samples, Samples]:
    first, by_user, by_agent, after_save = Samples(), Samples(), Samples(), Samples()
    manager = manager_at(path)
    async with manager:
        with first.timed():
            listed = await manager.list_by_user(million.USER, limit=50)
        if len(listed) != 50:
            raise RuntimeError(f"50 checkpoints were asked for, {len(listed)} came")
        for number in range(_TIMES):
            with by_user.timed():
                await manager.list_by_user(million.USER, limit=50)
            with by_agent.timed():
                await manager.list_by_agent(million.name_of(number % million.AGENTS), limit=50)
        # Saved for a user of its own, so that the store stays the one that it is called.
        other = Talker("other", "another user")
        until = time.perf_counter() + 20  # seconds
        while len(after_save) < _TIMES and time.perf_counter() < until:
            await manager.save(other)
            with after_save.timed():
                await manager.list_by_user(million.USER, limit=50)
        await manager.clear_user_history("another user")
    return first, by_user, by_agent, after_save

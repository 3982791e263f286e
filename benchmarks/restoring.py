"""How long any of 1,000 checkpoints takes to come back, beside reading the same state as one raw blob."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from benchmarks.disk import RawCommits
from benchmarks.keeping import keep, manager_at
from benchmarks.numbers import Samples, ms, times
from benchmarks.options import Options, say
from benchmarks.result import Result, Target
from benchmarks.words import messages


def measure(options: Options) -> list[Result]:
    count = options.some(1000, 200)
    result = Result(
        name="restore",
        title=f"Any of {count:,} checkpoints of a conversation, restored",
        how=(
            f"A conversation of {count:,} messages of 500 characters, saved after each; every checkpoint restored "
            "once, in random order, in a store opened anew. Beside it, in pairs: the same state as one JSON blob in a "
            "raw SQLite database, read and parsed with json.loads."
        ),
        columns=("what", "ms p50", "p99", "max", "beside the raw blob, p50"),
    )
    say(f"  {count:,} checkpoints")
    with options.workspace() as path:
        restores, blobs = asyncio.run(_restores(path, count))
    for what, samples in (("raw blob + json.loads", blobs), ("restore", restores)):
        result.add(
            what,
            ms(samples.p50),
            ms(samples.percentile(99)),
            ms(samples.percentile(100)),
            times(samples.p50 / blobs.p50),
        )
    result.targets += [
        Target(what="any checkpoint, p50", measured=restores.p50 * 1000, at_most=5, unit=" ms"),
        Target(what="any checkpoint, the slowest", measured=restores.percentile(100) * 1000, at_most=5, unit=" ms"),
    ]
    result.notes.append(
        "A restore authenticates all that it reads and rebuilds the agent; the raw blob is just parsed."
    )
    result.figures |= {
        "p50": restores.p50, "p99": restores.percentile(99), "max": restores.percentile(100),
        "ratio": restores.p50 / blobs.p50,
    }  # fmt: skip
    return [result]


async def _restores(path: Path, count: int) -> tuple[Samples, Samples]:
    said = messages(count)
    async with manager_at(path / "checkpoints.db") as manager:
        ids = await keep(manager, said)
    raw = RawCommits(path / "raw.db")
    raw.commit_many([json.dumps({"messages": said[:number]}).encode() for number in range(1, count + 1)])
    order = list(range(1, count + 1))
    random.Random(1).shuffle(order)
    restores, blobs = Samples(), Samples()
    async with manager_at(path / "checkpoints.db") as manager:
        for number in order:
            with restores.timed():
                agent = await manager.restore(ids[number - 1])
            with blobs.timed():
                state = json.loads(raw.read(number))
            if agent.messages != state["messages"]:
                raise RuntimeError(f"Checkpoint {number} came back different")
    raw.close()
    return restores, blobs

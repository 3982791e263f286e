"""How long a save takes, in pairs with raw commits on the same disk at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.keeping import keep, manager_at
from benchmarks.numbers import Samples, times
from benchmarks.options import Options, say
from benchmarks.pairs import EVERY, Pairs
from benchmarks.result import Result, Target
from benchmarks.words import messages
from holdfast import CheckpointManager, SQLiteCheckpointStorage

_EARLY, _LATE = (50, 150), (900, 1000)


def measure(options: Options) -> list[Result]:
    rounds = options.some(5, 1)
    result = Result(
        name="latency",
        title="A save beside a raw commit, in pairs",
        how=(
            f"1,000 messages of 500 characters, a save after each, {rounds} times in new stores. After every fifth "
            "save one raw commit of 500 bytes (SQLite, WAL, synchronous=FULL, in a database of its own) and one raw "
            "append with fdatasync, from the same thread on the same disk."
        ),
        columns=("what", "ms p50 (p10 … p90)", "beside a raw commit"),
    )
    paired = []
    for number in range(rounds):
        say(f"  round {number + 1} of {rounds}")
        with options.workspace() as path:
            paired.append(asyncio.run(_round(path, manager_at(path / "checkpoints.db"))))
    with options.workspace() as path:
        default = CheckpointManager(SQLiteCheckpointStorage(path / "checkpoints.db"))
        limited = asyncio.run(_round(path, default))
    commits = Samples([seconds for pairs in paired for seconds in pairs.commits.seconds])
    appends = Samples([seconds for pairs in paired for seconds in pairs.appends.seconds])
    saves = _saves(paired, 0, 1000)
    early, late = _saves(paired, *_EARLY), _saves(paired, *_LATE)
    result.add("raw commit", commits.spread, "1")
    result.add("raw append + fdatasync", appends.spread, times(appends.p50 / commits.p50))
    result.add("save", saves.spread, times(saves.p50 / commits.p50))
    result.add("save, messages 50 to 150", early.spread, times(early.p50 / _commits(paired, *_EARLY).p50))
    result.add("save, the last 100 of 1,000", late.spread, times(late.p50 / _commits(paired, *_LATE).p50))
    limited_ratio = limited.ratio(100, 1000)
    result.add(
        "save, the limit of 100 per user reached (default)", limited.saves.part(100).spread, times(limited_ratio)
    )
    growth = late.p50 / early.p50
    in_commits = growth / (_commits(paired, *_LATE).p50 / _commits(paired, *_EARLY).p50)
    result.targets += [
        Target(what="save / raw commit, p50", measured=saves.p50 / commits.p50, at_most=2.0, unit=" x"),
        Target(what="save at 1,000 messages / at 100", measured=growth, at_most=1.3, unit=" x"),
    ]
    result.notes += [
        f"Measured in raw commits of the same moments, a save at 1,000 messages is {in_commits:.2f} of one at 100.",
        f"The 99th percentile of saves is {times(saves.percentile(99) / commits.percentile(99))} that of raw commits.",
    ]
    result.figures |= {
        "save_p50": saves.p50, "commit_p50": commits.p50, "append_p50": appends.p50, "ratio": saves.p50 / commits.p50,
        "growth": growth, "growth_in_commits": in_commits, "limited_ratio": limited_ratio,
    }  # fmt: skip
    return [result]


async def _round(path: Path, manager: CheckpointManager) -> Pairs:
    pairs = Pairs(path / "raw")
    async with manager:
        await keep(manager, messages(1000), pairs=pairs)
    pairs.close()
    return pairs


def _saves(paired: list[Pairs], start: int, end: int) -> Samples:
    return Samples([seconds for pairs in paired for seconds in pairs.saves.seconds[start:end]])


def _commits(paired: list[Pairs], start: int, end: int) -> Samples:
    """The raw commits between these saves."""
    return Samples([seconds for pairs in paired for seconds in pairs.commits.seconds[start // EVERY : end // EVERY]])

"""How long a save takes, in pairs with raw commits on the same disk at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.disk import RawAppends, RawCommits
from benchmarks.keeping import manager_at
from benchmarks.numbers import Samples, times
from benchmarks.options import Options, say
from benchmarks.result import Result, Target
from benchmarks.talker import Talker
from benchmarks.words import messages
from holdfast import CheckpointManager, SQLiteCheckpointStorage

_EVERY = 5  # a raw commit and a raw append after so many saves
_EARLY, _LATE = slice(50, 150), slice(900, 1000)


@dataclass
class _Timed:
    """Seconds of each, over all rounds; `early` and `late` are parts of the same saves."""

    saves: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    appends: list[float] = field(default_factory=list)
    raw_early: list[float] = field(default_factory=list)
    raw_late: list[float] = field(default_factory=list)


def measure(options: Options) -> list[Result]:
    rounds = options.some(5, 1)
    result = Result(
        name="latency",
        title="A save beside a raw commit, in pairs",
        how=(
            f"1,000 messages of 500 characters, a save after each, {rounds} times in new stores. After every fifth "
            "save one raw commit of 500 bytes (SQLite, WAL, synchronous=FULL, a database of its own) and one raw append "
            "with fdatasync, from the same thread on the same disk."
        ),
        columns=("what", "ms p50 (p10 … p90)", "beside a raw commit"),
    )
    timed, limited = _Timed(), _Timed()
    for number in range(rounds):
        say(f"  round {number + 1} of {rounds}")
        with options.workspace() as path:
            asyncio.run(_round(path, manager_at(path / "checkpoints.db"), timed))
    with options.workspace() as path:
        default = CheckpointManager(SQLiteCheckpointStorage(path / "checkpoints.db"))
        asyncio.run(_round(path, default, limited))
    commit, saves = Samples(timed.commits), Samples(timed.saves)
    early, late = Samples(timed.early), Samples(timed.late)
    result.add("raw commit", commit.spread, "1")
    result.add("raw append + fdatasync", Samples(timed.appends).spread, times(Samples(timed.appends).p50 / commit.p50))
    result.add("save", saves.spread, times(saves.p50 / commit.p50))
    result.add("save, messages 50 to 150", early.spread, times(early.p50 / Samples(timed.raw_early).p50))
    result.add("save, the last 100 of 1,000", late.spread, times(late.p50 / Samples(timed.raw_late).p50))
    limited_ratio = Samples(limited.saves).p50 / Samples(limited.commits).p50
    result.add("save, with the default limit of 100 per user", Samples(limited.saves).spread, times(limited_ratio))
    growth = late.p50 / early.p50
    paired = growth / (Samples(timed.raw_late).p50 / Samples(timed.raw_early).p50)
    result.targets += [
        Target(what="save / raw commit, p50", measured=saves.p50 / commit.p50, at_most=2.0, unit=" x"),
        Target(what="save at 1,000 messages / at 100", measured=growth, at_most=1.3, unit=" x"),
    ]
    result.notes.append(
        f"Measured in raw commits of the same moments, a save at 1,000 messages is {paired:.2f} of one at 100."
    )
    result.notes.append(
        f"The 99th percentile is {times(saves.percentile(99) / commit.percentile(99))} that of raw commits."
    )
    result.figures |= {
        "save_p50": saves.p50, "commit_p50": commit.p50, "append_p50": Samples(timed.appends).p50,
        "ratio": saves.p50 / commit.p50, "growth": growth, "growth_in_commits": paired, "limited_ratio": limited_ratio,
    }  # fmt: skip
    return [result]


async def _round(path: Path, manager: CheckpointManager, timed: _Timed) -> None:
    said = messages(1000)
    body = said[0]["content"].encode()
    commits, appends = RawCommits(path / "raw.db"), RawAppends(path / "raw.log")
    agent, saves, raw, synced = Talker(), Samples(), Samples(), Samples()
    async with manager:
        for number, message in enumerate(said, start=1):
            agent.messages.append(message)
            with saves.timed():
                await manager.save(agent)
            if number % _EVERY == 0:
                with raw.timed():
                    commits.commit(body)
                with synced.timed():
                    appends.append(body)
    commits.close()
    appends.close()
    timed.saves += saves.seconds
    timed.early += saves.seconds[_EARLY]
    timed.late += saves.seconds[_LATE]
    timed.commits += raw.seconds
    timed.appends += synced.seconds
    timed.raw_early += raw.seconds[_EARLY.start // _EVERY : _EARLY.stop // _EVERY]
    timed.raw_late += raw.seconds[_LATE.start // _EVERY : _LATE.stop // _EVERY]

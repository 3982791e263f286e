"""A mixed load that goes on: agents come and go, save, run programs and are read; neither memory nor file grows.

HOLDFAST_SOAK_SECONDS says how long; an hour is a good number. What is measured at one moment says where the agents
are in their lives, so the most of one quarter of the time is held against the most of another.
"""

import asyncio
import gc
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import CheckpointManager, PythonRunner, SQLiteCheckpointStorage
from holdfast.storage.imagecache import ImageCache
from holdfast.storage.sqlite import foundagain, knownrows, opening, rows, runplaces, tally
from tests.faults.report import LONG, tell
from tests.unit.durable.samples import Agent

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.slow]

SECONDS = float(os.environ.get("HOLDFAST_SOAK_SECONDS") or (120 if LONG else 3))
SAMPLES = 40
ERASED_BYTES = 200  # that an erased agent may leave in the file, so that nobody takes its place unnoticed
ERASED_MEMORY = 500  # and in the memory of a process, by whose three connections it is known
CODE = "total = 0\nfor n in range(3):\n    total += await add(n, 1)\ntotal"


@dataclass(frozen=True)
class Plan:
    """How much is done for how long; and what the controls do wrong."""

    seconds: float
    agents: int
    saves: int  # in the life of an agent
    forgets: bool = True
    hoards: int = 0  # bytes that stay in memory with each save


class Sample(NamedTuple):
    """What there is at one moment, garbage collected."""

    memory: int
    file: int
    erased: int  # agents so far


class Load:
    """One store and everything that is done to it."""

    def __init__(self, path, plan):
        self.path = path
        self.plan = plan
        self.storage = SQLiteCheckpointStorage(path, max_checkpoints_per_user=20)
        self.manager = CheckpointManager(self.storage)
        self.manager.register(Agent)
        self.runner = PythonRunner(self.storage, tools=[add], type_check=False)
        self.reader = SQLiteCheckpointStorage(path, read_only=True)
        self.done = Counter()
        self.over = False
        self.samples = []
        self.hoard = []

    async def goes_on(self):
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.plan.agents):
                tasks.create_task(self.lives(number))
            tasks.create_task(self.reads())
            tasks.create_task(self.cares())

    async def close(self):
        await self.reader.close()
        await self.runner.close()
        await self.manager.close()

    async def lives(self, number):
        """An agent after the other, each of a user of its own who is forgotten in the end."""
        chance = random.Random(number)
        for life in range(1_000_000):
            agent = Agent(f"agent-{number}-{life}", f"user-{number}")
            for step in range(self.plan.saves):
                if self.over:
                    return
                agent.step(f"{step} " + "x" * chance.randrange(400))
                del agent.state["steps"][:-20]
                await self.manager.save(agent, kind=chance.choice(["auto", "auto", "routine"]))
                self.done["saves"] += 1
                if self.plan.hoards:
                    self.hoard.append(bytes(self.plan.hoards))
                if step % 10 == 5:
                    result = await self.runner.run(agent.agent_id, CODE, f"call-{step}", user_id=agent.user_id)
                    assert result.output == 6, result
                    self.done["runs"] += 1
            if self.plan.forgets:
                await self.manager.clear_user_history(agent.user_id)
                self.done["users forgotten"] += 1

    async def reads(self):
        await self.storage.agents()  # else there may be no store yet
        manager = CheckpointManager(self.reader)
        while not self.over:
            infos = await self.reader.agents()
            for info in random.Random(self.done["reads"]).sample(infos, min(5, len(infos))):
                for checkpoint in await manager.list_by_agent(info.agent_id, limit=5):
                    found = await self.reader.fetch(checkpoint.id)
                    assert found is None or len(found[1].decode()["steps"]) <= 20
                    self.done["reads"] += 1
            await asyncio.sleep(0.05)

    async def cares(self):
        """Garbage is collected, and what there is measured, many times."""
        began = time.monotonic()
        for turn in range(1, SAMPLES + 1):
            await asyncio.sleep(max(0.0, began + self.plan.seconds * turn / SAMPLES - time.monotonic()))
            await self.storage.collect_garbage()
            gc.collect()
            size = await asyncio.to_thread(os.path.getsize, self.path)
            self.samples.append(Sample(rss_bytes(), size, self.done["users forgotten"]))
        self.over = True


async def add(a: int, b: int) -> int:
    return a + b


def rss_bytes():
    fields = Path("/proc/self/statm").read_text().split() if sys.platform == "linux" else ["0", "0"]
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def most(samples, quarter):
    """The most memory, the largest file and the most erased agents in a quarter of the time."""
    a_quarter = len(samples) // 4
    return Sample(*map(max, zip(*samples[quarter * a_quarter : (quarter + 1) * a_quarter], strict=True)))


def grown(samples):
    """What the last quarter has too much of, beside the second; the first is for getting warm."""
    warm, late = most(samples, 1), most(samples, 3)
    found = []
    erased = late.erased - warm.erased
    if late.memory > warm.memory * 1.05 + (4 << 20) + ERASED_MEMORY * erased:
        found.append("memory")
    if late.file > warm.file * 1.05 + (64 << 10) + ERASED_BYTES * erased:
        found.append("file")
    return found


@pytest.fixture
def small_caches(monkeypatch):
    """The caches of states, agents and pages are full within a minute, not hours: what else grows can be seen."""
    monkeypatch.setattr(ImageCache.__init__, "__defaults__", (4 << 20,))
    monkeypatch.setattr(opening, "CACHE_KIB", 512)
    monkeypatch.setattr(tally, "_SCOPES_MAX", 256)
    monkeypatch.setattr(rows, "_AGENTS_READ_MAX", 256)
    for module in (knownrows, runplaces, foundagain):
        monkeypatch.setattr(module, "_AGENTS_MAX", 256)


@pytest.mark.usefixtures("small_caches")
@pytest.mark.timeout(SECONDS * 3 + 60)
async def test_under_a_load_that_goes_on_neither_memory_nor_the_file_grows(tmp_path):
    load = Load(tmp_path / "store.db", Plan(seconds=SECONDS, agents=200 if SECONDS > 60 else 20, saves=40))
    await load.goes_on()
    report = await load.manager.verify()
    assert report.ok, report.damaged[:5]
    assert await load.storage.pending("run") == []
    assert load.done["saves"] > load.done["runs"] > 0
    await load.close()
    if SECONDS >= 100:  # less than that shows no trend
        assert not grown(load.samples), load.samples
    if LONG:
        warm, late = most(load.samples, 1), most(load.samples, 3)
        tell(
            "Soak",
            (
                f"{load.plan.agents} agents for {SECONDS:,.0f} seconds: saves, runs, reads, garbage collected, users "
                "forgotten. The most in the second and in the last quarter of the time."
            ),
            **dict(load.done), MB_of_memory_in_the_second=warm.memory >> 20, MB_in_the_last=late.memory >> 20,
            KB_of_file_in_the_second=warm.file >> 10, KB_in_the_last=late.file >> 10,
        )  # fmt: skip


@pytest.mark.skipif(not LONG, reason="takes a minute: HOLDFAST_FAULTS=long")
@pytest.mark.usefixtures("small_caches")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("wrong", "what"), [({"forgets": False}, "file"), ({"hoards": 20_000}, "memory")])
async def test_a_load_that_leaves_something_behind_is_seen_to_grow(tmp_path, wrong, what):
    """The control."""
    load = Load(tmp_path / "store.db", Plan(seconds=25, agents=20, saves=6, **wrong))
    await load.goes_on()
    await load.close()
    assert what in grown(load.samples), load.samples

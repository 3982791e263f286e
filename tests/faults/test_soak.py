"""A mixed load that goes on: agents come and go, save, run programs and are read; neither memory nor file grows.

HOLDFAST_SOAK_SECONDS says how long; an hour is a good number.
"""

import asyncio
import gc
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast import CheckpointManager, PythonRunner, SQLiteCheckpointStorage
from holdfast.storage.imagecache import ImageCache
from tests.faults.report import LONG, tell
from tests.unit.durable.samples import Agent

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.slow]

SECONDS = float(os.environ.get("HOLDFAST_SOAK_SECONDS") or (120 if LONG else 3))
AGENTS = 200 if SECONDS > 60 else 20
SAVES_PER_LIFE = 40
CODE = "total = 0\nfor n in range(3):\n    total += await add(n, 1)\ntotal"


class Load:
    """One store and everything that is done to it."""

    def __init__(self, path):
        self.path = path
        self.storage = SQLiteCheckpointStorage(path, max_checkpoints_per_user=20)
        self.manager = CheckpointManager(self.storage)
        self.manager.register(Agent)
        self.runner = PythonRunner(self.storage, tools=[add], type_check=False)
        self.reader = SQLiteCheckpointStorage(path, read_only=True)
        self.done = Counter()
        self.over = False
        self.samples = []

    async def lives(self, number):
        """An agent after the other, each of a user of its own who is forgotten in the end."""
        chance = random.Random(number)
        for life in range(1_000_000):
            agent = Agent(f"agent-{number}-{life}", f"user-{number}")
            for step in range(SAVES_PER_LIFE):
                if self.over:
                    return
                agent.step(f"{step} " + "x" * chance.randrange(400))
                del agent.state["steps"][:-20]
                await self.manager.save(agent, kind=chance.choice(["auto", "auto", "routine"]))
                self.done["saves"] += 1
                if step % 10 == 5:
                    result = await self.runner.run(agent.agent_id, CODE, f"call-{step}", user_id=agent.user_id)
                    assert result.output == 6, result
                    self.done["runs"] += 1
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
        """Garbage is collected, and what there is measured, twenty times in all."""
        began = time.monotonic()
        for turn in range(1, 21):
            await asyncio.sleep(max(0.0, began + SECONDS * turn / 20 - time.monotonic()))
            await self.storage.collect_garbage()
            gc.collect()
            self.samples.append((rss_bytes(), await asyncio.to_thread(os.path.getsize, self.path)))
        self.over = True


async def add(a: int, b: int) -> int:
    return a + b


def rss_bytes():
    fields = Path("/proc/self/statm").read_text().split() if sys.platform == "linux" else ["0", "0"]
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(SECONDS * 3 + 60)
async def test_under_a_load_that_goes_on_neither_memory_nor_the_file_grows(tmp_path, monkeypatch):
    # The caches of states are full after minutes, not hours: what else grows can be seen.
    monkeypatch.setattr(ImageCache.__init__, "__defaults__", (4 << 20,))
    load = Load(tmp_path / "store.db")
    async with asyncio.TaskGroup() as tasks:
        for number in range(AGENTS):
            tasks.create_task(load.lives(number))
        tasks.create_task(load.reads())
        tasks.create_task(load.cares())
    report = await load.manager.verify()
    assert report.ok, report.damaged[:5]
    assert await load.storage.pending("run") == []
    assert load.done["saves"] > load.done["runs"] > 0
    warm, end = load.samples[len(load.samples) // 2 - 1], load.samples[-1]  # the first half is for getting warm
    await load.reader.close()
    await load.runner.close()
    await load.manager.close()
    if SECONDS >= 100:  # less than that shows no trend
        per_save = (end[1] - warm[1]) / (load.done["saves"] / 2)
        assert per_save < 200, "what stays of a save whose agent is gone"
        assert end[0] < warm[0] * 1.1 + (8 << 20)
    if LONG:
        tell(
            "Soak",
            f"{AGENTS} agents for {SECONDS:.0f} seconds: saves, runs, reads, garbage collected, users forgotten.",
            **dict(load.done), MB_of_memory_half_way=warm[0] >> 20, MB_of_memory_at_the_end=end[0] >> 20,
            KB_of_file_half_way=warm[1] >> 10, KB_of_file_at_the_end=end[1] >> 10,
        )  # fmt: skip

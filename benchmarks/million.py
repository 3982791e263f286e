"""A store with a million checkpoints of one user: made once, kept under the benchmarks' directory."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from pathlib import Path

from benchmarks.options import Options, say
from holdfast import Checkpoint, SQLiteCheckpointStorage
from holdfast.history.image import Image
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Change
from holdfast.storage.sqlite.schema import SCHEMA

AGENTS = 1000
USER = "user"


def store(options: Options) -> tuple[Path, int]:
    """The path of the store's database and how many checkpoints are in it."""
    each = options.some(1000, 50)
    form = hashlib.sha256(SCHEMA.encode()).hexdigest()[:8]  # another schema needs another store
    folder = options.directory / f"kept-{AGENTS * each}-{form}"
    if not folder.exists():
        half = folder.with_name(folder.name + ".half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        asyncio.run(_make(half / "checkpoints.db", each))
        half.rename(folder)
    return folder / "checkpoints.db", AGENTS * each


async def _make(path: Path, each: int) -> None:
    """Ordinary commits, each of which saves all agents: fewer syncs, but otherwise the store that saves make."""
    storage = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
    started = time.perf_counter()
    for number in range(each):
        await storage.commit(*(_change(agent, number) for agent in range(AGENTS)))
        if number % 50 == 49:
            say(f"  making the store: {(number + 1) * AGENTS:,} checkpoints, {time.perf_counter() - started:,.0f} s")
    await storage.close()


def _change(agent: int, number: int) -> Change:
    agent_id = name_of(agent)
    checkpoint = Checkpoint(id=new_id(), agent_id=agent_id, agent_type="Talker", user_id=USER, status="RUNNING")
    return Change(
        agent_id=agent_id,
        user_id=USER,
        agent_type="Talker",
        checkpoint=checkpoint,
        image=Image.of({"messages": [], "turn": number}),
        continue_newest=True,
    )


def name_of(agent: int) -> str:
    return f"agent-{agent:04}"

"""Conversations kept in one store, one save for each message: what several benchmarks begin with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from benchmarks.pairs import Pairs
from benchmarks.talker import Talker
from benchmarks.words import Message
from holdfast import CheckpointManager, SQLiteCheckpointStorage


def manager_at(path: Path, *, vfs: str | None = None) -> CheckpointManager:
    """A manager on a store that keeps everything: the default of 100 checkpoints per user would retire the rest."""
    manager = CheckpointManager(SQLiteCheckpointStorage(path, max_checkpoints_per_user=None, vfs=vfs))
    manager.register(Talker)
    return manager


async def keep(
    manager: CheckpointManager, messages: Sequence[Message], agent_id: str = "talker", *, pairs: Pairs | None = None
) -> list[str]:
    """Saves after each message, timed in pairs if there are any; the ids of the checkpoints."""
    agent, ids = Talker(agent_id), []
    for message in messages:
        agent.messages.append(message)
        with nullcontext() if pairs is None else pairs.save():
            ids.append(await manager.save(agent))
    return ids

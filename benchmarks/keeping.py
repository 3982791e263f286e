"""Conversations kept in one store, one save for each message: what several benchmarks begin with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.numbers import Samples
from benchmarks.talker import Talker
from benchmarks.words import Message
from holdfast import CheckpointManager, SQLiteCheckpointStorage


def manager_at(path: Path) -> CheckpointManager:
    """A manager on a store that keeps everything: the default of 100 checkpoints per user would retire the rest."""
    manager = CheckpointManager(SQLiteCheckpointStorage(path, max_checkpoints_per_user=None))
    manager.register(Talker)
    return manager


async def keep(
    manager: CheckpointManager, messages: Sequence[Message], agent_id: str = "talker"
) -> tuple[list[str], Samples]:
    """Saves after each message; the ids and how long each save took."""
    agent, ids, saves = Talker(agent_id), [], Samples()
    for message in messages:
        agent.messages.append(message)
        with saves.timed():
            ids.append(await manager.save(agent))
    return ids, saves

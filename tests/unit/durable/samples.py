"""Agents, clocks and storages for the tests of the manager."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum, StrEnum

from holdfast import InMemoryCheckpointStorage
from holdfast.storage.protocol import CheckpointStorage


class Agent:
    """The least that an agent must be."""

    def __init__(self, agent_id="ada", user_id="u"):
        self.agent_id = agent_id
        self.user_id = user_id
        self.status = "RUNNING"
        self.state = {"steps": []}

    def checkpoint_state(self):
        return self.state

    def restore_state(self, state):
        self.state = state

    def step(self, what):
        self.state["steps"].append(what)
        return self


class Mood(Enum):
    """An enum whose values are no texts: it is kept by name."""

    CALM = 1
    BUSY = 2


class Phase(StrEnum):
    START = "phase-start"
    END = "phase-end"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self):
        self.time = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self):
        return self.time

    def pass_days(self, days):
        self.time += timedelta(days=days)


class ThreeMethods(CheckpointStorage):
    """What a user writes on an afternoon."""

    def __init__(self):
        self.kept = {}

    async def save(self, checkpoint):
        self.kept.pop(checkpoint.id, None)
        self.kept[checkpoint.id] = copy.deepcopy(checkpoint)
        return checkpoint.id

    async def load(self, checkpoint_id):
        return copy.deepcopy(self.kept.get(checkpoint_id))

    async def list_by_user(self, user_id, limit, offset):
        found = [one for one in reversed(self.kept.values()) if one.user_id == user_id]
        return copy.deepcopy(found[offset : offset + limit])


class Undeletable(InMemoryCheckpointStorage):
    """A store in which every deletion fails, as a damaged row would make it."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    async def commit(self, *changes):
        if any(change.delete for change in changes):
            raise self.error
        return await super().commit(*changes)


async def ids(listing):
    return [checkpoint.id for checkpoint in await listing]

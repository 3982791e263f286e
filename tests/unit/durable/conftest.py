"""Every claim about the manager holds on each full store."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, InMemoryCheckpointStorage, SQLiteCheckpointStorage
from tests.unit.durable.samples import Agent, Clock


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request, tmp_path):
    one = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "store.db")
    yield one
    await one.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def manager(storage, clock):
    manager = CheckpointManager(storage, now=clock)
    manager.register(Agent)
    return manager

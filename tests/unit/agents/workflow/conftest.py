"""Every claim about workflows holds on each full store."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, InMemoryCheckpointStorage, SQLiteCheckpointStorage
from tests.unit.agents.workflow.samples import Notes, written


@pytest.fixture(params=["memory", "sqlite"])
async def manager(request, tmp_path):
    memory = request.param == "memory"
    storage = InMemoryCheckpointStorage() if memory else SQLiteCheckpointStorage(tmp_path / "store.db")
    async with CheckpointManager(storage) as one:
        yield one


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def file(tmp_path):
    """Writes trip.yaml; returns its path."""
    return lambda text, name="trip.yaml": written(tmp_path, text, name)

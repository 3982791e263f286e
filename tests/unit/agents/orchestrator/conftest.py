"""Every claim about the orchestrator holds on each full store, and on a storage of three methods where it can."""

from __future__ import annotations

import pytest

from holdfast import InMemoryCheckpointStorage, SQLiteCheckpointStorage
from tests.unit.durable.samples import ThreeMethods


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request, tmp_path):
    one = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "store.db")
    yield one
    await one.close()


@pytest.fixture(params=["memory", "sqlite", "three methods"])
async def any_storage(request, tmp_path):
    if request.param == "three methods":
        yield ThreeMethods()
        return
    one = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "store.db")
    yield one
    await one.close()

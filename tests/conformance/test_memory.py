"""The in-memory store keeps the contract."""

import pytest

from holdfast.storage.memory import InMemoryCheckpointStorage
from holdfast.testing.conformance import StoreConformance


class TestInMemory(StoreConformance):
    persistent = False
    multi_process = False

    @pytest.fixture
    def open_store(self):
        return InMemoryCheckpointStorage

"""The storage of readable files keeps the contract of a checkpoint storage."""

import pytest

from holdfast.storage.files import FileCheckpointStorage
from holdfast.testing.conformance import CheckpointStorageConformance


class TestFiles(CheckpointStorageConformance):
    @pytest.fixture
    def storage(self, tmp_path):
        return FileCheckpointStorage(tmp_path / "checkpoints")

"""The SQLite store keeps the contract."""

import pytest

from holdfast.testing.conformance import StoreConformance

sqlite = pytest.importorskip("holdfast.storage.sqlite")


class TestSQLite(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: sqlite.SQLiteCheckpointStorage(db_path=tmp_path / "store.db")

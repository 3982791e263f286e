"""The suite that a storage joins to show that it keeps the contract.

    from holdfast.testing.conformance import CheckpointStorageConformance

    class TestMyStorage(CheckpointStorageConformance):
        @pytest.fixture
        def storage(self, tmp_path):
            return MyStorage(tmp_path / "checkpoints")

A full store joins `StoreConformance` instead, with a fixture `open_store`: a function that opens the same store again
each time it is called, so that what a restart finds can be tested.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing.checkpoints import CheckpointStorageConformance
from holdfast.testing.concurrency import ConcurrencyClaims
from holdfast.testing.histories import HistoryClaims
from holdfast.testing.lifecycles import LifecycleClaims
from holdfast.testing.ownership import OwnershipClaims
from holdfast.testing.runs import RunClaims
from holdfast.testing.samples import FullStore

__all__ = ["CheckpointStorageConformance", "StoreConformance"]


class StoreConformance(
    OwnershipClaims, HistoryClaims, RunClaims, LifecycleClaims, ConcurrencyClaims, CheckpointStorageConformance
):
    """Every claim about a full store. Override `open_store`; the flags say which claims can be tried."""

    @pytest.fixture
    def open_store(self) -> Callable[[], FullStore]:
        pytest.fail(f"{type(self).__name__} needs a fixture open_store, which returns a function that opens the store")

    @pytest.fixture
    def storage(self, open_store: Callable[[], FullStore]) -> FullStore:
        return open_store()

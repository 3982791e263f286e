"""A store, runners on it, and a way to die in the middle of a tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.runs.runner import PythonRunner
from holdfast.storage.sqlite import SQLiteCheckpointStorage


class Killed(BaseException):
    """What stands for the death of the process in these tests: nothing catches it, and the run stays as it was."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointStorage]:
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    yield store
    await store.close()


@pytest.fixture
async def runner_with(store: SQLiteCheckpointStorage) -> AsyncIterator[Callable[..., PythonRunner]]:
    """Makes runners on the store; each is like a process of its own."""
    made: list[PythonRunner] = []

    def make(*tools: Any, **options: Any) -> PythonRunner:
        runner = PythonRunner(options.pop("storage", store), tools=tools, **options)
        made.append(runner)
        return runner

    yield make
    for runner in made:
        await runner._executor.seats.close()

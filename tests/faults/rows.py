"""Which tests owe figures, and how the sessions went that left some, for `scripts/faults_report.py`.

These are hooks of pytest, for `tests/conftest.py`. They do nothing unless figures were asked for.
"""

from __future__ import annotations

import inspect
import os
import time
from datetime import UTC, datetime

import pytest

from tests.faults.report import commit, folder_of_figures, tell, write

_began = time.monotonic()
_skipped: list[str] = []


def owes(item: pytest.Item) -> bool:
    """Whether the code of a test names `tell`, under whichever name its module has it."""
    if not isinstance(item, pytest.Function):
        return False
    function = inspect.unwrap(item.function)
    return any(function.__globals__.get(name) is tell for name in function.__code__.co_names)


def pytest_collection_finish(session: pytest.Session) -> None:
    folder = folder_of_figures()
    if folder is not None and session.config.option.collectonly:
        write(folder / "owed" / "rows.json", [item.nodeid for item in session.items if owes(item)])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = folder_of_figures()
    if folder is not None and not session.config.option.collectonly:
        told = {
            "commit": commit(), "skipped": _skipped, "seconds": round(time.monotonic() - _began),
            "date": datetime.now(UTC).date().isoformat(),
        }  # fmt: skip
        write(folder / "sessions" / f"{os.getpid()}-{int(time.time())}.json", told)

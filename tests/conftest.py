"""What every test gets: one event loop that must never be blocked, and random examples that fit the occasion."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

import holdfast
from tests.faults.rows import (  # noqa: F401 - hooks of pytest
    pytest_collection_finish,
    pytest_runtest_logreport,
    pytest_sessionfinish,
)

# No profile has a deadline: how long an example takes says more about the machine than about the code.
settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=30,
    derandomize=True,  # a change must not fail for what another change broke
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # this, too, would be a verdict on the machine
)
settings.register_profile("long", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Holdfast is written for asyncio: its writer thread hands results back to an asyncio loop."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _the_loop_is_never_blocked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which Holdfast reads a file, waits for a lock or sleeps on the thread of the event loop."""
    marker = request.node.get_closest_marker("blocks_the_loop")
    if marker is not None:
        if not (marker.args or marker.kwargs.get("reason")):
            pytest.fail("@pytest.mark.blocks_the_loop wants a reason")
        yield
        return
    with blockbuster_ctx(holdfast):
        yield

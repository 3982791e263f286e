"""Processes that share a store are killed with SIGKILL at random moments: nothing acknowledged is lost or mixed up."""

from __future__ import annotations

import pytest

from tests.faults.children import told_by
from tests.faults.report import LONG, tell, times

KILLS = times("HOLDFAST_STORE_KILLS", short=8, long=450)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(3600 if LONG else 120)
def test_processes_that_share_a_store_may_be_killed_at_any_moment(folder):
    told = told_by("tests.faults.store_kills", folder, 1, KILLS)
    tell(
        "kills, stores",
        "Eight processes save, delete, collect garbage and add keys in one store; a random one is killed and replaced.",
        kills=told["killed"], broken=len(told["broken"]),
    )  # fmt: skip
    assert told["broken"] == []
    assert told["killed"] == KILLS


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(120)
def test_the_harness_sees_a_save_that_is_told_before_its_commit(folder):
    """The control: what was told is not there after a kill."""
    told = told_by("tests.faults.store_kills", folder, 2, 60, "a_save_is_told_before_its_commit")
    assert told["broken"], told

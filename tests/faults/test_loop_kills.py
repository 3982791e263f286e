"""Loops whose processes are killed at random moments: every message and every task counts exactly once."""

from __future__ import annotations

import pytest

from tests.faults.children import told_by
from tests.faults.report import tell, times

KILLS = times("HOLDFAST_LOOP_KILLS", short=10, long=200)

pytestmark = [pytest.mark.slow, pytest.mark.faults]


@pytest.mark.timeout(300 + KILLS * 5)
def test_killed_loops_count_every_message_and_task_once(tmp_path):
    told = told_by("tests.faults.loop_kills", tmp_path, 1, KILLS)
    counts = told["counts"]
    tell(
        "kills, loops",
        "The process of two loops is killed at random moments, while two others send to them.",
        kills=told["killed"], messages=counts.get("messages", 0), heard=counts.get("heard", 0),
        tasks_done=counts.get("tasks", 0), counted_twice=counts.get("twice", 0), lost=counts.get("lost", 0),
    )  # fmt: skip
    assert told["broken"] == []
    assert told["killed"] == KILLS
    assert counts["messages"] > KILLS


@pytest.mark.timeout(120)
def test_the_harness_sees_a_message_that_is_acknowledged_after_its_step(tmp_path):
    """The control: in two commits instead of one, a message counts twice."""
    told = told_by("tests.faults.loop_kills", tmp_path, 1, 8, "a_message_is_acknowledged_after_its_step")
    assert told["counts"]["twice"], told
    assert any("heard otherwise than was sent" in one for one in told["broken"])

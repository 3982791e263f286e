"""Workflows whose processes are killed with SIGKILL: they come to their end, and no step that is done is done again."""

from __future__ import annotations

import pytest

from tests.faults.children import told_by
from tests.faults.report import tell, times

KILLS = times("HOLDFAST_WORKFLOW_KILLS", short=12, long=200)

pytestmark = [pytest.mark.slow, pytest.mark.faults]


@pytest.mark.timeout(max(60, 3 * KILLS))
def test_a_killed_workflow_comes_to_its_end_and_does_no_finished_step_again(tmp_path):
    told = told_by("tests.faults.workflow_kills", tmp_path, 1, KILLS)
    tell(
        "kills, workflows",
        "The process of a workflow is killed at random moments until the workflow has come to its end.",
        kills=told["killed"], workflows=told["workflows"], attempts_at_steps=told["attempts"],
        steps_cut_off_and_begun_again=told["again"], done_steps_done_again=told["done twice"], lost=told["lost"],
    )  # fmt: skip
    assert told["broken"] == []
    assert told["killed"] >= KILLS
    assert told["workflows"]
    assert told["again"]


@pytest.mark.timeout(120)
def test_the_harness_sees_a_step_that_began_before_its_record(tmp_path):
    """The control: a step that was cut off begins again as if it were the first time."""
    told = told_by("tests.faults.workflow_kills", tmp_path, 1, 200, "a_step_begins_before_its_record")
    assert any("have the same number" in one for one in told["broken"]), [one[:200] for one in told["broken"]]

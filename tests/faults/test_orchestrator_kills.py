"""An orchestrator that is killed with SIGKILL at random moments: no message is lost, doubled or another user's."""

from __future__ import annotations

import pytest

from tests.faults.children import told_by
from tests.faults.orchestrator_kills import USERS
from tests.faults.report import tell, times

KILLS = times("HOLDFAST_ORCHESTRATOR_KILLS", short=12, long=200)

pytestmark = [pytest.mark.slow, pytest.mark.faults]


@pytest.mark.timeout(60 + 4 * KILLS)
def test_every_message_is_handled_once_and_one_that_was_cut_off_again_under_its_id(tmp_path):
    told = told_by("tests.faults.orchestrator_kills", tmp_path, 1, KILLS)
    tell(
        "kills, orchestrator",
        "The process that takes the messages of 20 users to their agents is killed at random moments.",
        kills=told["killed"], messages=told["handled"], cut_off_and_handled_again=told["again"],
        handled_twice=told["twice"], lost=told["lost"],
    )  # fmt: skip
    assert told["broken"] == []
    assert (told["killed"], told["users"]) == (KILLS, USERS)
    assert told["handled"] > USERS
    assert told["again"] > 0


@pytest.mark.timeout(120)
def test_the_harness_sees_a_message_that_was_handled_before_it_was_kept(tmp_path):
    """The control: a message whose process died is nowhere."""
    told = told_by("tests.faults.orchestrator_kills", tmp_path, 1, 6, "a_message_is_handled_before_it_is_kept")
    assert told["lost"], told

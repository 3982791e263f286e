"""The table of transitions: every pair is either allowed or an error that names both."""

from __future__ import annotations

import pytest

from holdfast import AgentStatus, IllegalTransition
from holdfast.agents.standard.transitions import TRANSITIONS, check

PAIRS = [(before, after) for before in AgentStatus for after in AgentStatus]


def test_every_status_has_its_name_as_its_value():
    assert [(status, status.value) for status in AgentStatus] == [(status, status.name) for status in AgentStatus]
    assert AgentStatus.RUNNING == "RUNNING"


def test_the_table_has_every_status():
    assert set(TRANSITIONS) == set(AgentStatus)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_pair_is_allowed_or_an_error_that_names_both(before, after):
    if after in TRANSITIONS[before] or (before is after and not before.finished):
        check(before, after, agent_id="a")
        return
    with pytest.raises(IllegalTransition, match=f"{before} and can't become {after}") as error:
        check(before, after, agent_id="a")
    assert (error.value.before, error.value.after, error.value.agent_id) == (before, after, "a")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((end, after) for end in (AgentStatus.COMPLETED, AgentStatus.CANCELLED) for after in AgentStatus),
        (AgentStatus.PAUSED, AgentStatus.COMPLETED),
        (AgentStatus.ERROR, AgentStatus.PAUSED),
        (AgentStatus.RUNNING, AgentStatus.INITIALIZING),
        (AgentStatus.WAITING_FOR_INPUT, AgentStatus.INITIALIZING),
    ],
)
def test_these_are_refused(before, after):
    with pytest.raises(IllegalTransition):
        check(before, after, agent_id="a")


def test_whatever_is_not_finished_may_be_cancelled_or_fail():
    for status in AgentStatus:
        assert (AgentStatus.CANCELLED in TRANSITIONS[status]) is not status.finished
        assert (AgentStatus.ERROR in TRANSITIONS[status] or status is AgentStatus.ERROR) is not status.finished

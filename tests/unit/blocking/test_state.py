"""The four sections: defaults that nobody shares, and when a task is idle."""

from __future__ import annotations

import threading

import pytest

from holdfast.blocking.state import AgentState, copied, is_idle, progress_of


def test_no_two_states_share_their_defaults():
    one, other = AgentState(), AgentState()
    one.memory["short_term"].append(1)
    one.current_task["context"]["a"] = 1
    assert other == AgentState()


def test_putting_a_section_back_into_itself_loses_nothing():
    state = AgentState(memory={"a": 1})
    state.put_back("memory", state.memory)
    assert state.memory == {"a": 1}


def test_a_copy_stays_as_it_is_and_what_cannot_be_copied_is_shared():
    lock = threading.Lock()
    section = {"list": [1], "lock": lock}
    copy = copied(section)
    section["list"].append(2)
    assert copy == {"list": [1], "lock": lock}


@pytest.mark.parametrize(("task", "progress"), [
    ({"progress_percentage": 40}, 0.4), ({"progress_percentage": 140}, 1.0), ({"progress_percentage": -1}, 0.0),
    ({}, None), ({"progress_percentage": "40"}, None), ({"progress_percentage": True}, None),
])  # fmt: skip
def test_progress_is_a_share(task, progress):
    assert progress_of(task) == progress


@pytest.mark.parametrize(("task", "idle"), [
    ({}, True), ({"status": None}, True), ({"status": "WAITING"}, True), ({"status": "running"}, False),
    ({"status": "running", "progress_percentage": 100}, True),
])  # fmt: skip
def test_an_idle_task_is_one_on_which_nobody_works(task, idle):
    assert is_idle(task) is idle

"""Recorded runs: which lines are events, and what is refused by its number."""

from __future__ import annotations

import json

import pytest

from holdfast.drift.protocol import Event
from holdfast.drift.recording import event_in, runs_in
from holdfast.errors import InvalidImport


def lines(*objects):
    return [json.dumps(one) for one in objects]


def test_events_are_grouped_by_run_in_the_order_in_which_runs_begin():
    runs = runs_in(
        lines(
            {"kind": "run", "run": "b", "success": True},
            {"run": "b", "action": "x", "label": "Repetition"},
            {"run": "a", "action": "y"},
            {"run": "b", "action": "z"},
        )
    )
    assert [(run.name, run.success, [event.action for event in run.events], run.labels) for run in runs] == [
        ("b", True, ["x", "z"], ["Repetition", None]),
        ("a", None, ["y"], [None]),
    ]


def test_short_and_long_names_of_fields_mean_the_same():
    long = {"arguments": {"a": 1}, "outcome": "o", "duration_seconds": 2, "at": 3.5, "progress": 4, "error": "e"}
    short = {"args": {"a": 1}, "obs": "o", "dur": 2, "ts": 3.5, "progress": 4, "error": "e"}
    event = Event(action="x", arguments={"a": 1}, outcome="o", duration_seconds=2.0, at=3.5, progress=4.0, error="e")
    assert event_in({"action": "x", **long}) == event_in({"action": "x", **short}) == event


def test_where_an_error_is_only_said_the_outcome_is_the_error():
    assert event_in({"action": "x", "obs": "no", "error": True}) == Event(action="x", error="no")
    assert event_in({"action": "x", "obs": {"a": 1}, "error": True}) == Event(action="x", error='{"a": 1}')
    assert event_in({"action": "x", "obs": "yes", "error": False}) == Event(action="x", outcome="yes")


def test_times_may_be_texts():
    assert event_in({"action": "x", "ts": "1970-01-01T00:01:00Z"}).at == 60.0


def test_arguments_whose_text_was_cut_are_told_apart_by_their_hash():
    whole = event_in({"action": "x", "args": '{"a": 1}', "args_sha": "1"})
    assert whole.arguments == '{"a": 1}'
    cut = [event_in({"action": "x", "args": '{"a": "long', "args_sha": sha}).arguments for sha in "12"]
    assert cut[0] != cut[1]


def test_the_tool_calls_in_records_are_events_once_their_results_are_there():
    [run] = runs_in(
        lines(
            {"type": "user_message", "seq": 1, "at": "2026-03-01T12:00:00Z", "content": "go"},
            {
                "type": "assistant_message", "seq": 2, "at": "2026-03-01T12:00:00Z", "content": None,
                "toolCalls": [{"id": "c", "name": "run_python", "arguments": {"code": "1"}}],
            },
            {
                "type": "rlm_tool_call", "seq": 3, "at": "2026-03-01T12:00:01Z", "toolCallId": "c", "callId": 1,
                "toolName": "fetch", "toolArgs": {"n": 1},
            },
            {
                "type": "rlm_tool_result", "seq": 4, "at": "2026-03-01T12:00:03Z", "toolCallId": "c", "callId": 1,
                "toolName": "fetch", "toolResult": "down", "toolIsError": True,
            },
            {
                "type": "rlm_tool_call", "seq": 5, "at": "2026-03-01T12:00:04Z", "toolCallId": "c", "callId": 2,
                "toolName": "fetch", "toolArgs": {"n": 2},
            },
            {
                "type": "tool_result", "seq": 6, "at": "2026-03-01T12:00:05Z", "toolCallId": "c", "content": "x",
                "isError": False,
            },
        )
    )  # fmt: skip
    noon = 1772366400.0
    assert run.events == [
        Event(action="fetch", arguments={"n": 1}, error="down", duration_seconds=2.0, at=noon + 3),
        Event(action="run_python", arguments={"code": "1"}, outcome="x", duration_seconds=5.0, at=noon + 5),
    ]
    assert run.labels == [None, None]


@pytest.mark.parametrize("line", ["{", "[]", "7", "{}", '{"action": "x", "dur": "long"}', '{"type": "tool_result"}'])
def test_a_line_that_is_no_event_is_named(line):
    with pytest.raises(InvalidImport, match=r"^Line 3 is no event"):
        runs_in(['{"action": "x"}', "", line])

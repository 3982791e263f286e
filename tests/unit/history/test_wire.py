"""Claims about records on the wire: every type goes out, fits the schema and comes back; nothing else comes in."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from holdfast.errors import InvalidArgument, InvalidImport, UnknownValueType
from holdfast.history import records
from holdfast.history.checkpoint import Kind
from holdfast.history.wire import dumps_line, from_wire, loads_line, to_wire

AT = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
CALL = {"tool_call_id": "call_1", "call_id": 3}
PLAIN: list[records.Record] = [
    records.UserMessage(seq=1, at=AT, content="hi"),
    records.AssistantMessage(
        seq=2, at=AT, content=None, tool_calls=[{"id": "c", "name": "f", "arguments": {"a": (1,)}}]
    ),
    records.ToolResult(seq=3, at=AT, tool_call_id="call_1", content=[b"x"]),
    records.RlmStart(seq=4, at=AT, tool_call_id="call_1", code="f()", preamble="import x"),
    records.RlmToolCall(
        seq=5,
        at=AT,
        **CALL,
        snapshot=b"\x00\xff",
        print_output="\ud800",
        tool_call_count=1,
        tool_name="f",
        tool_args={1: 2},
    ),
    records.RlmToolResult(seq=6, at=AT, **CALL, tool_name="f", tool_result={"$a": 2**70}, tool_is_error=True),
    records.RlmComplete(seq=7, at=AT, tool_call_id="call_1", output=None, print_output="", tool_call_count=1),
    records.CheckpointSaved(seq=8, at=AT, id="chk_1", kind="routine", parent=None, digest=b"\x01\xab"),
    records.CheckpointDeleted(seq=9, at=AT, id="chk_1"),
    records.Rewind(seq=10, at=AT, to=0),
    records.RlmRestart(seq=11, at=AT, tool_call_id="call_1", attempt=1, released=True),
    records.ToolCall(seq=12, at=AT, tool_call_id="call_1", tool_name="f"),
    records.ToolApproval(seq=13, at=AT, tool_call_id="call_1", decision="asked"),
]
OPTIONAL: dict[str, Any] = {
    "session": "s", "feed": 1, "batch": 2, "attempt": 3, "forked_from": {"agentId": "a", "seq": 4},
    "os_answers": [(1,), 2.5], "redacted": ["toolArgs.key"],
    "origin": "rlm_restore", "error": "boom", "snapshot_seq": 1, "line": 7, "snapshot": b"\x00\xff", "parent": "chk_0",
    "reason": "killed", "model": "m", "usage": {"input_tokens": 3}, "details": {"parts": [{}]},
}  # fmt: skip
EVERY = [
    *PLAIN,
    *(
        record.evolve(**{name: value for name, value in OPTIONAL.items() if name in {f.name for f in fields(record)}})
        for record in PLAIN
    ),
    PLAIN[4].evolve(snapshot=None, snapshot_seq=2, call_id="x"),
]
SCHEMA = json.loads(files("holdfast.history").joinpath("records.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("record", EVERY, ids=lambda record: record.type)
def test_every_record_comes_back_from_its_line_and_fits_the_schema(record):
    line = dumps_line(to_wire(record))
    assert line.isascii()
    assert "\n" not in line
    assert from_wire(loads_line(line)) == from_wire(loads_line(line.encode())) == record
    VALIDATOR.validate(json.loads(line))


def test_every_type_of_record_is_among_the_examples():
    assert {record.type for record in EVERY} == set(records.RECORD_TYPES) - {"store_event"}


def test_the_schema_has_exactly_the_fields_that_are_written():
    for record in EVERY[len(PLAIN) : -1]:
        definition = SCHEMA["$defs"][record.type]
        written = set(to_wire(record.evolve(snapshot_seq=1) if record.type == "rlm_tool_call" else record))
        assert written == set(definition["properties"])
        for name in definition["required"]:
            with pytest.raises(InvalidImport):
                from_wire({key: value for key, value in to_wire(record).items() if key != name})


def test_a_line_reads_as_documented():
    assert dumps_line(to_wire(PLAIN[4])) == (
        r'{"type":"rlm_tool_call","seq":5,"at":"2026-01-31T12:00:00.000005Z","toolCallId":"call_1","callId":3,'
        r'"snapshot":"AP8=","printOutput":"\ud800","toolCallCount":1,"toolName":"f","toolArgs":{"$dict":[[1,2]]}}'
    )


def test_the_kind_of_a_checkpoint_is_written_as_text():
    assert type(to_wire(PLAIN[7].evolve(kind=Kind.ROUTINE))["kind"]) is str


def test_times_are_written_and_read_in_utc():
    record = PLAIN[9].evolve(at=AT.astimezone(timezone(timedelta(hours=5))))
    assert to_wire(record)["at"] == "2026-01-31T12:00:00.000005Z"
    read = from_wire({**to_wire(record), "at": "2026-01-31T14:00:00+02:00"}).at
    assert (read.isoformat(), read.tzinfo) == ("2026-01-31T12:00:00+00:00", UTC)


def test_what_has_no_number_or_concerns_the_store_does_not_go_out():
    for record in (records.Rewind(to=1), PLAIN[9].evolve(at=None), PLAIN[9].evolve(at=AT.replace(tzinfo=None)),
                   records.StoreEvent(seq=1, at=AT, event="epoch")):  # fmt: skip
        with pytest.raises(InvalidArgument):
            to_wire(record)


def test_a_value_that_can_not_be_kept_is_named_by_its_field():
    with pytest.raises(UnknownValueType) as caught:
        to_wire(PLAIN[5].evolve(tool_result={"a": object()}))
    assert caught.value.path == "toolResult.a"


CHECKPOINT = to_wire(PLAIN[7])
WRONG = [
    (CHECKPOINT, {"type": "nope"}, "type"), (CHECKPOINT, {"type": None}, "type"), (CHECKPOINT, {"type": []}, "type"),
    (CHECKPOINT, {"type": "store_event"}, "type"), (CHECKPOINT, {"colour": 1}, "colour"),
    (CHECKPOINT, {"digest": "AB"}, "digest"), (CHECKPOINT, {"digest": "abc"}, "digest"),
    (CHECKPOINT, {"kind": 1}, "kind"),
    (CHECKPOINT, {"seq": 0}, "seq"), (CHECKPOINT, {"seq": True}, "seq"), (CHECKPOINT, {"seq": "8"}, "seq"),
    (CHECKPOINT, {"seq": 8.0}, "seq"), (CHECKPOINT, {"at": "yesterday"}, "at"), (CHECKPOINT, {"at": 5}, "at"),
    (CHECKPOINT, {"at": "2026-01-31T12:00:00"}, "at"), (CHECKPOINT, {"at": "0001-01-01T00:00:00+05:00"}, "at"),
    (CHECKPOINT, {"forkedFrom": [1]}, "forkedFrom"), (CHECKPOINT, {"osAnswers": {}}, "osAnswers"),
    (CHECKPOINT, {"feed": -1}, "feed"), (to_wire(PLAIN[4]), {"snapshot": "A"}, "snapshot"),
    (to_wire(PLAIN[4]), {"snapshot": "A=B="}, "snapshot"), (to_wire(PLAIN[4]), {"snapshot": 1}, "snapshot"),
    (to_wire(PLAIN[4]), {"callId": None}, "callId"), (to_wire(PLAIN[4]), {"toolArgs": {"$nope": 1}}, "toolArgs"),
    (to_wire(PLAIN[5]), {"toolIsError": 1}, "toolIsError"), (to_wire(PLAIN[1]), {"toolCalls": None}, "toolCalls"),
    (to_wire(PLAIN[1]), {"toolCalls": [{"id": "c", "name": "f"}]}, "toolCalls"),
    (to_wire(PLAIN[1]), {"toolCalls": [{"id": 1, "name": "f", "arguments": {}}]}, "toolCalls"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "change", "field"), WRONG)
def test_what_is_no_record_is_refused_by_the_name_of_its_field(good, change, field):
    with pytest.raises(InvalidImport, match=field) as caught:
        from_wire({**good, **change})
    assert caught.value.path == field


@pytest.mark.parametrize(
    "line",
    ["", "nope", "[]", "1", '{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{"a":NaN}', "[" * 100_000, '{"a":' * 100_000,
     b"\xff",
     '{"a":' + "9" * 5000 + "}", '{"a":1} {}', "\ufeff{}", '{"a":1}'.encode("utf-16")],
)  # fmt: skip
def test_what_is_no_line_is_refused(line):
    with pytest.raises(InvalidImport):
        loads_line(line)


def test_only_objects_are_records():
    with pytest.raises(InvalidImport):
        from_wire([])

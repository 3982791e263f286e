"""Answers of models become records and come back the same, as far as their provider must be given them back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from holdfast.agents.model.conversation import Conversation
from holdfast.agents.model.messages import recorded, sent
from holdfast.history.codec import decode, encode
from holdfast.history.records import AssistantMessage, UserMessage, from_row, to_row

AT = datetime(2026, 1, 31, tzinfo=UTC)
CALL = ToolCallPart("f", {"a": [1, 2.5, "ü"]}, "c1")
ANSWERS = {
    "text": [TextPart("hello")],
    "call": [CALL],
    "text and calls": [TextPart("hello"), CALL, ToolCallPart("g", {}, "c2")],
    "calls before text": [CALL, TextPart("hello")],
    "several texts": [TextPart("one"), CALL, TextPart("two")],
    "thinking": [ThinkingPart("hm", signature="SEALED", provider_name="p", id="t1"), TextPart("so")],
    "signed parts": [
        TextPart("so", id="m1", provider_name="p", provider_details={"phase": "final"}),
        ToolCallPart("f", {}, "c1", id="fc1", provider_name="p"),
    ],
    "nothing": [],
    "an empty text": [TextPart(""), CALL],
}


def stored(record):
    """The record as a store gives it back."""
    return from_row(decode(encode(to_row(record))), seq=2, at=AT)


@pytest.mark.parametrize("parts", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_comes_back_as_it_was(parts):
    response = ModelResponse(
        parts=parts, usage=RequestUsage(input_tokens=3, output_tokens=4), model_name="m", provider_name="p",
        provider_response_id="r1", finish_reason="stop", timestamp=AT,
    )  # fmt: skip
    record = stored(recorded(response, ()))
    [back, *_] = sent(Conversation([record]))
    assert list(back.parts) == [part for part in parts if part != TextPart("")]
    for name in ("model_name", "provider_name", "provider_response_id", "finish_reason", "timestamp"):
        assert getattr(back, name) == getattr(response, name)
    assert record.content == "".join(part.content for part in parts if isinstance(part, TextPart))


def test_the_record_of_a_plain_answer_says_nothing_twice():
    response = ModelResponse(parts=[TextPart("hello"), CALL], model_name="m")
    record = recorded(response, ())
    assert record.content == "hello"
    assert record.tool_calls == [{"id": "c1", "name": "f", "arguments": {"a": [1, 2.5, "ü"]}}]
    assert (record.details, record.usage) == (None, None)


def test_details_that_are_not_understood_are_left_out_with_a_warning(caplog):
    record = AssistantMessage(
        seq=1,
        at=AT,
        content="hello",
        tool_calls=[],
        details={"parts": [{"part_kind": "telepathy"}], "provider_name": "p"},
    )
    [back] = sent(Conversation([record]))
    assert [part.content for part in back.parts] == ["hello"]
    assert "sent without" in caplog.text


def test_a_call_that_nobody_answered_is_told_to_be_one():
    asked = AssistantMessage(seq=1, at=AT, content="", tool_calls=[{"id": "c1", "name": "f", "arguments": {}}])
    [_, request] = sent(Conversation([asked, UserMessage(seq=2, content="And?")]))
    assert [(part.part_kind, part.content) for part in request.parts] == [
        ("tool-return", "No result of this call was recorded."),
        ("user-prompt", "And?"),
    ]


@pytest.mark.parametrize("content", [{"kind": "form", "n": 1}, ["a", {"kind": "unheard of"}], 5])
def test_a_prompt_of_somebody_elses_making_is_sent_as_json(content):
    import json

    [request] = sent(Conversation([UserMessage(seq=1, content=content)]))
    assert json.loads(request.parts[0].content) == content

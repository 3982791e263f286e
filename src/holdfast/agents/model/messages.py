"""Messages between the history and pydantic-ai: what a model answered as a record, and records as what it is sent."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from holdfast.agents.model.conversation import Conversation, Exchange
from holdfast.agents.model.schema import read_arguments
from holdfast.history.records import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse

log = logging.getLogger("holdfast")

_ELSEWHERE: Final = frozenset(
    {"parts", "usage", "timestamp", "kind", "model_name", "state", "run_id", "conversation_id", "metadata"}
)
"""What a record says in fields of its own, or what means something only while a request is under way."""
_OF_A_CALL: Final = ("tool_name", "args", "tool_call_id")
_made: WeakKeyDictionary[Exchange, ModelResponse] = WeakKeyDictionary()  # each request sends all of them again
_NO_RESULT: Final = "No result of this call was recorded."


def recorded(response: ModelResponse, taken: Iterable[str]) -> AssistantMessage:
    """The record of an answer. Calls get ids that no other call of the agent has: their results are named by them."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    [dumped] = ModelMessagesTypeAdapter.dump_python([response], mode="json", warnings=False)  # pydantic 2.12 has some
    parts = [_without_none(part) for part in dumped["parts"]]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    seen = set(taken)
    calls: list[dict[str, Any]] = []
    for part, plain in zip(response.parts, parts, strict=True):
        if isinstance(part, TextPart):
            del plain["content"]
            if len(texts) > 1:
                plain["length"] = len(part.content)
        elif isinstance(part, ToolCallPart):
            for name in _OF_A_CALL:
                plain.pop(name, None)
            call_id = _unique(part.tool_call_id, seen)
            calls.append({"id": call_id, "name": part.tool_name, "arguments": read_arguments(part.args)})
    details = {name: value for name, value in _without_none(dumped).items() if name not in _ELSEWHERE}
    if [part["part_kind"] for part in parts] != _plain_kinds(texts, calls) or any(len(part) > 1 for part in parts):
        details["parts"] = parts
    usage = {name: value for name, value in dumped["usage"].items() if value}
    return AssistantMessage(
        content="".join(texts), tool_calls=calls, model=response.model_name, usage=usage or None,
        details=details or None,
    )  # fmt: skip


def prompt_content(prompt: Any) -> Any:
    """What is recorded of a prompt: a text, or a list of what pydantic-ai takes beside texts, as plain JSON."""
    if isinstance(prompt, str):
        return prompt
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

    part = UserPromptPart(content=list(prompt))
    [dumped] = ModelMessagesTypeAdapter.dump_python([ModelRequest(parts=[part])], mode="json", warnings=False)
    return dumped["parts"][0]["content"]


def sent(conversation: Conversation) -> list[ModelMessage]:
    """The conversation as it is sent to a model: the results of a message's calls follow it, in call order."""
    from pydantic_ai.messages import ModelRequest

    messages: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for entry in conversation.entries:
        if isinstance(entry, UserMessage):
            parts.append(_prompt(entry))
            continue
        if parts:
            messages.append(ModelRequest(parts=parts))
        response = _made.get(entry)
        if response is None:
            response = _made[entry] = _response(entry.message)
        messages.append(response)
        parts = _results(entry)
    if parts:
        messages.append(ModelRequest(parts=parts))
    return messages


def _prompt(message: UserMessage) -> ModelRequestPart:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, UserPromptPart

    if isinstance(message.content, str):
        return UserPromptPart(content=message.content)
    if isinstance(message.content, list):
        plain = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": message.content}]}
        try:
            [request] = ModelMessagesTypeAdapter.validate_python([plain])
        except ValueError:
            log.debug("Record %s is no prompt that pydantic-ai knows, it is sent as JSON", message.seq)
        else:
            part: ModelRequestPart = request.parts[0]  # type: ignore[assignment]
            return part
    return UserPromptPart(content=json.dumps(message.content, default=str, ensure_ascii=False))


def _results(exchange: Exchange) -> list[ModelRequestPart]:
    from pydantic_ai.messages import ToolReturnPart

    found: list[ModelRequestPart] = []
    for call in exchange.calls.values():
        result = call.result
        failed = result is None or result.is_error
        found.append(
            ToolReturnPart(
                tool_name=call.name, tool_call_id=call.id, content=_NO_RESULT if result is None else result.content,
                outcome="failed" if failed else "success",
            )
        )  # fmt: skip
    return found


def _response(message: AssistantMessage) -> ModelResponse:
    """The model's message as it came, as far as its provider must be given it back."""
    if message.details is not None:
        try:
            return _rebuilt(message, message.details)
        except (ValueError, StopIteration, KeyError) as error:  # another version of pydantic-ai wrote them, say
            log.warning("The details of record %s are not understood, it is sent without: %s", message.seq, error)
    return _rebuilt(message, {})


def _rebuilt(message: AssistantMessage, details: dict[str, Any]) -> ModelResponse:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    parts = _parts(message, details.get("parts"))
    plain = {**details, "kind": "response", "model_name": message.model, "parts": parts, "timestamp": message.at}
    [response] = ModelMessagesTypeAdapter.validate_python([plain])
    return response  # type: ignore[return-value]


def _parts(message: AssistantMessage, kept: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    text = message.content if isinstance(message.content, str) else json.dumps(message.content, default=str)
    calls = iter(message.tool_calls)
    if kept is None:
        kept = [{"part_kind": kind} for kind in _plain_kinds([text] if text else [], message.tool_calls)]
    parts: list[dict[str, Any]] = []
    for plain in kept:
        part = dict(plain)
        if part["part_kind"] == "text":
            length = part.pop("length", len(text))
            part["content"], text = text[:length], text[length:]
        elif part["part_kind"] == "tool-call":
            call = next(calls)
            part |= {"tool_name": call["name"], "args": _args(call["arguments"]), "tool_call_id": call["id"]}
        parts.append(part)
    return parts


def _args(arguments: Any) -> Any:
    return arguments if isinstance(arguments, str | dict) else json.dumps(arguments, default=str)


def _plain_kinds(texts: list[str], calls: list[dict[str, Any]]) -> list[str]:
    """The parts of a message about which there is nothing more to say."""
    return ["text"] * min(1, len(texts)) + ["tool-call"] * len(calls)


def _unique(call_id: str, seen: set[str]) -> str:
    number, found = 1, call_id
    while found in seen:
        number += 1
        found = f"{call_id}-{number}"
    seen.add(found)
    return found


def _without_none(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value is not None}

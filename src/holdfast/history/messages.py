"""Chat messages inside a state, recognised by their shape: who speaks, what is said, which tools are called."""

from __future__ import annotations

import json
from typing import Any

from holdfast.history.preview import columns, escape, fit, preview, quote_within
from holdfast.history.resemblance import named_parts

_TYPES = {
    "user_message": "user",
    "assistant_message": "assistant",
    "system_message": "system",
    "tool_result": "tool result",
}
_TOOL_ROLES = ("tool", "function")


def message_text(value: Any, width: int) -> str | None:
    """`user: "book a table"` or `assistant calls search(q="…")`, or None for what is no message."""
    named = named_parts(value)
    if named is None or (speaker := _speaker(named)) is None:
        return None
    calls = [text for call in _calls(named) if (text := _call_text(call, 60))]
    said = _said(named.get("content"))
    if not calls:
        return fit(f"{speaker}: {preview(said, max(width - columns(speaker) - 2, 16))}", width)
    called = f"calls {', '.join(calls)}"
    if isinstance(said, str) and said.strip():
        room = max(width - columns(f"{speaker}:  {called}"), 24)
        speaker = f"{speaker}: {quote_within(said, room)}"
    return fit(f"{speaker} {called}", width)


def _speaker(named: dict[str, Any]) -> str | None:
    role, type_ = named.get("role"), named.get("type")
    if isinstance(role, str) and ("content" in named or "tool_calls" in named or "toolCalls" in named):
        name = named.get("name")
        label = f"{role} {name}" if role in _TOOL_ROLES and isinstance(name, str) else role
    elif isinstance(type_, str) and type_ in _TYPES and ("content" in named or "toolCalls" in named):
        label = _TYPES[type_]
    else:
        return None
    failed = named.get("isError") is True or named.get("is_error") is True
    return fit(escape(label), 32) + (" (error)" if failed else "")


def _said(content: Any) -> Any:
    """The text of a content that may be a list of parts; other parts by their type."""
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return content
    shown = [part for part in content if part["type"] not in ("tool_use", "tool_call")]
    return " ".join(str(part["text"]) if isinstance(part.get("text"), str) else f"[{part['type']}]" for part in shown)


def _calls(named: dict[str, Any]) -> list[Any]:
    listed = named.get("toolCalls") or named.get("tool_calls")
    calls = list(listed) if isinstance(listed, (list, tuple)) else []
    content = named.get("content")
    if isinstance(content, list):
        calls += [part for part in content if isinstance(part, dict) and part.get("type") in ("tool_use", "tool_call")]
    return calls


def _call_text(call: Any, width: int) -> str | None:
    named = named_parts(call) or {}
    function = named_parts(named.get("function")) or named
    name = function.get("name")
    if not isinstance(name, str):
        return None
    name = fit(escape(name), 32)
    arguments: Any = next((function[key] for key in ("arguments", "args", "input") if key in function), {})
    return fit(f"{name}({_arguments_text(arguments, width - len(name) - 2)})", width, end="…)")


def _arguments_text(arguments: Any, width: int) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return preview(arguments, width)
    if not isinstance(arguments, dict):
        return preview(arguments, width)
    shown = list(arguments.items())[:8]
    texts = [f"{fit(escape(str(key)), 20)}={preview(value, max(width - 8, 12))}" for key, value in shown]
    more = [f"… {len(arguments) - len(shown)} more"] if len(arguments) > len(shown) else []
    return ", ".join(texts + more)

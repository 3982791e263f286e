"""Recorded runs: what was written down of what agents did, as events, line by line or from the records of a history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast.drift.prints import text_of
from holdfast.drift.protocol import Event
from holdfast.errors import InvalidImport

_FIELDS: Final = {
    "arguments": ("arguments", "args"),
    "outcome": ("outcome", "obs"),
    "duration_seconds": ("duration_seconds", "dur"),
    "at": ("at", "ts"),
}
"""The fields of an event with the names they may have, the best one first."""


@dataclass(kw_only=True)
class RecordedRun:
    """The events of one run, and what is known of it."""

    name: str
    events: list[Event] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)  # one for each event
    success: bool | None = None


def runs_in(lines: Iterable[str | bytes]) -> list[RecordedRun]:
    """The runs in JSON lines, in the order in which they begin. A line that is no event is `InvalidImport`.

    `{"kind": "run", "run": …, "success": …}` tells of a run; an object with an `action` is an event of its `run`; an
    object with a `type` is a record as `holdfast export` writes it, and its tool calls are the events.
    """
    runs: dict[str, RecordedRun] = {}
    calls: dict[tuple[str, Any], Mapping[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
            name = str(plain.get("run") or "")
            run = runs.setdefault(name, RecordedRun(name=name))
            if plain.get("kind") == "run":
                run.success = plain.get("success")
            elif "action" in plain:
                run.events.append(event_in(plain))
                run.labels.append(plain.get("label"))
            else:
                run.events += _events_of(plain, calls)
                run.labels += [None] * (len(run.events) - len(run.labels))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidImport(
                f"Line {number} is no event: {error!r}",
                line=number,
                hint="A line is a JSON object with an `action`, or a record of `holdfast export`.",
            ) from error
    return list(runs.values())


def event_in(plain: Mapping[str, Any]) -> Event:
    """The event that an object tells of. What it failed with is `error` if that is a text, else the outcome."""
    given: dict[str, Any] = {}
    for name, keys in _FIELDS.items():
        given[name] = next((plain[key] for key in keys if plain.get(key) is not None), None)
    outcome, error = given["outcome"], plain.get("error") or None
    if error is True:
        outcome, error = None, text_of(outcome)
    return Event(
        action=str(plain["action"]),
        arguments=_arguments(given["arguments"], plain.get("args_sha")),
        outcome=outcome,
        error=error,
        duration_seconds=None if given["duration_seconds"] is None else float(given["duration_seconds"]),
        progress=None if plain.get("progress") is None else float(plain["progress"]),
        at=_seconds(given["at"]),
    )


def _arguments(arguments: Any, sha: Any) -> Any:
    """What the arguments were, or, where their text was cut, what is left of it with the hash of the whole."""
    if not isinstance(arguments, str) or not sha:
        return arguments
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return {"text": arguments, "hash": sha}
    return arguments


def _seconds(at: Any) -> float | None:
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else None if at is None else float(at)


def _events_of(record: Mapping[str, Any], calls: dict[tuple[str, Any], Mapping[str, Any]]) -> list[Event]:
    """The event that a record of a history completes: a call is one when its result is there."""
    kind, at = record["type"], _seconds(record.get("at"))
    if kind == "assistant_message":
        for call in record["toolCalls"]:
            calls[call["id"], None] = {"action": call["name"], "arguments": call["arguments"], "at": at}
    elif kind == "rlm_tool_call":
        key = (record["toolCallId"], record["callId"])
        calls[key] = {"action": record["toolName"], "arguments": record["toolArgs"], "at": at}
    elif kind == "tool_result":
        return _completed(calls.pop((record["toolCallId"], None), None), record["content"], record["isError"], at)
    elif kind == "rlm_tool_result":
        call = calls.pop((record["toolCallId"], record["callId"]), None)
        return _completed(call, record["toolResult"], record["toolIsError"], at)
    return []


def _completed(call: Mapping[str, Any] | None, outcome: Any, failed: bool, at: float | None) -> list[Event]:  # noqa: FBT001
    if call is None:
        return []
    began = call["at"]
    seconds = None if at is None or began is None else max(0.0, at - began)
    return [event_in({**call, "outcome": outcome, "error": failed, "duration_seconds": seconds, "at": at})]

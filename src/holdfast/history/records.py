"""The records of a history: one tagged union, immutable, with the names they have on the wire."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, ClassVar, Self

from holdfast.errors import InvalidImport


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One fact in an agent's history. `seq` and `at` are the store's to give: 0 and None until then."""

    type: ClassVar[str]
    number: ClassVar[int]  # what is stored instead of the type; never reused
    internal: ClassVar[bool] = False  # skipped when a model's context is rebuilt

    seq: int = 0
    at: datetime | None = None
    session: str | None = None
    feed: int | None = None
    batch: int | None = None
    attempt: int | None = None
    forked_from: dict[str, Any] | None = None
    os_answers: list[Any] | None = None
    redacted: list[Any] | None = None  # paths of what was taken out before this was stored

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserMessage(Record):
    """What a person (or, with an origin, the system) said to the agent."""

    type = "user_message"
    number = 1
    content: Any
    origin: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AssistantMessage(Record):
    """What the model answered, with the tool calls it asks for."""

    type = "assistant_message"
    number = 2
    content: Any
    tool_calls: list[dict[str, Any]]
    model: str | None = None  # that answered
    usage: dict[str, Any] | None = None  # of this one request: its tokens
    details: dict[str, Any] | None = None  # what its provider wants to be given back with it: reasoning, signatures


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult(Record):
    """The outcome of a tool call of an assistant message."""

    type = "tool_result"
    number = 3
    tool_call_id: str
    content: Any
    is_error: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall(Record):
    """A tool call of an assistant message is about to be made; written before the call. `attempt` counts from 1."""

    type = "tool_call"
    number = 20
    internal = True
    tool_call_id: str
    tool_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolApproval(Record):
    """A person is asked whether a tool call may be made, or has decided: "asked", "approved" or "denied"."""

    type = "tool_approval"
    number = 21
    internal = True
    tool_call_id: str
    decision: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RlmStart(Record):
    """A run_python execution is about to begin."""

    type = "rlm_start"
    number = 4
    internal = True
    tool_call_id: str
    code: str
    preamble: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RlmToolCall(Record):
    """A run is about to call a tool; written before the call."""

    type = "rlm_tool_call"
    number = 5
    internal = True
    tool_call_id: str
    call_id: int | str
    snapshot: bytes | None
    print_output: str  # since the call before; cumulative on the wire
    tool_call_count: int
    tool_name: str
    tool_args: Any
    snapshot_seq: int | None = None
    line: int | None = None  # of the program's text, from 1; None in code of an earlier program of the session


@dataclass(frozen=True, kw_only=True, slots=True)
class RlmToolResult(Record):
    """What a tool called by a run returned or raised."""

    type = "rlm_tool_result"
    number = 6
    internal = True
    tool_call_id: str
    call_id: int | str
    tool_name: str
    tool_result: Any
    tool_is_error: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RlmComplete(Record):
    """A run came to its end, well or badly."""

    type = "rlm_complete"
    number = 7
    internal = True
    tool_call_id: str
    output: Any
    print_output: str
    tool_call_count: int
    is_error: bool = False
    error: str | None = None
    snapshot: bytes | None = None  # between two runs of one session


@dataclass(frozen=True, kw_only=True, slots=True)
class RlmRestart(Record):
    """A run was taken up again after the process that ran it had died; `attempt` counts from 1.

    `released` says that the process had given it up in order, because it was cancelled or closed.
    """

    type = "rlm_restart"
    number = 12
    internal = True
    tool_call_id: str
    attempt: int
    reason: str | None = None
    released: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSaved(Record):
    """A checkpoint was saved here; `digest` binds its content."""

    type = "checkpoint"
    number = 8
    internal = True
    id: str
    kind: str
    parent: str | None
    digest: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointDeleted(Record):
    """A checkpoint's content was erased; its position stays."""

    type = "checkpoint_deleted"
    number = 9
    internal = True
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewind(Record):
    """The live path goes on from position `to`; what came after it no longer counts."""

    type = "rewind"
    number = 10
    internal = True
    to: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreEvent(Record):
    """Something that concerns the store itself (a writer's epoch, a key, an erased agent); never exported."""

    type = "store_event"
    number = 11
    internal = True
    event: str
    detail: Any = None


RECORD_TYPES: dict[str, type[Record]] = {
    cls.type: cls
    for cls in (
        UserMessage,
        AssistantMessage,
        ToolResult,
        ToolCall,
        ToolApproval,
        RlmStart,
        RlmToolCall,
        RlmToolResult,
        RlmComplete,
        RlmRestart,
        CheckpointSaved,
        CheckpointDeleted,
        Rewind,
        StoreEvent,
    )
}
RECORD_NUMBERS: dict[int, type[Record]] = {cls.number: cls for cls in RECORD_TYPES.values()}

_COMMON = ("session", "feed", "batch", "attempt", "forked_from", "os_answers", "redacted")


OWN_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field.name for field in fields(cls) if field.name not in {"seq", "at", *_COMMON})
    for name, cls in RECORD_TYPES.items()
}
"""The fields that are a record type's own, in their stored order: new ones go last, none is ever removed."""


def snapshot_of(record: Record) -> bytes | None:
    """The interpreter's bytes that this record comes with. Two types can have them."""
    return record.snapshot if isinstance(record, RlmToolCall | RlmComplete) else None


def to_row(record: Record) -> list[Any]:
    """The compact form that stores keep: `[number, common, own fields …]`, without seq and at."""
    common = {str(i): value for i, name in enumerate(_COMMON) if (value := getattr(record, name)) is not None}
    return [record.number, common or None, *(getattr(record, name) for name in OWN_FIELDS[record.type])]


def from_row(row: list[Any], *, seq: int, at: datetime) -> Record:
    """The record that `to_row` took apart; fields that later versions added keep their defaults."""
    cls = RECORD_NUMBERS.get(row[0])
    if cls is None:
        raise InvalidImport(
            f"Record {seq} has the type number {row[0]}, which this version does not know",
            seq=seq,
            hint="It was written by a newer Holdfast: upgrade.",
        )
    common = {_COMMON[int(i)]: value for i, value in (row[1] or {}).items()}
    return cls(seq=seq, at=at, **common, **dict(zip(OWN_FIELDS[cls.type], row[2:], strict=False)))

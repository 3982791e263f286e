"""The conversation: what the live path of an agent's history says was asked, answered, called and decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast.agents.model.result import ModelUsage
from holdfast.history.fold import live_path
from holdfast.history.records import (
    AssistantMessage,
    CheckpointSaved,
    Record,
    Rewind,
    ToolApproval,
    ToolCall,
    ToolResult,
    UserMessage,
)

SAYS = (UserMessage, AssistantMessage, ToolResult, ToolCall, ToolApproval)
"""The records that a conversation is made of."""

NEEDED = (*SAYS, Rewind, CheckpointSaved)
"""Those, and what is needed to follow the live path."""

ASKED: Final = "drift"
REFRESHED: Final = "drift_refresh"
STOPPED: Final = "drift_stop"
"""The origins of what the model is told when it drifts. With the second its context begins anew, and with the third
its work on a prompt ends."""

NOTES: Final = frozenset((ASKED, REFRESHED, STOPPED))


@dataclass(kw_only=True)
class Call:
    """A tool call that the model asked for, and what is recorded of it."""

    id: str
    name: str
    arguments: Any
    index: int  # in its message
    message_seq: int
    redacted: bool = False  # its arguments are not kept whole
    began_at: datetime | None = None
    attempts: int = 0  # how often it was begun
    decision: str | None = None
    result: ToolResult | None = None


@dataclass(kw_only=True, eq=False)
class Exchange:
    """A message of the model's, with the calls that it asks for in their order."""

    message: AssistantMessage
    calls: dict[str, Call] = field(default_factory=dict)

    @classmethod
    def of(cls, message: AssistantMessage) -> Exchange:
        exchange = cls(message=message)
        redacted = message.redacted or ()
        for index, call in enumerate(message.tool_calls):
            path = f"toolCalls[{index}].arguments"
            exchange.calls[call["id"]] = Call(
                id=call["id"], name=call["name"], arguments=call["arguments"], index=index, message_seq=message.seq,
                redacted=any(str(one).startswith(path) for one in redacted), began_at=message.at,
            )  # fmt: skip
        return exchange

    @property
    def open_calls(self) -> list[Call]:
        return [call for call in self.calls.values() if call.result is None]


@dataclass(kw_only=True, eq=False)
class Work:
    """What was done about the newest prompt, whether or not the model is still shown it."""

    steps: list[Call | Exchange | UserMessage] = field(default_factory=list)
    """Calls with their results, in the order of these; the model's messages; what it was told of drift."""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def answered(self, exchange: Exchange) -> None:
        used = exchange.message.usage or {}
        self.requests += 1
        self.input_tokens += used.get("input_tokens", 0)
        self.output_tokens += used.get("output_tokens", 0)
        self.steps.append(exchange)


class Conversation:
    """A fold over an agent's records. What the system appended after a recovery stands where it stands."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.entries: list[UserMessage | Exchange] = []
        self.work = Work()
        self.call_ids: set[str] = set()
        self._calls: dict[str, Call] = {}
        for record in live_path(records):
            self.add(record)

    def add(self, record: Record) -> None:
        """Takes in the next record of the live path."""
        if isinstance(record, UserMessage):
            self._told(record)
        elif isinstance(record, AssistantMessage):
            exchange = Exchange.of(record)
            self.entries.append(exchange)
            self.work.answered(exchange)
            self._calls |= exchange.calls
            self.call_ids |= exchange.calls.keys()
        elif isinstance(record, ToolResult | ToolCall | ToolApproval):
            call = self._calls.get(record.tool_call_id)
            if call is not None:
                self._tell(call, record)

    def _told(self, message: UserMessage) -> None:
        """A prompt, or what the system says. A refresh leaves of the newest prompt's work no more than its note."""
        if message.origin is None:
            self.work = Work()
        elif message.origin in NOTES:
            self.work.steps.append(message)
        if message.origin == REFRESHED:
            while self.entries and not _is_prompt(self.entries[-1]):
                self.entries.pop()
        self.entries.append(message)

    def _tell(self, call: Call, record: ToolResult | ToolCall | ToolApproval) -> None:
        if isinstance(record, ToolResult):
            if call.result is None:
                call.result = record
                self.work.steps.append(call)
            return
        call.began_at = record.at
        if isinstance(record, ToolCall):
            call.attempts = max(call.attempts, record.attempt or 1)
        else:
            call.decision = record.decision

    @property
    def last(self) -> Exchange | None:
        """The model's newest message."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Exchange)), None)

    @property
    def open_calls(self) -> list[Call]:
        """The calls of the newest message that have no result yet."""
        return [] if self.last is None else self.last.open_calls

    @property
    def wants_answer(self) -> bool:
        """Whether it is the model's turn."""
        if not self.entries or self.open_calls:
            return False
        newest = self.entries[-1]
        return newest.origin != STOPPED if isinstance(newest, UserMessage) else bool(newest.calls)

    @property
    def stopped_because(self) -> str | None:
        """Why the work on the newest prompt was stopped, if it was."""
        newest = self.entries[-1] if self.entries else None
        return str(newest.content) if isinstance(newest, UserMessage) and newest.origin == STOPPED else None

    @property
    def output(self) -> str:
        """The text of the newest answer."""
        content = "" if self.last is None else self.last.message.content
        return content if isinstance(content, str) else ""

    @property
    def usage(self) -> ModelUsage:
        """What was used since the newest prompt."""
        work = self.work
        return ModelUsage(requests=work.requests, input_tokens=work.input_tokens, output_tokens=work.output_tokens)

    def call(self, call_id: str) -> Call | None:
        """The call of this id, if it has no result yet."""
        return next((call for call in self.open_calls if call.id == call_id), None)

    def plain(self) -> list[dict[str, Any]]:
        """The messages as a checkpoint's state shows them; each call's result follows its message, in call order."""
        found: list[dict[str, Any]] = []
        for entry in self.entries:
            if isinstance(entry, UserMessage):
                found.append({"type": entry.type, "content": entry.content})
                continue
            message = entry.message
            found.append({"type": message.type, "content": message.content, "toolCalls": message.tool_calls})
            for call in entry.calls.values():
                if call.result is not None:
                    result = {"toolCallId": call.id, "content": call.result.content, "isError": call.result.is_error}
                    found.append({"type": call.result.type, **result})
        return found


def _is_prompt(entry: UserMessage | Exchange) -> bool:
    return isinstance(entry, UserMessage) and entry.origin is None

"""A fork: another run from the n-th call of one, with another answer; the original is only read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.durable.redaction import Redact
from holdfast.durable.runs import values
from holdfast.durable.runs.interpreter import SLEEPS
from holdfast.durable.runs.log import RunLog, answer_of
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.history.fold import live_path
from holdfast.history.records import Record, RlmStart, RlmToolCall, RlmToolResult

if TYPE_CHECKING:
    from holdfast.durable.runs.interpreter import Asked
    from holdfast.durable.runs.tool import Tool
    from holdfast.storage.protocol import RunPlace, Store


class NoRecordedAnswer(HoldfastError):
    """A fork that calls no real tools came to a call that the original never had an answer to."""


@dataclass(frozen=True, slots=True)
class Original:
    """The run that is forked."""

    place: RunPlace
    records: list[Record]  # its live path from its start on
    log: RunLog

    @classmethod
    async def read(cls, store: Store, place: RunPlace) -> Original:
        records = live_path(await store.read(place.agent_id, after=place.start - 1, snapshots=False))
        return cls(place, records, RunLog.of(records))

    def call(self, at: int) -> RlmToolCall:
        """Its n-th tool call, counted from 1."""
        calls = [call for call in self.log.order if call.tool_name not in SLEEPS]
        if not 1 <= at <= len(calls):
            raise InvalidArgument(
                f"Run {self.place.name} has {len(calls)} tool calls, there is none numbered {at}",
                agent_id=self.place.agent_id, tool_call_id=self.place.name,
            )  # fmt: skip
        return calls[at - 1]

    def shared(self, call: RlmToolCall) -> set[int]:
        """The calls whose results a fork from this call has from its beginning, this one's among them."""
        results = {int(one.call_id) for one in self._own_until_result(call) if isinstance(one, RlmToolResult)}
        return results | {int(call.call_id)}

    async def up_to(self, store: Store, call: RlmToolCall, at: int, *, live: bool) -> list[Record]:
        """What the fork's history begins with: the program, and all that was recorded before the call's result came.

        The newest snapshot before that is copied, so that the fork need not be replayed from its beginning.
        """
        own = list(self._own_until_result(call))
        keeping = next(
            (one for one in reversed(own) if isinstance(one, RlmToolCall) and one.snapshot is not None), None
        )
        copied: list[Record] = []
        for record in own:
            copy = record.evolve(seq=0, at=None, session=None)
            if isinstance(copy, RlmStart):
                copy = copy.evolve(forked_from=self._source(call, at, live=live))
            elif isinstance(copy, RlmToolCall):
                snapshot = await store.snapshot(self.place.agent_id, record.seq) if record is keeping else None
                copy = copy.evolve(snapshot=snapshot, snapshot_seq=None)
            copied.append(copy)
        return copied

    def _source(self, call: RlmToolCall, at: int, *, live: bool) -> dict[str, Any]:
        return {
            "agentId": self.place.agent_id, "toolCallId": self.place.name, "at": at, "seq": call.seq,
            "tools": "live" if live else "recorded",
        }  # fmt: skip

    def _own_until_result(self, call: RlmToolCall) -> Iterable[Record]:
        for record in self.records:
            if getattr(record, "tool_call_id", None) != self.place.name:
                continue
            if isinstance(record, RlmToolResult) and int(record.call_id) == int(call.call_id):
                return
            if isinstance(record, RlmStart | RlmToolCall | RlmToolResult):
                yield record


class StandIn:
    """Answers a fork's calls with what the original was told, and calls nothing but tools that only read."""

    def __init__(self, original: Original | None, at: int, fork: RunLog, redact: Redact) -> None:
        """`fork` is what its history says already: after a restart, answers that were used up are in it."""
        self._redact = redact
        self._left: dict[int, RlmToolCall] = {}
        if original is None:  # its agent was erased
            return
        shared = original.shared(original.call(at))
        calls = original.log.calls
        self._results = original.log.results
        self._left = {call_id: calls[call_id] for call_id in sorted(self._results) if call_id not in shared}
        for call_id in fork.results:
            if call_id not in shared and (record := fork.calls.get(call_id)) is not None:
                self._take(record.tool_name, dict(record.tool_args))

    async def __call__(self, tool: Tool, call: Asked) -> dict[str, Any] | None:
        arguments, _ = self._redact(call.arguments, "toolArgs")  # as the original's are recorded
        used = self._take(call.name, arguments)
        if used is not None:
            return answer_of(self._results[used])
        if tool.read_only:
            return None
        raise NoRecordedAnswer(
            f"The fork stopped before {call.name}(), to which the original has no recorded answer",
            hint='Fork with tools="live" to call the real tools, or declare the tool read_only.',
        )

    def _take(self, name: str, arguments: dict[str, Any]) -> int | None:
        """Uses up the first answer that is left to such a call; the call that had it."""
        for call_id, record in self._left.items():
            if record.tool_name == name and values.masked_equal(dict(record.tool_args), arguments):
                del self._left[call_id]
                return call_id
        return None

"""What a history says of one run: its calls, their results in the order in which they came, its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import Corrupt
from holdfast.history.records import (
    Record,
    RlmComplete,
    RlmRestart,
    RlmStart,
    RlmToolCall,
    RlmToolResult,
)


@dataclass(kw_only=True)
class RunLog:
    """A fold over the live path from a run's `rlm_start` on. It grows with what the run records."""

    start: RlmStart
    calls: dict[int, RlmToolCall] = field(default_factory=dict)  # the newest attempt of each
    results: dict[int, RlmToolResult] = field(default_factory=dict)  # in the order in which they were recorded
    order: list[RlmToolCall] = field(default_factory=list)  # every call's first record
    complete: RlmComplete | None = None
    snapshot_seq: int | None = None  # where the newest snapshot was kept
    last_call: int = -1  # the id of the newest call
    restarts: int = 0  # all of them
    fruitless: int = 0  # those since the last success of a tool
    parked: str | None = None  # why it waits for a person
    printed: str = ""  # up to the newest call
    _print_ends: dict[int, int] = field(default_factory=dict)  # how much of it had been printed at each call
    _places: dict[int, int] = field(default_factory=dict)  # of results, in their order

    @classmethod
    def of(cls, records: Iterable[Record]) -> RunLog:
        """`records` is a live path that begins with the run's `rlm_start`; other runs may lie between."""
        rest = iter(records)
        start = next(rest)
        if not isinstance(start, RlmStart):
            raise TypeError(f"a run begins with rlm_start, not {start.type}")
        log = cls(start=start)
        for record in rest:
            log.add(record)
            if log.complete is not None:
                break
        return log

    def add(self, record: Record) -> None:
        """Takes in a record; one that is not this run's is passed over."""
        if getattr(record, "tool_call_id", None) != self.start.tool_call_id:
            return
        _check(record)
        if isinstance(record, RlmToolCall):
            self._add_call(int(record.call_id), record)
        elif isinstance(record, RlmToolResult):
            self._places.setdefault(int(record.call_id), len(self._places))
            self.results.setdefault(int(record.call_id), record)
            if not record.tool_is_error:
                self.fruitless = 0
        elif isinstance(record, RlmRestart):
            self.parked = record.reason
            self.restarts = record.attempt
            self.fruitless += record.reason is None and not record.released
        elif isinstance(record, RlmComplete):
            self.complete = record

    def _add_call(self, call_id: int, record: RlmToolCall) -> None:
        if call_id not in self.calls:
            self.order.append(record)
            if record.print_output:
                self.printed += record.print_output
            self._print_ends[call_id] = len(self.printed)
        self.calls[call_id] = record
        self.last_call = max(self.last_call, call_id)
        if record.snapshot is not None:
            self.snapshot_seq = record.seq

    def printed_at(self, call_id: int) -> str:
        """What the program had printed when it made this call."""
        return self.printed[: self._print_ends[call_id]]

    def answers_after(self, seq: int) -> list[list[Any]]:
        """What the world answered after the call recorded at this position, in order."""
        records = [*self.order, *([self.complete] if self.complete is not None else [])]
        return [answer for record in records if record.seq > seq for answer in record.os_answers or ()]

    def moment_at(self, seq: int) -> float:
        """The latest that the program had seen of the clock when the call at this position was recorded."""
        answers = [answer for call in self.order if call.seq <= seq for answer in call.os_answers or ()]
        return max((moment for what, moments in answers if what == "clock" for moment in moments), default=0.0)

    def first_among(self, pending: Iterable[int]) -> RlmToolResult | None:
        """The result that was recorded first of those that are waited for: they are delivered in this order."""
        known = [(place, call_id) for call_id in pending if (place := self._places.get(call_id)) is not None]
        return self.results[min(known)[1]] if known else None

    def snapshots(self) -> list[RlmToolCall]:
        """The calls with which a snapshot was kept, the newest first."""
        return [call for call in reversed(self.order) if call.snapshot is not None]


def _check(record: Record) -> None:
    """Refuses what no runner writes: an imported history may hold anything that has the wire format's types."""
    ok = True
    if isinstance(record, RlmToolCall | RlmToolResult):
        ok = type(record.call_id) is int
    if isinstance(record, RlmToolCall):
        ok = ok and type(record.tool_args) is dict and all(type(name) is str for name in record.tool_args)
    if isinstance(record, RlmToolResult) and record.tool_is_error:
        ok = ok and type(record.tool_result) is dict
    if not ok or not all(map(_is_answer, record.os_answers or ())):
        raise Corrupt(f"Record {record.seq} is not what a runner writes", seq=record.seq)


def _is_answer(answer: Any) -> bool:
    if type(answer) not in (list, tuple) or len(answer) != 2 or type(answer[1]) not in (list, tuple):
        return False
    return answer[0] != "clock" or all(type(moment) in (int, float) for moment in answer[1])


def answer_of(result: RlmToolResult) -> dict[str, Any]:
    """A recorded result as it is delivered."""
    return {"error": result.tool_result} if result.tool_is_error else {"value": result.tool_result}

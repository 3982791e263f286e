"""A run, call by call, as its history has it: what each was asked, what it answered, what was printed between."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.cli.calls import is_sleep
from holdfast.history.records import (
    Record,
    RlmRestart,
    RlmToolCall,
    RlmToolResult,
)

if TYPE_CHECKING:
    from holdfast.cli.runfacts import RunFacts
    from holdfast.durable.runs.log import RunLog


@dataclass(kw_only=True)
class Call:
    """One call, however often it was tried."""

    first: RlmToolCall
    attempt: int = 1
    answer: RlmToolResult | None = None
    snapshot: bool = False

    @property
    def is_sleep(self) -> bool:
        return is_sleep(self.first.tool_name)

    def plain(self) -> dict[str, Any]:
        from holdfast.cli.output import moment
        from holdfast.history.jsonform import to_json

        first, answer = self.first, self.answer
        told: dict[str, Any] = {
            "number": None if self.is_sleep else first.tool_call_count,
            "call_id": first.call_id,
            "line": first.line,
            "tool": first.tool_name,
            "arguments": to_json(first.tool_args),
            "printed_before": first.print_output,
            "attempt": self.attempt,
            "snapshot": self.snapshot,
            "at": None if first.at is None else moment(first.at),
            "answered": answer is not None,
        }
        if answer is not None:
            told["error" if answer.tool_is_error else "result"] = to_json(answer.tool_result)
        return told


@dataclass(kw_only=True)
class Step:
    """A call begins, or is dealt with after a restart; with its answer, if that came before the next restart."""

    call: Call
    attempt: int = 1
    again: bool = False
    answered: bool = False


@dataclass(kw_only=True)
class Trace:
    """What happened, in order."""

    facts: RunFacts
    log: RunLog
    calls: list[Call] = field(default_factory=list)
    happened: list[Step | RlmRestart] = field(default_factory=list)

    @classmethod
    def of(cls, facts: RunFacts, records: Iterable[Record], log: RunLog) -> Trace:
        trace = cls(facts=facts, log=log)
        newest: dict[int, Step] = {}  # of each call, since the newest restart
        calls: dict[int, Call] = {}
        for record in records:
            if getattr(record, "tool_call_id", None) != facts.place.name:
                continue
            if isinstance(record, RlmToolCall):
                call = calls.get(int(record.call_id))
                if call is None:
                    call = calls[int(record.call_id)] = Call(first=record)
                    trace.calls.append(call)
                newest[int(record.call_id)] = trace._stepped(call, record)
            elif isinstance(record, RlmToolResult) and (call := calls.get(int(record.call_id))) is not None:
                call.answer = record
                step = newest.get(int(record.call_id)) or trace._stepped(call)
                step.answered = True
            elif isinstance(record, RlmRestart):
                newest.clear()
                trace.happened.append(record)
        return trace

    def _stepped(self, call: Call, record: RlmToolCall | None = None) -> Step:
        if record is not None:
            call.attempt = record.attempt or 1
            call.snapshot = call.snapshot or record.snapshot is not None
        step = Step(call=call, attempt=call.attempt, again=record is not call.first)
        self.happened.append(step)
        return step

    def marks(self) -> dict[int, str]:
        """Where it stands: `>` at the calls that have no answer yet, else at the newest; `!` where it failed."""
        complete = self.log.complete
        if complete is not None:
            lines = re.findall(r'"<python-input-\d+>", line (\d+)|^main\.py:(\d+)', complete.error or "", re.MULTILINE)
            return {int(lines[-1][0] or lines[-1][1]): "!"} if lines else {}
        waiting = [one.first.line for one in self.calls if one.answer is None]
        newest = waiting or [one.first.line for one in self.calls[-1:]]
        return {line: ">" for line in newest if line is not None}

    def printed_since(self) -> str:
        """What was printed after the newest call; known once the run has ended."""
        return "" if self.log.complete is None else self.log.complete.print_output[len(self.log.printed) :]

    def plain(self) -> dict[str, Any]:
        """The whole of it in JSON."""
        from holdfast.history.jsonform import to_json

        complete, start = self.log.complete, self.log.start
        return {
            **self.facts.plain(),
            "code": start.code,
            "lines": sorted(self.marks()),
            "calls": [one.plain() for one in self.calls],
            "restarts": self._restarts(),
            "parked": self.log.parked,
            "print_output": self.log.printed if complete is None else complete.print_output,
            "output": None if complete is None else to_json(complete.output),
            "is_error": complete is not None and complete.is_error,
            "error": None if complete is None else complete.error,
        }

    def _restarts(self) -> list[dict[str, Any]]:
        from holdfast.cli.output import moment

        found, calls = [], 0
        for one in self.happened:
            if isinstance(one, Step):
                calls += not one.again and not one.call.is_sleep
            else:
                at = None if one.at is None else moment(one.at)
                found.append({"attempt": one.attempt, "after_call": calls, "reason": one.reason, "at": at})
        return found

"""The caller: makes a program's calls, once each, and what a restart cut short as its tool wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from holdfast.durable.runs import failures, values
from holdfast.durable.runs.afterwards import after_restart, why_not_kept
from holdfast.durable.runs.currentcall import CurrentCall, calling
from holdfast.durable.runs.execution import Answer, Execution
from holdfast.durable.runs.interpreter import SLEEPS, Asked
from holdfast.durable.runs.observing import CallEvent, tell
from holdfast.durable.runs.outcomes import DidNotHappen, Happened


class Caller:
    """Makes the calls of one execution. Each of them is recorded when it comes here."""

    def __init__(self, execution: Execution, printed: Callable[[], str]) -> None:
        self.run = execution
        self.journal = execution.journal
        self.log = self.journal.log
        self._printed = printed

    async def made(self, call: Asked, *, attempt: int) -> Answer:
        """The call, carried out. Whatever it raises is an answer for the program."""
        self.tell("begun", call.call_id)
        if call.name in SLEEPS:
            until = self.log.calls[call.call_id].tool_args["until"]
            seconds = min(until - self.run.now(), call.arguments["seconds"])
            await asyncio.sleep(max(0.0, seconds))
            return {"value": None}
        tool = self.run.program.tools.get(call.name)
        if tool is None:
            return {"error": {"type": "NameError", "message": f"name '{call.name}' is not defined"}}
        if self.log.calls[call.call_id].tool_call_count > self.run.program.limits.tool_calls_max:
            return _error(RuntimeError(f"A program may make {self.run.program.limits.tool_calls_max} tool calls"))
        if self.run.stand_in is not None and (answer := await self.run.stand_in(tool, call)) is not None:
            return answer
        try:
            with calling(self._current(call, attempt)):
                return self._storable(call, values.to_program(await tool.call(call.arguments)))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return _error(RuntimeError(f"{call.name}() was cancelled by something that it called"))
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the program may catch it
            return self._storable_error(error)

    async def again(self, call: Asked) -> Answer:
        """A call that a dead process may or may not have made, as its tool wants it."""
        if call.name in SLEEPS or self.run.stand_in is not None:
            return await self.made(call, attempt=1)
        record = self.log.calls[call.call_id]
        attempt = record.attempt or 1
        outcome = await after_restart(self.run.program.tools.get(call.name), self._current(call, attempt))
        if isinstance(outcome, Happened):
            return self._storable(call, values.to_program(outcome.result))
        # Arguments that were redacted are gone with the process: nobody can make such a call again.
        is_gone = bool(record.redacted) and call.arguments == record.tool_args
        if is_gone or not isinstance(outcome, DidNotHappen):
            return {"error": failures.RESTARTED}
        again = record.evolve(seq=0, at=None, snapshot=None, attempt=attempt + 1, snapshot_seq=self.log.snapshot_seq,
                              os_answers=None, print_output="")  # fmt: skip
        await self.journal.commit(again)
        return await self.made(call, attempt=attempt + 1)

    def _storable(self, call: Asked, value: Any) -> Answer:
        """The result, if it can be kept. The call has happened either way, which the program is told."""
        reason = why_not_kept(call.name, value, self.run.program.limits.result_bytes_max)
        return {"value": value} if reason is None else _error(ValueError(reason))

    def _storable_error(self, error: Exception) -> Answer:
        """What a tool raised, cut to what a result may be: for more, no room was kept."""
        answer = _error(error)
        longest = self.run.program.limits.result_bytes_max // 4  # the most bytes of a character
        if len(answer["error"]["message"]) > longest:
            answer["error"]["message"] = answer["error"]["message"][:longest]
        return answer

    def _current(self, call: Asked, attempt: int) -> CurrentCall:
        return CurrentCall(
            agent_id=self.journal.agent_id, tool_call_id=self.run.run, call_id=call.call_id, attempt=attempt,
            epoch=self.journal.epoch or 0, tool_name=call.name, arguments=call.arguments,
            feed=self.log.start.seq,
        )  # fmt: skip

    def tell(self, what: Literal["begun", "answered"], call_id: int, answer: Answer | None = None) -> None:
        if self.run.on_call is None:
            return
        record, answer = self.log.calls[call_id], answer or {}
        tell(
            self.run.on_call,
            CallEvent(
                what=what, agent_id=self.journal.agent_id, tool_call_id=self.run.run, call_id=call_id,
                number=record.tool_call_count, attempt=record.attempt or 1, tool_name=record.tool_name,
                arguments=dict(record.tool_args), line=record.line, printed=self._printed(), result=answer.get("value"),
                error=answer.get("error"),
            ),
        )  # fmt: skip


def _error(error: BaseException) -> Answer:
    return {"error": failures.recorded(error)}

"""The ordinary tool calls of one operation: each made once, or what its tool wants after a restart."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.agents.model.conversation import Call
from holdfast.agents.model.journal import Journal
from holdfast.agents.model.schema import by_parameter
from holdfast.agents.model.toolbox import Toolbox
from holdfast.durable.runs import values
from holdfast.durable.runs.afterwards import after_restart, why_not_kept
from holdfast.durable.runs.currentcall import CurrentCall, calling
from holdfast.durable.runs.outcomes import DidNotHappen, Happened
from holdfast.durable.runs.plain import text
from holdfast.history.records import ToolCall, ToolResult

RESTARTED: Final = "RuntimeError: Process was restarted. Whether the call happened is not known."
_NOT_KEPT: Final = "Its arguments held secrets, which are not kept, so it can't be made after a restart."


class Calls:
    """Makes calls whose record is durable, and says what their results are."""

    def __init__(self, toolbox: Toolbox, journal: Journal, *, result_bytes_max: int) -> None:
        self._tools = toolbox.tools
        self._names = toolbox.names
        self._journal = journal
        self._result_bytes_max = result_bytes_max

    async def refusal(self, call: Call, arguments: Any) -> ToolResult | None:
        """What the model is told of a call that can't be made as it stands: it may correct it."""
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(call, f"There is no tool {call.name}. The tools are: {', '.join(self._names) or 'none'}")
        if call.redacted and arguments is call.arguments:
            return failed(call, _NOT_KEPT)
        try:
            bound = by_parameter(tool, arguments)
            await asyncio.to_thread(tool.prepare, bound)
        except (TypeError, ValueError) as error:
            return failed(call, _said(error))
        return None

    async def made(self, call: Call, arguments: Any, *, attempt: int = 1) -> ToolResult:
        """The call, carried out. Whatever it raises is a result for the model."""
        tool = self._tools.get(call.name)
        assert tool is not None  # noqa: S101 - what is unknown was refused
        try:
            with calling(self._current(call, arguments, attempt)):
                return self._storable(call, await tool.call(by_parameter(tool, arguments)))
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model may mend it
            return failed(call, _said(error))

    async def again(self, call: Call, arguments: Any) -> ToolResult:
        """A call that a dead process may or may not have made, as its tool wants it."""
        outcome = await after_restart(self._tools.get(call.name), self._current(call, arguments, call.attempts))
        if isinstance(outcome, Happened):
            return self._storable(call, outcome.result)
        if not isinstance(outcome, DidNotHappen):
            return failed(call, RESTARTED)
        if call.redacted and arguments is call.arguments:
            return failed(call, f"{RESTARTED} {_NOT_KEPT}")
        attempt = call.attempts + 1
        await self._journal.commit(ToolCall(tool_call_id=call.id, tool_name=call.name, attempt=attempt))
        return await self.made(call, arguments, attempt=attempt)

    def _current(self, call: Call, arguments: Any, attempt: int) -> CurrentCall:
        return CurrentCall(
            agent_id=self._journal.agent_id, tool_call_id=call.id, call_id=call.index, attempt=attempt,
            epoch=self._journal.epoch or 0, tool_name=call.name,
            arguments=arguments if isinstance(arguments, dict) else {}, feed=call.message_seq,
        )  # fmt: skip

    def _storable(self, call: Call, result: Any) -> ToolResult:
        """The result, if it can be kept. The call has happened either way, which the model is told."""
        value = values.to_program(result)
        reason = why_not_kept(call.name, value, self._result_bytes_max)
        return ToolResult(tool_call_id=call.id, content=value) if reason is None else failed(call, reason)


def failed(call: Call, told: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, content=text(told), is_error=True)


def _said(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ must not hide that the tool failed
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name

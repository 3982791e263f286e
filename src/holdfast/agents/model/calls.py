"""The ordinary tool calls of one operation: each made once, or what its tool wants after a restart."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from holdfast.agents.model.conversation import Call
from holdfast.agents.model.journal import Journal
from holdfast.agents.model.schema import by_parameter
from holdfast.agents.model.toolbox import Toolbox
from holdfast.durable.runs import values
from holdfast.durable.runs.currentcall import CurrentCall, calling
from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Outcome, Unknown
from holdfast.durable.runs.plain import text
from holdfast.durable.runs.tool import Tool
from holdfast.errors import Unstorable
from holdfast.history import codec
from holdfast.history.records import ToolCall, ToolResult

log = logging.getLogger("holdfast")

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
        tool = self._tools.get(call.name)
        choice = "error" if tool is None else tool.on_restart
        if tool is not None and choice == "reconcile":
            outcome = await self._reconciled(tool, call, arguments)
            if isinstance(outcome, Happened):
                return self._storable(call, outcome.result)
            choice = "retry" if isinstance(outcome, DidNotHappen) else "error"
        if choice == "retry" and call.redacted and arguments is call.arguments:
            return failed(call, f"{RESTARTED} {_NOT_KEPT}")
        if choice != "retry":
            return failed(call, RESTARTED)
        attempt = call.attempts + 1
        await self._journal.commit(ToolCall(tool_call_id=call.id, tool_name=call.name, attempt=attempt))
        return await self.made(call, arguments, attempt=attempt)

    async def _reconciled(self, tool: Tool, call: Call, arguments: Any) -> Outcome:
        """What the tool's owner says about the call. An answer that fails says nothing."""
        current = self._current(call, arguments, call.attempts)
        try:
            with calling(current):
                return await tool.ask(current)
        except Exception as error:  # noqa: BLE001 - whatever it raises, it is not known whether the call happened
            log.warning("Whether %s of agent %s happened is unknown: %s", call.name, self._journal.agent_id, error)
            return Unknown()

    def _current(self, call: Call, arguments: Any, attempt: int) -> CurrentCall:
        return CurrentCall(
            agent_id=self._journal.agent_id, tool_call_id=call.id, call_id=call.index, attempt=attempt,
            epoch=self._journal.epoch or 0, tool_name=call.name,
            arguments=arguments if isinstance(arguments, dict) else {}, feed=call.message_seq,
        )  # fmt: skip

    def _storable(self, call: Call, result: Any) -> ToolResult:
        """The result, if it can be kept. The call has happened either way, which the model is told."""
        value, most = values.to_program(result), self._result_bytes_max
        try:
            size = len(codec.encode(value, path="result"))
        except Unstorable as error:
            return failed(call, f"{call.name}() was called; its result can't be kept: {error.message}")
        if size > most:
            return failed(call, f"{call.name}() was called; its result of {size:,} bytes is over {most:,}")
        return ToolResult(tool_call_id=call.id, content=value)


def failed(call: Call, told: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, content=text(told), is_error=True)


def _said(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ must not hide that the tool failed
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name

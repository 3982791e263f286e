"""What the model can call: the agent's tools, and `run_python` for programs that call them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.model.result import PendingCall
from holdfast.agents.model.schema import schema_of
from holdfast.durable.calls import call
from holdfast.durable.runs import offer
from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.tool import Tool, Tools
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestParameters

    from holdfast.durable.runs.runner import PythonRunner

log = logging.getLogger("holdfast")

RUN_PYTHON: Final = offer.NAME

NeedsApproval = bool | Collection[str] | Callable[[PendingCall], Any]
"""Which tool calls a person must approve: all, those of the tools named, or those of which a function says so."""

_NO_PROGRAM: Final = "{}() needs a person's approval: call it as a tool of its own, not in a program"


class Toolbox:
    """The tools of an agent, and who must be asked about them."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]], needs_approval: NeedsApproval) -> None:
        self.tools = Tools.of(tools)
        self.runner: PythonRunner | None = None
        self._parameters: ModelRequestParameters | None = None
        self._needs_approval = needs_approval
        if not isinstance(needs_approval, bool) and not callable(needs_approval):
            if isinstance(needs_approval, str):
                raise InvalidArgument(f"needs_approval={needs_approval!r} is one text", hint="Give a set of names.")
            unknown = sorted(name for name in needs_approval if name not in self.tools and name != RUN_PYTHON)
            if unknown:
                raise InvalidArgument(f"needs_approval names {', '.join(unknown)}, and there is no such tool")

    def with_runner(self, runner: PythonRunner) -> None:
        """Offers run_python as well."""
        if RUN_PYTHON in self.tools:
            raise InvalidArgument(
                f"A tool has the name {RUN_PYTHON}, which the agent offers itself", hint="Pass run_python=False."
            )
        self.runner = runner

    @property
    def names(self) -> list[str]:
        """What the model can call."""
        return [*(tool.name for tool in self.tools), *([] if self.runner is None else [RUN_PYTHON])]

    def of_programs(self) -> list[Tool]:
        """The tools that a program can call. What a person must approve can't be called behind their back."""
        rule = self._needs_approval
        if callable(rule):
            return [_Guarded(tool, self) for tool in self.tools]
        if isinstance(rule, bool) or RUN_PYTHON in rule:
            return list(self.tools)  # where one is asked about programs, their calls are part of the question
        return [tool for tool in self.tools if tool.name not in rule]

    def parameters(self, instructions: str | None) -> ModelRequestParameters:
        """The tools as pydantic-ai's models are told of them."""
        if self._parameters is not None:
            return self._parameters
        from pydantic_ai.messages import InstructionPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        defined = [
            ToolDefinition(name=tool.name, description=tool.description or None, parameters_json_schema=schema_of(tool))
            for tool in self.tools
        ]
        if self.runner is not None:
            python = self.runner.tool
            defined.append(
                ToolDefinition(name=python.name, description=python.description, parameters_json_schema=python.schema)
            )
        parts = None if instructions is None else [InstructionPart(content=instructions)]
        self._parameters = ModelRequestParameters(function_tools=defined, instruction_parts=parts)
        return self._parameters

    async def asks_about(self, pending: PendingCall) -> bool:
        """Whether a person must approve this call. A rule that fails has not said that nobody need be asked."""
        rule = self._needs_approval
        if isinstance(rule, bool):
            return rule
        if not callable(rule):
            return pending.tool_name in rule
        try:
            return bool(await call(rule, pending))
        except Exception:
            log.exception("Whether %s needs approval could not be found out, so it does", pending.tool_name)
            return True


class _Guarded(Tool):
    """A tool as programs call it: a call that a person must approve is refused."""

    def __init__(self, tool: Tool, box: Toolbox) -> None:
        super().__init__(
            tool.function, name=tool.name, on_restart=tool.on_restart, reconcile=tool.reconcile,
            read_only=tool.read_only, timeout_seconds=tool.timeout_seconds, description=tool.description,
        )  # fmt: skip
        self._box = box

    async def call(self, arguments: dict[str, Any]) -> Any:
        inner = current_call()
        pending = PendingCall(call_id=f"{inner.tool_call_id}/{inner.call_id}", tool_name=self.name,
                              arguments=arguments, agent_id=inner.agent_id)  # fmt: skip
        if await self._box.asks_about(pending):
            raise PermissionError(_NO_PROGRAM.format(self.name))
        return await super().call(arguments)

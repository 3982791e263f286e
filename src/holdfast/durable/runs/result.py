"""What became of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from holdfast.history.records import RlmComplete

Status = Literal["complete", "parked", "left", "elsewhere"]
"""`complete`: it came to its end, well or badly. `parked`: it waits for a person. `left`: it waits for a host with its
tools. `elsewhere`: a live process runs it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The outcome of a run. `output` is the value of its last expression, `print_output` all that it printed."""

    agent_id: str
    tool_call_id: str
    output: Any = None
    print_output: str = ""
    tool_call_count: int = 0
    is_error: bool = False
    error: str | None = None
    status: Status = "complete"
    recovered: bool = False  # by this call, after the process that ran it had died

    @classmethod
    def of(cls, agent_id: str, complete: RlmComplete, *, recovered: bool = False) -> Self:
        return cls(
            agent_id=agent_id,
            tool_call_id=complete.tool_call_id,
            output=complete.output,
            print_output=complete.print_output,
            tool_call_count=complete.tool_call_count,
            is_error=complete.is_error,
            error=complete.error,
            recovered=recovered,
        )

    @property
    def content(self) -> str:
        """The result as text, as a model is shown it."""
        parts = [self.print_output.rstrip("\n")] if self.print_output.strip() else []
        if self.is_error:
            parts.append(self.error or "It failed.")
        elif self.output is not None or not parts:
            parts.append(self.output if isinstance(self.output, str) else _shown(self.output))
        return "\n".join(parts)

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)


def _shown(output: Any) -> str:
    try:
        return repr(output)
    except ValueError as error:  # an int of more digits than Python writes out
        return f"a value that has no text: {error}"

"""What became of a prompt: the model's answer, or what the agent waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["complete", "waiting", "parked", "stopped"]
"""`complete`: the model has answered. `waiting`: a person must decide about tool calls. `parked`: a program can't go on
by itself, `reason` says why. `stopped`: it drifted, `reason` says how; the agent can be given a new prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingCall:
    """A tool call of the model's, as a person or a policy decides about it."""

    call_id: str
    tool_name: str
    arguments: Any  # a dict, or the text that the model wrote if that is no JSON object
    agent_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsage:
    """What requests to the model have used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelResult:
    """`output` is the text of the model's answer; `waiting` lists the calls that `approve` or `deny` decides about."""

    agent_id: str
    status: Status = "complete"
    output: str = ""
    waiting: tuple[PendingCall, ...] = ()
    reason: str | None = None
    usage: ModelUsage = ModelUsage()  # since the prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """A piece of an answer that is under way. It is provisional: only the whole message is recorded.

    A request that failed on its way is made again: the pieces of its second attempt begin anew.
    """

    text: str
    attempt: int = 1

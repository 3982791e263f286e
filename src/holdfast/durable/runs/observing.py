"""What somebody who watches runs is told: a call was begun, a call was answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

log = logging.getLogger("holdfast")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEvent:
    """`begun`: the call is recorded and its tool starts now. `answered`: its answer is known, `result` or `error`."""

    what: Literal["begun", "answered"]
    agent_id: str
    tool_call_id: str
    call_id: int
    number: int  # among the run's tool calls, from 1; a sleep has that of the call before it
    attempt: int
    tool_name: str
    arguments: dict[str, Any]
    line: int | None
    printed: str  # all that the program printed until now
    result: Any = None
    error: dict[str, str] | None = None


OnCall = Callable[[CallEvent], None]


def tell(observer: OnCall, event: CallEvent) -> None:
    """Calls the observer. What goes wrong in it is its own business, and never the run's."""
    try:
        observer(event)
    except Exception:
        log.exception("An observer of runs failed")

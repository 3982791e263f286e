"""What one execution of a run needs, whether it begins the run or goes on with it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.durable.redaction import Redact
from holdfast.durable.runs.interpreter import Asked, Program
from holdfast.durable.runs.journal import Journal
from holdfast.durable.runs.observing import OnCall
from holdfast.durable.runs.seats import Seats
from holdfast.durable.runs.tool import Tool
from holdfast.durable.runs.world import World

if TYPE_CHECKING:
    from holdfast.durable.runs.bases import Base

Answer = dict[str, Any]
"""What a call came to: `{"value": …}`, or `{"error": …}` with a type and a message."""


def nothing_taken_out(value: Any, _path: str) -> tuple[Any, list[str]]:
    return value, []


@dataclass(kw_only=True)
class Execution:
    """Everything that stays the same until the run's end, or until its process dies."""

    journal: Journal
    program: Program
    seats: Seats
    world: Callable[[list[list[Any]], float], World]
    redact: Redact = nothing_taken_out
    base: Base | None = None
    now: Callable[[], float] = time.time
    stand_in: Callable[[Tool, Asked], Awaitable[Answer | None]] | None = None  # a fork's recorded answers
    on_call: OnCall | None = None

    @property
    def run(self) -> str:
        return self.journal.log.start.tool_call_id

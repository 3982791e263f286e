"""The context of a step: what an agent is told about the attempt that it makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StepContext:
    """Who asks, for which step, and for the how-manieth time."""

    workflow: str
    run_id: str
    step: str
    user_id: str
    attempt: int  # 1, 2, 3 …: how often the step was begun
    interrupted: bool  # an earlier attempt was cut off, and nobody knows how far it came
    idempotency_key: str
    """The same for every attempt of this step in this run: give it to services that do things only once for a key."""

"""How much one run of an agent may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelLimits:
    """Counted from the newest prompt on, over all processes that answer it.

    `attempts_max` is how often one request is made when its provider fails in a way that may pass, with
    `wait_seconds` before the second attempt, twice as long before each further one, or as long as the provider asks
    for; never longer than `wait_seconds_max`.
    """

    requests_max: int = 50
    tokens_max: int | None = None  # of the model's input and output together
    attempts_max: int = 3
    wait_seconds: float = 1.0
    wait_seconds_max: float = 60.0
    result_bytes_max: int = 1 << 20  # of one tool's result

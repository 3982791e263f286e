"""`Ended`: why a loop ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Why a loop ended: `why` is "stopped", "signal" (`detail` names it) or "drift" (`detail` is the reason)."""

    why: str
    detail: str = ""
    checkpoint_id: str | None = None  # the final checkpoint

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

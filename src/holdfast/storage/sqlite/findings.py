"""What an inspection of a store has found so far: damage by name, and what is whole."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import apsw

from holdfast.errors import HoldfastError
from holdfast.storage.protocol import Damage, Report

UNREADABLE = (TypeError, ValueError, LookupError, ArithmeticError, RecursionError, AttributeError)

SENSELESS = (apsw.Error, *UNREADABLE)
"""What reading damaged rows can end in, beside our own errors: SQLite's columns can hold any type."""


class Findings:
    """Gathers damage. One damaged thing must not hide another, so every step is guarded by itself."""

    def __init__(self) -> None:
        self.damaged: list[Damage] = []
        self.whole: list[str] = []
        self.records = 0
        self.checkpoints = 0

    def add(self, kind: str, id_: str, reason: str, *, agent_id: str | None = None, seq: int | None = None) -> None:
        self.damaged.append(Damage(kind=kind, id=id_, agent_id=agent_id, seq=seq, reason=reason))

    def guard(self, kind: str, id_: str, *, agent_id: str | None = None, seq: int | None = None) -> Guard:
        """Names this thing as damaged when looking at it fails, and lets the inspection go on."""
        return Guard(self, kind, id_, agent_id, seq)

    def report(self) -> Report:
        return Report(
            damaged=tuple(self.damaged), whole=tuple(self.whole), records=self.records, checkpoints=self.checkpoints
        )


@dataclass(frozen=True, slots=True)
class Guard:
    """One guarded step of an inspection."""

    findings: Findings
    kind: str
    id: str
    agent_id: str | None
    seq: int | None

    def __enter__(self) -> None:
        """Nothing is needed before."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, HoldfastError):
            reason = error.message
        elif isinstance(error, SENSELESS):
            reason = f"it can't be read: {error}"
        else:
            return False
        self.findings.add(self.kind, self.id, reason, agent_id=self.agent_id, seq=self.seq)
        return True

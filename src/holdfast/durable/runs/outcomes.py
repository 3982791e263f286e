"""What a reconcile function answers about a call whose result was lost: it happened, it did not, or nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Happened:
    """The call had its effect; this is the result that it would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The call had no effect, and never will: it may be made again."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It can't be found out: the program is told that the process was restarted."""


Outcome = Happened | DidNotHappen | Unknown

"""Problems of a workflow file: what is wrong, and the line and key where it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from holdfast.errors import InvalidWorkflow

_TOLD_MAX: Final = 9


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Problem:
    """One thing that must be mended before the workflow can run."""

    line: int
    column: int
    key: str  # steps[2].retry.max_attempts
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.message}" if self.key else f"line {self.line}: {self.message}"


def invalid(source: str, problems: Iterable[Problem], *, hint: str = "") -> InvalidWorkflow:
    """The error with all the problems of a file, in the order of its lines."""
    found = tuple(sorted(problems))
    first = f"{source}, {found[0]}"
    others = len(found) - 1
    more = f" (and {others} more)" if others else ""
    error = InvalidWorkflow(f"{first}{more}", path=source, problems=found, hint=hint)
    for problem in found[1:]:
        error.add_note(f"{source}, {problem}")
    return error


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` when one of the names is close to this one, else `; there is …` with them."""
    known = sorted(names)
    found = get_close_matches(name, known, n=1, cutoff=0.6)
    if found:
        return f"; did you mean {found[0]}?"
    more = f" and {len(known) - _TOLD_MAX:,} more" if len(known) > _TOLD_MAX else ""
    return f"; there is {', '.join(known[:_TOLD_MAX])}{more}" if known else ""

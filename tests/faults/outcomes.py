"""What became of many damages: each is asked about alike, and wrong answers are counted as everything else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.stores import outcome


class Outcomes:
    """How many damages were refused, named or without effect, and each that led to a wrong answer."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def add(self, damaged: Path, right: dict[str, Any], what: object) -> None:
        """Asks everything of the damaged store. A wrong answer is kept, for the end to say that there is none."""
        try:
            self.count[await outcome(damaged, right, what)] += 1
        except AssertionError as error:
            self.wrong.append(f"{what}: {error}"[:500])

    def add_all(self, others: Outcomes) -> None:
        self.count += others.count
        self.wrong += others.wrong

    @property
    def total(self) -> int:
        return self.count.total() + len(self.wrong)

    def figures(self) -> dict[str, int]:
        return {"wrong_answers": len(self.wrong), **self.count}

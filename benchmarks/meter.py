"""A tool that knows what calling it costs beside raw commits on the same disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks import heap
from benchmarks.disk import RawCommits
from benchmarks.numbers import Samples

EVERY: Final = 5  # calls
BODY: Final = b"x" * 320


class Meter:
    """Notes when it is called and when it returns, and makes a raw commit now and then."""

    def __init__(self, raw: RawCommits) -> None:
        self.raw = raw
        self.commits = Samples()
        self.also: Callable[[int], None] = lambda _: None  # what else is done now and then, in time that is not counted
        self._entered: list[float] = []
        self._left: list[float] = []

    def note(self, number: int) -> dict[str, Any]:
        """The tool."""
        self._entered.append(time.perf_counter())
        if len(self._entered) % EVERY == 0:
            with self.commits.timed():
                self.raw.commit(BODY)
            self.also(len(self._entered))
        self._left.append(time.perf_counter())
        return heap.told(number)

    async def awaited(self, number: int) -> dict[str, Any]:
        """The same, to be awaited."""
        return self.note(number)

    def calls(self, batch: int = 1) -> Samples:
        """What each call took outside the tool; of a batch each has its share. From the first to the last call."""
        inside = [left - entered for entered, left in zip(self._entered, self._left, strict=True)]
        places = range(0, len(inside) - batch, batch)
        return Samples([
            (self._entered[at + batch] - self._entered[at] - sum(inside[at : at + batch])) / batch for at in places
        ])  # fmt: skip


def mean(samples: Samples) -> float:
    return sum(samples.seconds) / len(samples)

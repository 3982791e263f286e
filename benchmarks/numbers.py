"""Numbers as they are measured and shown: samples, ratios, units."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Samples:
    """Durations in seconds."""

    def __init__(self, seconds: Sequence[float] = ()) -> None:
        self.seconds = list(seconds)

    @contextmanager
    def timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - started)

    def __len__(self) -> int:
        return len(self.seconds)

    def part(self, start: int, end: int | None = None) -> Samples:
        return Samples(self.seconds[start:end])

    def percentile(self, percent: float) -> float:
        """The smallest sample that so many percent of all are not above."""
        ordered = sorted(self.seconds)
        place = -(-len(ordered) * percent // 100) - 1
        return ordered[max(0, int(place))]

    @property
    def p50(self) -> float:
        return self.percentile(50)

    @property
    def spread(self) -> str:
        """The median, with the tenth and the ninetieth percentile."""
        return f"{ms(self.p50)} ({ms(self.percentile(10))} … {ms(self.percentile(90))})"


def ms(seconds: float) -> str:
    milliseconds = seconds * 1000
    return (
        f"{milliseconds:.3f}"
        if milliseconds < 1
        else f"{milliseconds:.2f}"
        if milliseconds < 100
        else f"{milliseconds:,.0f}"
    )


def mb(count: float) -> str:
    megabytes = count / 1e6
    return f"{megabytes:.3f}" if megabytes < 10 else f"{megabytes:,.1f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:,.0f} x"

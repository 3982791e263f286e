"""A first detector: it counts what repeats, what fails and what does not get on."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from holdfast.drift.protocol import Drift, Event
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.history.jsonform import to_json


class _Seen(NamedTuple):
    """What is remembered of an event: never its content, only whether it was the same."""

    action: str
    print: str
    failed: bool


class CountingDetector:
    """Counts, over the last `window` events: the same again and again, cycles, errors, and progress that stalls.

    - `identical`: so many events in a row with the same action, arguments, outcome and error.
    - `cycles`: a pattern of 2 to `cycle_length_max` different events, so many times in a row.
    - `error_rate`: this share of the last `error_events` events failed.
    - `stalled_events`: so many events that tell their progress, without any of them telling more than before.

    An option of None turns its count off.

    >>> detector = CountingDetector(identical=3)
    >>> drifts = [detector.observe(Event(action="read", arguments={"path": "a.txt"})) for _ in range(3)]
    >>> drifts[1], drifts[2].kind, drifts[2].reason
    (None, 'repetition', 'read was done 3 times in a row with the same outcome')
    """

    def __init__(
        self,
        *,
        window: int = 20,
        identical: int | None = 5,
        cycles: int | None = 4,
        cycle_length_max: int = 4,
        error_rate: float | None = 0.8,
        error_events: int = 10,
        stalled_events: int | None = 30,
    ) -> None:
        needed = max(identical or 1, (cycles or 0) * cycle_length_max, error_events if error_rate is not None else 1)
        if window < needed or (identical is not None and identical < 2) or (cycles is not None and cycles < 2):
            raise InvalidArgument(
                f"A window of {window} events can't show what these thresholds count",
                hint=f"It needs {needed} events at least, and what repeats does so twice at least.",
            )
        self.window = window
        self.identical = identical
        self.cycles = cycles
        self.cycle_length_max = cycle_length_max
        self.error_rate = error_rate
        self.error_events = error_events
        self.stalled_events = stalled_events
        self._seen: list[_Seen] = []
        self._best: float | None = None  # the most progress that any event told
        self._since_best = 0

    def observe(self, event: Event) -> Drift | None:
        seen = _Seen(event.action, fingerprint(event), event.error is not None)
        self._seen = [*self._seen, seen][-self.window :]
        if event.progress is not None:
            if self._best is None or event.progress > self._best:
                self._best, self._since_best = event.progress, 0
            else:
                self._since_best += 1
        found = [drift for check in _CHECKS if (drift := check(self)) is not None]
        return max(found, key=lambda drift: drift.score, default=None)

    def state(self) -> dict[str, Any]:
        # One text each, because a person may read the checkpoint.
        seen = [f"{seen.print} {'failed' if seen.failed else 'done'} {seen.action}" for seen in self._seen]
        return {"seen": seen, "best": self._best, "since_best": self._since_best}

    def restore(self, state: dict[str, Any]) -> None:
        parts = (text.split(" ", 2) for text in state.get("seen", []))
        self._seen = [_Seen(action, print_, how == "failed") for print_, how, action in parts][-self.window :]
        self._best = state.get("best")
        self._since_best = state.get("since_best", 0)

    def _repetition(self) -> Drift | None:
        if self.identical is None:
            return None
        last = self._seen[-1]
        count = _run([seen.print for seen in self._seen], 1)
        if count < self.identical:
            return None
        return Drift(
            kind="repetition",
            score=count / self.identical,
            reason=f"{last.action} was done {count} times in a row with the same outcome",
            evidence={"action": last.action, "count": count},
        )

    def _cycle(self) -> Drift | None:
        if self.cycles is None:
            return None
        prints = [seen.print for seen in self._seen]
        for length in range(2, self.cycle_length_max + 1):
            count = _run(prints, length)
            if count >= self.cycles and len(set(prints[-length:])) > 1:
                actions = [seen.action for seen in self._seen[-length:]]
                return Drift(
                    kind="cycle",
                    score=count / self.cycles,
                    reason=f"{', '.join(actions)} went round {count} times with the same outcomes",
                    evidence={"actions": actions, "count": count},
                )
        return None

    def _errors(self) -> Drift | None:
        last = self._seen[-self.error_events :]
        if self.error_rate is None or len(last) < self.error_events:
            return None
        failed = [seen.action for seen in last if seen.failed]
        rate = len(failed) / len(last)
        if not failed or rate < self.error_rate:
            return None
        return Drift(
            kind="errors",
            score=rate / self.error_rate if self.error_rate else 1.0,
            reason=f"{len(failed)} of the last {len(last)} actions failed",
            evidence={"actions": failed, "rate": rate},
        )

    def _stall(self) -> Drift | None:
        if self.stalled_events is None or self._since_best < self.stalled_events:
            return None
        return Drift(
            kind="stalled",
            score=self._since_best / self.stalled_events,
            reason=f"Progress has not gone beyond {self._best:g} for {self._since_best} events",
            evidence={"progress": self._best, "events": self._since_best},
        )


_CHECKS: Final[tuple[Callable[[CountingDetector], Drift | None], ...]] = (
    CountingDetector._repetition,  # noqa: SLF001 - its own
    CountingDetector._cycle,  # noqa: SLF001
    CountingDetector._errors,  # noqa: SLF001
    CountingDetector._stall,  # noqa: SLF001
)


def fingerprint(event: Event) -> str:
    """The same text for the same action, arguments, outcome and error, whatever the order of keys."""
    text = json.dumps([event.action, _plain(event.arguments), _plain(event.outcome), event.error], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    try:
        return to_json(value, path="")
    except HoldfastError:  # a live object: what it shows of itself must do
        return repr(value)


def _run(prints: list[str], length: int) -> int:
    """How many times the last `length` events happened in a row, themselves included."""
    pattern, count, end = prints[-length:], 1, len(prints) - length
    while end >= length and prints[end - length : end] == pattern:
        count, end = count + 1, end - length
    return count

"""The rules by which agents' programs notice loops today, written anew from their descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.drift.protocol import Drift, Event


class Rule:
    """Tells drift when its last events look like what it looks for; what is the same is compared exactly."""

    def __init__(self, matches: Callable[[list[tuple[str, str, str | None]]], bool]) -> None:
        self._matches = matches
        self._last: list[tuple[str, str, str | None]] = []

    def observe(self, event: Event) -> Drift | None:
        seen = (f"{event.action} {event.arguments}", f"{event.outcome} {event.error}", event.error)
        self._last = [*self._last, seen][-10:]
        return Drift(kind="rule", score=1.0, reason="the rule matched") if self._matches(self._last) else None

    def state(self) -> dict[str, Any]:
        return {"last": self._last}

    def restore(self, state: dict[str, Any]) -> None:
        self._last = list(state.get("last", []))


def identical_calls(count: int) -> Callable[[list], bool]:
    """So many calls in a row with the same arguments, whatever came of them."""
    return lambda last: len(last) >= count and len({call for call, _, _ in last[-count:]}) == 1


def same_outcome_4(last: list) -> bool:
    """The same call with the same outcome four times in a row."""
    return len(last) >= 4 and len({(call, outcome) for call, outcome, _ in last[-4:]}) == 1


def same_error_3(last: list) -> bool:
    """The same call failed three times in a row."""
    return len(last) >= 3 and len({call for call, _, _ in last[-3:]}) == 1 and all(error for _, _, error in last[-3:])


def to_and_fro_6(last: list) -> bool:
    """Two calls with their outcomes in turn, over six events."""
    pairs = [(call, outcome) for call, outcome, _ in last[-6:]]
    return len(pairs) == 6 and len(set(pairs[::2])) == len(set(pairs[1::2])) == 1 and pairs[0] != pairs[1]


def stuck(last: list) -> bool:
    """Any of the three before."""
    return same_outcome_4(last) or same_error_3(last) or to_and_fro_6(last)


def more_than_5_of_10(last: list) -> bool:
    """One call with one outcome more than five times among the last ten."""
    pairs = [(call, outcome) for call, outcome, _ in last[-10:]]
    return max(map(pairs.count, pairs)) > 5


RULES: dict[str, Callable[[list], bool]] = {
    "3 identical calls": identical_calls(3),
    "5 identical calls": identical_calls(5),
    "4 same outcomes, 3 same errors, ABABAB": stuck,
    "call and result > 5 of 10": more_than_5_of_10,
}

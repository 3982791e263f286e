"""Training: a combination of the signals, learned from runs with loops that were put into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from holdfast.drift.combination import Combination, train
from holdfast.drift.detector import DriftDetector
from holdfast.drift.injection import HEALTHY, LOOPS, Chance, Form, inject
from holdfast.drift.protocol import Event

KINDS: Final = ("repetition", "cycles", "retracing", "near_repeats", "no_ops", "stall", "error_rate")
"""The signals that are weighed; the others tell of other things than what agents repeat."""

_FALSE_SHARE: Final = 0.01  # of what is healthy, so much may be accused in training


def learned(runs: Sequence[Sequence[Event]], forms: Sequence[Form], chance: Chance, count: int = 600) -> Combination:
    """A combination that tells `count` loops, put into these runs, from the runs themselves and from healthy work.

    The threshold is the lowest, at least a half, that accuses one healthy example in a hundred at most.
    """
    examples: list[tuple[Mapping[str, float], bool]] = [(_highest(run), False) for run in runs if run]
    kinds = [*LOOPS, *HEALTHY]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        made = inject(chance.choice(runs), kind, chance.choice(forms), chance)
        if kind in LOOPS:
            examples.append((_last(made.events[: min(made.third + 3, made.ends)]), True))
        else:
            examples.append((_highest(made.events[: made.ends]), False))
    found = train(examples, KINDS)
    healthy = sorted(found.chance(levels) for levels, drifted in examples if not drifted)
    limit = healthy[int(len(healthy) * (1 - _FALSE_SHARE))]
    return replace(found, threshold=min(0.99, max(0.5, limit * 1.01)))


def _last(events: Sequence[Event]) -> dict[str, float]:
    detector = DriftDetector()
    for event in events:
        detector.observe(event)
    return detector.levels


def _highest(events: Sequence[Event]) -> dict[str, float]:
    """The levels where they were highest in all: what is hardest to leave alone."""
    detector, highest = DriftDetector(), dict.fromkeys(KINDS, 0.0)
    for event in events:
        detector.observe(event)
        if sum(detector.levels[kind] for kind in KINDS) > sum(highest[kind] for kind in KINDS):
            highest = detector.levels
    return highest

"""A combination: what the signals say together, weighed as was learned from runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, Final, Self

from holdfast.errors import InvalidArgument

_LEVEL_MAX: Final = 2.0  # what is twice over a threshold says no more by being higher
_FORM: Final = "holdfast drift combination 1"


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A logistic regression on the levels of some signals; `threshold` is the chance of drift from which it is told."""

    weights: Mapping[str, float]
    bias: float
    threshold: float = 0.5

    def chance(self, levels: Mapping[str, float]) -> float:
        return _logistic(self.bias + sum(self.weights[kind] * _held(levels.get(kind, 0.0)) for kind in self.weights))

    def judge(self, levels: Mapping[str, float]) -> tuple[str, float]:
        """The kind that weighs most, and the score: the chance as a multiple of the threshold."""
        parts = {kind: weight * _held(levels[kind]) for kind, weight in self.weights.items() if levels.get(kind)}
        kind = max(parts, key=parts.__getitem__, default="")
        return kind, self.chance(levels) / self.threshold if kind else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: what `holdfast drift train` writes."""
        return {"form": _FORM, "weights": dict(self.weights), "bias": self.bias, "threshold": self.threshold}

    @classmethod
    def from_dict(cls, plain: Any) -> Self:
        hint = "`holdfast drift train` writes one."
        if not isinstance(plain, Mapping) or plain.get("form") != _FORM:
            raise InvalidArgument("This is no combination of signals", hint=hint)
        try:
            weights = {str(kind): float(weight) for kind, weight in plain["weights"].items()}
            return cls(weights=weights, bias=float(plain["bias"]), threshold=float(plain["threshold"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(f"This combination of signals is incomplete: {error!r}", hint=hint) from error


def train(
    examples: Iterable[tuple[Mapping[str, float], bool]],
    kinds: Iterable[str],
    *,
    rounds: int = 400,
    rate: float = 0.5,
    decay: float = 1e-3,
) -> Combination:
    """Fits a combination to levels of which it is known whether the agent drifted; both answers weigh the same.

    No weight is below zero: more of a signal never speaks against drift.
    """
    kinds = list(kinds)
    rows = [([_held(levels.get(kind, 0.0)) for kind in kinds], drifted) for levels, drifted in examples]
    count = {answer: sum(drifted is answer for _, drifted in rows) for answer in (True, False)}
    if not all(count.values()):
        raise InvalidArgument("To learn what drift is takes runs with it and runs without it")
    weights, bias = [0.0] * len(kinds), 0.0
    for _ in range(rounds):
        slopes, slope = [0.0] * len(kinds), 0.0
        for values, drifted in rows:
            chance = _logistic(bias + sum(w * v for w, v in zip(weights, values, strict=True)))
            error = (chance - drifted) / (2 * count[drifted])
            slope += error
            slopes = [s + error * value for s, value in zip(slopes, values, strict=True)]
        bias -= rate * 10 * slope
        weights = [max(0.0, w - rate * 10 * (s + decay * w)) for w, s in zip(weights, slopes, strict=True)]
    return Combination(weights=dict(zip(kinds, weights, strict=True)), bias=bias)


def _held(level: float) -> float:
    return min(level, _LEVEL_MAX)


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-max(-40.0, min(40.0, value))))

"""A picture of the signals of drift over the events of runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from holdfast.drift.protocol import Drift

_RUNS_MAX = 24  # more would be too small to read
_SEEN_MIN = 0.2  # a signal that stays below says nothing


def draw(
    runs: Sequence[tuple[str, Sequence[dict[str, float]], Sequence[tuple[int, Drift]]]],
    path: Path,
) -> None:
    """One row for each run, those with alarms first: each signal's level, the line at 1 and the alarms."""
    try:
        figures = import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtra(
            "A plot needs matplotlib, which is not installed", hint="pip install 'holdfast[plot]'"
        ) from error
    shown = sorted(runs, key=lambda run: not run[2])[:_RUNS_MAX]
    figure = figures.Figure(figsize=(10, 2.2 * len(shown) + 0.6), layout="constrained")
    for axes, (name, levels, drifts) in zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown, strict=True):
        numbers = range(1, len(levels) + 1)
        for kind in levels[-1] if levels else ():
            values = [level[kind] for level in levels]
            if max(values) >= _SEEN_MIN:
                axes.plot(numbers, values, label=kind, linewidth=1.2)
        axes.axhline(1.0, color="black", linewidth=0.6, linestyle="--")
        for number, drift in drifts:
            axes.axvline(number, color="red", linewidth=0.8)
            axes.annotate(drift.kind, (number, 1.02), color="red", fontsize=7)
        axes.set_title(name, fontsize=8, loc="left")
        axes.set_ylabel("level", fontsize=7)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=6, loc="upper left")
    if shown:
        axes.set_xlabel("event", fontsize=8)
    figure.savefig(path, dpi=120)

"""A detector that speaks early, for claims about what is done when it does."""

from __future__ import annotations

from holdfast.drift.detector import SIGNALS, DriftDetector
from holdfast.drift.repetition import Repetition


class Strict(DriftDetector):
    """Looks for three in a row, and remembers what it was told."""

    def __init__(self):
        super().__init__(**{**dict.fromkeys(SIGNALS), "repetition": Repetition(times=3)})
        self.events = []

    def observe(self, event):
        self.events.append(event)
        return super().observe(event)

"""When a run takes a snapshot: as often as it is cheap, and otherwise when going without would cost more."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.2  # of the newest measurement
_REPLAY_PER_SNAPSHOT: Final = 4.0
_CALL_SECONDS: Final = 0.0002  # what delivering one recorded result costs in a replay, besides the program's own time


class SnapshotPolicy:
    """Decides for one run, from what its own snapshots and commits were measured to cost.

    The first call of a run always has one. So has every call while a snapshot costs less than a commit. Above that,
    one is taken when replaying what came since the last would take four times as long as taking it.
    """

    def __init__(self) -> None:
        # None: not measured yet. A run's first commit is its start, which has no snapshot.
        self._commit_seconds: float | None = None
        self._dump_seconds: float | None = None
        self._more_seconds: float | None = None  # of a commit with one: difference, MAC and pages are made on the way
        self._replay_seconds = 0.0

    def wants(self, turn_seconds: float) -> bool:
        """Whether a snapshot is due, now that the program has computed for so long since it was asked last."""
        self._replay_seconds += turn_seconds + _CALL_SECONDS
        if self._dump_seconds is None:
            return True
        cost = self._dump_seconds + (self._more_seconds or 0.0)
        return cost <= (self._commit_seconds or 0.0) or self._replay_seconds >= _REPLAY_PER_SNAPSHOT * cost

    def taken(self, seconds: float) -> None:
        """A snapshot was taken out of the sandbox."""
        self._dump_seconds = _blended(self._dump_seconds, seconds)
        self._replay_seconds = 0.0

    def committed(self, seconds: float, *, snapshot: bool) -> None:
        """A commit took so long, with a snapshot or without."""
        if snapshot:
            self._more_seconds = _blended(self._more_seconds, max(0.0, seconds - (self._commit_seconds or 0.0)))
        else:
            self._commit_seconds = _blended(self._commit_seconds, seconds)


def _blended(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _WEIGHT * (seconds - before)

"""When a run takes a snapshot: as often as it is cheap, and otherwise when going without would cost more."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.2  # of the newest measurement
_REPLAY_PER_SNAPSHOT: Final = 4.0
_IN_A_ROW: Final = 7
_DISKS_PART: Final = 0.5  # of what a commit is seen to take; the rest is our own way there and back
_MORE_SECONDS: Final = 0.001  # that a commit takes with a snapshot, as long as nothing was measured
_CALL_SECONDS: Final = 0.0002  # what delivering one recorded result costs in a replay, besides the program's own time


class SnapshotPolicy:
    """Decides for one run, from what its own snapshots and commits were measured to cost.

    The first call of a run always has one. After that, seven of eight calls have one while a snapshot costs less than
    the disk's part of a commit; the eighth tells what a commit costs without. Above that, one is taken when replaying
    what came since the last would take four times as long as taking it.
    """

    def __init__(self) -> None:
        # None: not measured yet.
        self._commit_seconds: float | None = None
        self._dump_seconds: float | None = None
        self._more_seconds: float | None = None  # of a commit with one: difference, MAC and pages are made on the way
        self._replay_seconds = 0.0
        self._in_a_row = 0

    def wants(self, turn_seconds: float) -> bool:
        """Whether a snapshot is due, now that the program has computed for so long since it was asked last."""
        self._replay_seconds += turn_seconds + _CALL_SECONDS
        if self._dump_seconds is None:
            return True
        if self._commit_seconds is None:  # the next call without one tells
            return self._replay_seconds >= _REPLAY_PER_SNAPSHOT * (self._dump_seconds + _MORE_SECONDS)
        cost = self._dump_seconds + (self._more_seconds or 0.0)
        if cost <= _DISKS_PART * self._commit_seconds:
            return self._in_a_row < _IN_A_ROW
        return self._replay_seconds >= _REPLAY_PER_SNAPSHOT * cost

    def taken(self, seconds: float) -> None:
        """A snapshot was taken out of the sandbox."""
        self._dump_seconds = _blended(self._dump_seconds, seconds)
        self._replay_seconds = 0.0
        self._in_a_row += 1

    def committed(self, seconds: float, *, snapshot: bool) -> None:
        """A commit took so long, with a snapshot or without."""
        if not snapshot:
            self._commit_seconds = _blended(self._commit_seconds, seconds)
            self._in_a_row = 0
        elif self._commit_seconds is not None:
            self._more_seconds = _blended(self._more_seconds, max(0.0, seconds - self._commit_seconds))


def _blended(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _WEIGHT * (seconds - before)

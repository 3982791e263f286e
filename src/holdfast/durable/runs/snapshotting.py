"""When a run takes a snapshot: as often as it is cheap, and otherwise when going without would cost more."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.2  # of the newest measurement
_REPLAY_PER_SNAPSHOT: Final = 4.0
_CALL_SECONDS: Final = 0.0002  # what delivering one recorded result costs in a replay, besides the program's own time
_COMMIT_SECONDS: Final = 0.0005  # until the first one was measured


class SnapshotPolicy:
    """Decides for one run, from what its own snapshots and commits were measured to cost.

    The first call of a run always has one. So has every call while a snapshot costs less than a commit. Above that,
    one is taken when replaying what came since the last would take four times as long as taking it.
    """

    def __init__(self) -> None:
        self._commit_seconds = _COMMIT_SECONDS
        self._snapshot_seconds: float | None = None  # None: none was taken yet
        self._replay_seconds = 0.0

    def wants(self, turn_seconds: float) -> bool:
        """Whether a snapshot is due, now that the program has computed for so long since it was asked last."""
        self._replay_seconds += turn_seconds + _CALL_SECONDS
        if self._snapshot_seconds is None or self._snapshot_seconds <= self._commit_seconds:
            return True
        return self._replay_seconds >= _REPLAY_PER_SNAPSHOT * self._snapshot_seconds

    def taken(self, dump_seconds: float, size: int) -> None:
        """A snapshot was taken; encoding its difference to an earlier one takes time by its size."""
        self._snapshot_seconds = _blended(self._snapshot_seconds, dump_seconds + size * _ENCODE_SECONDS)
        self._replay_seconds = 0.0

    def committed(self, seconds: float) -> None:
        """A commit without a snapshot took so long."""
        self._commit_seconds = _blended(self._commit_seconds, seconds)


_ENCODE_SECONDS: Final = 1e-9  # for each byte: zstd, level 1, with the base as prefix


def _blended(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _WEIGHT * (seconds - before)

"""Saves in pairs with raw commits: after every fifth save one raw commit, from the same thread on the same disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.disk import RawAppends, RawCommits
from benchmarks.numbers import Samples

EVERY = 5  # saves
_BODY = b"A raw commit writes this: five hundred bytes. " * 11


class Pairs:
    """The durations of saves, and of raw commits and raw synced appends between them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.saves, self.commits, self.appends = Samples(), Samples(), Samples()
        self._raw_commits = RawCommits(folder / "raw.db")
        self._raw_appends = RawAppends(folder / "raw.log")

    @contextmanager
    def save(self) -> Iterator[None]:
        """Times what is done inside."""
        with self.saves.timed():
            yield
        if len(self.saves) % EVERY == 0:
            with self.commits.timed():
                self._raw_commits.commit(_BODY[:500])
            with self.appends.timed():
                self._raw_appends.append(_BODY[:500])

    def ratio(self, start: int, end: int) -> float:
        """The median of these saves beside that of the raw commits between them."""
        return self.saves.part(start, end).p50 / self.commits.part(start // EVERY, end // EVERY).p50

    def close(self) -> None:
        self._raw_commits.close()
        self._raw_appends.close()

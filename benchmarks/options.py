"""How a run of the benchmarks was asked for, and the directories that they work in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line that benchmarks see."""

    directory: Path
    names: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()  # recorded runs, for drift
    quick: bool = False
    conversations: Path | None = None
    pictures: Path = Path()  # where pictures are put: beside the page, if one is written

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """An empty directory on the disk that is measured; gone afterwards."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def some(self, count: int, quickly: int) -> int:
        """How many of something: fewer when it is to be quick."""
        return quickly if self.quick else count


def say(text: str) -> None:
    """Progress, beside the results."""
    print(text, file=sys.stderr, flush=True)

"""A file that only takes up room: given back when the disk is full, so that garbage collection can still work."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

BALLAST_BYTES: Final = 4 << 20
"""Twice what the log usually holds: first that is written back, for which the database may have to grow as much."""


class Ballast:
    """Held while a writer has the store open; best effort, as it only helps where there was room for it."""

    def __init__(self, db_path: Path, size: int = BALLAST_BYTES) -> None:
        self.path = db_path.with_name(db_path.name + ".ballast")
        self.size = size

    def load(self) -> None:
        """Takes up the room, if there is that much."""
        if not self.size:
            return
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size < self.size:
                    fill(descriptor, self.size)
            except OSError:
                os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)

    def drop(self) -> bool:
        """Gives the room back; whether there was any to give."""
        try:
            size = self.path.stat().st_size
            self.path.unlink()
        except OSError:
            return False
        return size > 0


def fill(descriptor: int, size: int) -> None:
    """Makes the file take up this much of the disk. OSError, with less than that taken up, if there is no room."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    at = os.fstat(descriptor).st_size
    while at < size:  # a disk that fills up takes a part
        at += os.pwrite(descriptor, bytes(min(size - at, 1 << 20)), at)

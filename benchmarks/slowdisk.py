"""A disk whose syncs take longer: SQLite's own file system, with a pause before each sync."""
# ruff: noqa: N802 - the name is that of the interface

from __future__ import annotations

import time

import apsw

NAME = "slow-disk"


class _File(apsw.VFSFile):
    def __init__(self, disk: SlowDisk, name, flags) -> None:
        self._seconds = disk.seconds
        super().__init__("", name, flags)

    def xSync(self, flags) -> None:
        time.sleep(self._seconds)
        super().xSync(flags)


class SlowDisk(apsw.VFS):
    """Registered under `NAME` for as long as it lives."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(NAME, "")

    def xOpen(self, name, flags) -> _File:
        return _File(self, name, flags)

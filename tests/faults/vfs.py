"""A file system that fails when it is told to: SQLite's own, with a count of every write and sync."""
# ruff: noqa: N802 - the names are those of the interface

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import apsw

_numbers = count()


class FaultyFile(apsw.VFSFile):
    """A file whose reads, writes, truncations and syncs ask first whether they may succeed."""

    def __init__(self, vfs: FaultyVFS, name, flags):
        self._vfs = vfs
        super().__init__("", name, flags)

    def excepthook(self, *_):
        """As the file system's."""

    def xRead(self, amount, offset):
        self._vfs.ask("read")
        return super().xRead(amount, offset)

    def xWrite(self, data, offset):
        self._vfs.ask("write")
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self._vfs.ask("truncate")
        super().xTruncate(size)

    def xSync(self, flags):
        self._vfs.ask("sync")
        super().xSync(flags)


class FaultyVFS(apsw.VFS):
    """Fails the operation with the number `fail_at`, and with `stays` every later one, too. Only `kinds` count."""

    def __init__(
        self,
        error: Callable[[], apsw.Error] = lambda: apsw.IOError("a fault that was asked for"),
        *,
        kinds: tuple[str, ...] = ("write", "truncate", "sync"),
    ):
        self.name = f"faulty-{next(_numbers)}"
        self.error = error
        self.kinds = kinds
        self.asked = 0
        self.fail_at: int | None = None
        self.stays = False
        self.failed = 0
        super().__init__(self.name, "")

    def excepthook(self, *_):
        """SQLite passes over some failures, a checkpoint's for one: nobody is there to be told."""

    def xOpen(self, name, flags):
        return FaultyFile(self, name, flags)

    def ask(self, what: str) -> None:
        if what not in self.kinds:
            return
        self.asked += 1
        if self.fail_at is not None and (self.asked == self.fail_at or (self.stays and self.asked > self.fail_at)):
            self.failed += 1
            raise self.error()

    def break_after(self, operations: int, *, stays: bool = False) -> None:
        self.fail_at, self.stays = self.asked + operations, stays

    def mend(self) -> None:
        self.fail_at = None

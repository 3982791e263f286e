"""What SQLite's errors mean to the people who use a store."""

from __future__ import annotations

import apsw

from holdfast.errors import Corrupt, DiskFull, HoldfastError, Poisoned, ReadOnly, StorageFailed


def is_full(error: apsw.Error) -> bool:
    """Whether the disk has no room. While a file is opened it may be the log's index that finds none."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE


def translated(error: apsw.Error, path: str) -> HoldfastError:
    """The error of ours that says what happened and what to do."""
    what = f"{path}: {error}"
    if isinstance(error, apsw.FullError):
        return DiskFull(f"There is no room left for {what}", path=path)
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        return Poisoned(f"An I/O error happened on {what}; the last commit may or may not have landed", path=path)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.ConstraintError):
        return Corrupt(f"The database is damaged: {what}", path=path)
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError):
        return ReadOnly(f"The store can't be written: {what}", path=path)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StorageFailed(
            f"Another program keeps the database locked: {what}",
            path=path,
            hint="Close other programs that use the file.",
        )
    if isinstance(error, apsw.SQLError):
        return Corrupt(f"The tables are not as this version left them: {what}", path=path)
    return StorageFailed(f"SQLite failed: {what}", path=path)


POISONING = (apsw.IOError, apsw.CantOpenError, apsw.CorruptError, apsw.NotADBError)
"""After one of these the connection's view can't be trusted: close, reopen, read the head again."""

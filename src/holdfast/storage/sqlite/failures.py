"""What errors of SQLite and of the system mean to the people who use a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.errors import Corrupt, DiskFull, HoldfastError, Poisoned, ReadOnly, StorageFailed
from holdfast.storage.durably import NO_ROOM, NOT_ALLOWED


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


def of_system(error: OSError, path: Path | str) -> HoldfastError:
    """The same for the files that are written beside SQLite: keys, locks and notes."""
    where = error.filename or path
    if error.errno in NO_ROOM:
        return DiskFull(f"There is no room left for {where}", path=str(path))
    if error.errno in NOT_ALLOWED:
        return ReadOnly(f"{where} can't be used: {error.strerror}", path=str(path))
    return StorageFailed(
        f"{where} can't be used: {error.strerror or error}",
        path=str(path),
        hint="Check the disk and the folder, then try again: what was acknowledged is kept.",
    )


@contextmanager
def told(path: Path | str) -> Iterator[None]:
    """Raises an error of the system as ours."""
    try:
        yield
    except OSError as error:
        raise of_system(error, path) from error


POISONING = (apsw.IOError, apsw.CantOpenError, apsw.CorruptError, apsw.NotADBError)
"""After one of these the connection's view can't be trusted: close, reopen, read the head again."""

"""Files that are there whole or not at all: temporary file, fsync, rename, fsync of the folder; and locks on files."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
NOT_ALLOWED: Final = (errno.EACCES, errno.EROFS, errno.EPERM)


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replaces the file in one step; after a crash it holds the old bytes or the new ones."""
    temporary = _temporary(path, data, mode)
    try:
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, mode: int = 0o644) -> bool:
    """Makes the file; False (and nothing changed) when it is there already."""
    temporary = _temporary(path, data, mode)
    try:
        os.link(temporary, path)  # unlike rename, refuses to replace
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """The descriptor of this file, made if need be: for one at a time, of all threads and processes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _temporary(path: Path, data: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary

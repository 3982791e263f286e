"""Backups: a copy of a store as of one commit with its key, and putting one back in its place."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from holdfast.errors import Corrupt, DiskFull, InvalidArgument, StorageFailed, Unopenable
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.durably import sync_folder, write_whole
from holdfast.storage.sqlite import failures, lastcommit, lifetime, opening
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.keyring import check_keys, find_ring, incoming_path
from holdfast.storage.sqlite.locks import Presence, TurnLock
from holdfast.storage.sqlite.rows import Rows

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress
    from holdfast.storage.sqlite.reader import Reader
    from holdfast.storage.sqlite.session import Settings

_PAGES: Final = 512  # copied between two reports of progress
_BUSY_MILLISECONDS: Final = 1000


def backup(
    reader: Reader, settings: Settings, target: Path, progress: Progress | None = None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Copies the store as of one commit into one clean file, with its key file beside it. Returns what was made.

    `key_file` is None when the key came from an argument or from HOLDFAST_KEY (or is missing): then whoever restores
    the backup must have that key.
    """
    if target.exists() and os.path.samefile(target, settings.path):
        raise InvalidArgument(f"{target} is the store itself", hint="Choose another path.")
    _check_target(target, overwrite=overwrite)
    commits = reader.rows.store().commit_number  # the first read: the copy is of the store as it is now
    steady = _Steady(settings.path) if settings.read_only or not reader.cells.ring else None
    with _temporary(target) as copy:
        _copy(reader.db, copy, progress)
        if steady is not None:
            steady.check()
        # The key file is read after the database was copied, so it has every key that the copy needs.
        ring = find_ring(reader.db, settings.path, settings.key)
        _check_copy(copy, ring)
        explicit = keys.explicit_ring(settings.key) is not None
        _put_in_place(copy, target, None if explicit else ring, is_store=False)
    return _made(target, commits, has_key=ring is not None and not explicit)


def restore_backup(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    key: str | bytes | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Puts a backup in the place of a store that nobody has open. After a crash the old one is there, or the new.

    `key` is the backup's key where it has no key file. What the store at `target` held before is gone.
    """
    source, target = Path(source), Path(target)
    lifetime.check_file(source, allow_network=True, must_exist=True)
    if target.exists() and os.path.samefile(target, source):
        raise InvalidArgument(f"{target} is the backup itself", hint="Choose another path.")
    _check_target(target, overwrite=overwrite)
    steady = _Steady(source)
    last = lastcommit.read(source)
    with (
        failures.told(target),
        _temporary(target) as copy,
        closing(opening.connect_read_only(source, vfs=None)) as db,
    ):
        db.execute("BEGIN")
        lastcommit.check(source, db, last)
        ring = find_ring(db, source, key)
        check_keys(db, ring, source)
        _copy(db, copy, progress)
        steady.check()
        commits = _check_copy(copy, ring)
        explicit = keys.explicit_ring(key) is not None
        _put_in_place(copy, target, None if explicit else ring, is_store=True)
    return _made(target, commits, has_key=ring is not None and not explicit)


class _Steady:
    """A file that is read as it lies because nobody writes to it: whether somebody did after all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = self._now()

    def _now(self) -> tuple[bool, int, int]:
        found = self.path.stat()
        return opening.log_waits(self.path), found.st_mtime_ns, found.st_size

    def check(self) -> None:
        if self._now() != self.before:
            raise StorageFailed(
                f"{self.path} was written to while it was being copied", path=str(self.path), hint="Try again."
            )


def _made(target: Path, commits: int, *, has_key: bool) -> dict[str, Any]:
    key_file = str(keys.key_path(target)) if has_key else None
    return {"path": str(target), "key_file": key_file, "commits": commits, "bytes": target.stat().st_size}


def _check_target(target: Path, *, overwrite: bool) -> None:
    """Only a store gives way to another, and only when that was asked for."""
    if "\0" in str(target):
        raise InvalidArgument(f"{str(target)!r} is no path", hint="Choose another path.")
    if target.is_dir() or (target.exists() and not overwrite):
        what = "is a directory" if target.is_dir() else "exists already"
        raise InvalidArgument(f"{target} {what}", hint="Choose another path, or say that it may be overwritten.")
    if target.exists():
        lifetime.check_file(target, allow_network=True, must_exist=True)
    elif keys.key_path(target).exists() and not overwrite:
        raise InvalidArgument(
            f"{keys.key_path(target)} exists already, without its store", hint="Choose another path, or move it away."
        )
    if lifetime.is_open(target):
        raise _in_use(target)
    target.parent.mkdir(parents=True, exist_ok=True)


def _in_use(target: Path) -> StorageFailed:
    return StorageFailed(f"{target} is in use", path=str(target), hint="Close every program that has it open.")


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    path = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        yield path
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy(source: Any, copy: Path, progress: Progress | None) -> None:
    """All pages, in one read transaction of the source; the result is a single file that reached the disk."""
    try:
        with closing(apsw.Connection(str(copy))) as db:
            with db.backup("main", source, "main") as pages:
                while not pages.done:
                    pages.step(_PAGES)
                    if progress is not None:
                        progress("copying", pages.page_count - pages.remaining, pages.page_count)
            db.execute("PRAGMA journal_mode=DELETE").fetchall()
    except (apsw.FullError, apsw.CantOpenError) as error:
        if isinstance(error, apsw.FullError):
            raise DiskFull(f"There is no room for the copy {copy.parent}", path=str(copy.parent)) from error
        raise Unopenable(f"{copy.parent} can't be written to: {error}", path=str(copy.parent)) from error
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def _check_copy(copy: Path, ring: Ring | None) -> int:
    """A backup that can't be read is none: it is opened, checked and asked for its last commit number."""
    with closing(opening.connect_read_only(copy, vfs=None)) as db:
        opening.check_tables(db, copy)
        store_id = check_keys(db, ring, copy)
        [(found,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
        if found != "ok":
            raise Corrupt(f"The copy is damaged, as the store must be: {found}", path=str(copy))
        return Rows(db, Cells(ring or Ring({}), store_id)).store().commit_number


def _put_in_place(copy: Path, target: Path, ring: Ring | None, *, is_store: bool) -> None:
    """Database and key change places with what was there. The rename of the database is the one step that counts."""
    lock = target.with_name(target.name + ".lock")
    known = is_store or lock.exists()  # a file that never was open for writing has no lock, and needs none
    turn = TurnLock(lock) if known else None
    try:
        with turn.held() if turn else nullcontext():
            if known and Presence(target.with_name(target.name + ".writers")).others_alive():
                raise _in_use(target)
            if target.exists():
                _quieten(target)
            else:
                _set_log_aside(target)
            if ring is not None:
                write_whole(incoming_path(target), keys.ring_text(ring).encode(), mode=0o600)
            lastcommit.forget(target)
            os.replace(copy, target)
            sync_folder(target.parent)
            if ring is not None:
                os.replace(incoming_path(target), keys.key_path(target))
                sync_folder(target.parent)
    finally:
        if turn:
            turn.close()


def _quieten(target: Path) -> None:
    """Folds the log into the file that is about to go: a log left behind would be read into the new one.

    Leaving WAL mode is possible only when nobody else has the file open, so this is the proof of that as well.
    """
    try:
        with closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            db.set_busy_timeout(_BUSY_MILLISECONDS)
            db.execute("PRAGMA journal_mode=DELETE").fetchall()
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _in_use(target) from error
    except failures.POISONING:  # damaged, which may be why a backup is put in its place
        _set_log_aside(target)


def _set_log_aside(target: Path) -> None:
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(target.with_name(target.name + suffix), target.with_name(target.name + suffix + ".replaced"))

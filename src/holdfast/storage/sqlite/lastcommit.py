"""The number of a store's last commit, kept beside its database and log: what it shows is that one of them lost it.

SQLite takes a log that ends early for one that was never longer: a flipped bit in it, or its loss, would take back what
was acknowledged, and nothing in the store could tell. This file can, and it also says that a store was made at all.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import apsw

from holdfast.errors import HoldfastError, RolledBack, Unopenable
from holdfast.storage.authenticity import Ring
from holdfast.storage.durably import sync_folder
from holdfast.storage.sqlite import opening
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.findings import UNREADABLE
from holdfast.storage.sqlite.keyring import store_id_of
from holdfast.storage.sqlite.rows import Rows

log = logging.getLogger("holdfast")

_BYTES: Final = 82  # within one sector: it is overwritten in place, whole or not at all
_READS_MAX: Final = 3  # a reader may come while it is being overwritten


@dataclass(frozen=True, slots=True)
class Last:
    """What was noted: a store was made here, and its log may hold commits up to this one."""

    store_id: bytes
    commit: int  # 0 after a clean end: then everything is in the database file itself


class LastCommit:
    """A writer's hold on the file: written in turn, when a commit has reached the disk, before anybody is told of it.

    It is not synced, so it is never ahead of what is on the disk: a killed process leaves it as it was, a power cut an
    earlier one or none.
    """

    def __init__(self, store: Path) -> None:
        self.path = path_of(store)
        self._descriptor: int | None = None
        self._begin = b""
        self._is_new = False
        self._failed = False

    def open(self, store_id: bytes, before: Last | None) -> None:
        """To be called in turn; `before` is what `read` has found there."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._begin = b"store %b commit " % store_id.hex().encode()
        self._is_new = before is None or before.store_id != store_id

    def put(self, commit: int) -> None:
        """Notes the commit. That it can't be noted must not fail it: what stays behind is still right."""
        if self._descriptor is None:
            return
        line = b"%b%020d" % (self._begin, commit)
        try:
            os.pwrite(self._descriptor, b"%b check %08x\n" % (line, crc32(line)), 0)
            if self._is_new:  # that there is a store here outlives a power cut
                os.fsync(self._descriptor)
                sync_folder(self.path.parent)
                self._is_new = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning("%s stays behind its store: %s", self.path, error)

    def close(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None


def path_of(store: Path) -> Path:
    return store.with_name(store.name + ".last")


def read(store: Path) -> Last | None:
    """What is noted beside this store. To be read before the store is: then the store is never behind by itself."""
    path = path_of(store)
    data = b""
    for _ in range(_READS_MAX):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, _BYTES + 1, 0)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unopenable(f"{path} can't be read: {error.strerror}", path=str(path), hint=_HINT_READ) from error
        if not any(data):  # whoever made it has noted nothing yet, or the power went before it was on the disk
            return None
        if (found := _parsed(data)) is not None:
            return found
    # It only adds to what the store knows of itself, so a store is not refused for it.
    log.warning("%s is damaged, so it can't tell whether the log beside it is whole", path)
    return None


_HINT_READ: Final = "Check its permissions and the disk. To do without what it says, remove it."


def _parsed(data: bytes) -> Last | None:
    line, _, check = data.partition(b" check ")
    if len(data) != _BYTES or check != b"%08x\n" % crc32(line):
        return None
    _, store_id, _, commit = line.split(b" ")
    return Last(bytes.fromhex(store_id.decode()), int(commit))


def check_there(store: Path, last: Last | None) -> None:
    """Refuses to take a file that lost everything for one in which no store was made yet."""
    if last is not None and not opening.has_content(store):
        raise lost(store)


def lost(store: Path) -> Unopenable:
    name = path_of(store).name
    return Unopenable(
        f"{store} is empty or gone, although a store was made there ({name} says so)",
        path=str(store),
        hint=f"Put the file back, or a backup (`holdfast restore-backup`). For a new store, remove {name} as well.",
    )


def check(store: Path, db: apsw.Connection, last: Last | None) -> None:
    """Raises RolledBack when the store lacks commits that it had. The connection then leaves its log alone for ever:
    what is left of them is evidence.
    """
    if last is None:
        return
    try:
        _hold(store, db, last)
    except HoldfastError:
        if read(store) == last:  # else a backup was put in the store's place while it was being opened for reading
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            raise


def _hold(store: Path, db: apsw.Connection, last: Last) -> None:
    """The store against what was noted."""
    if db.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
        raise lost(store)
    store_id, there = _commit_of(store, db)
    if store_id != last.store_id or there is None or there >= last.commit:
        return
    name = path_of(store).name
    raise RolledBack(
        f"{store} is at commit {there}, but was at {last.commit} ({name} says so): its write-ahead log was lost or"
        " damaged, or an older copy was put in its place",
        path=str(store),
        hint=f"Nothing was changed. Look for the files as they were, {store.name}-wal among them. To go on with what is"
        f" there, end every program that uses the store and remove {name}.",
    )


def _commit_of(store: Path, db: apsw.Connection) -> tuple[bytes | None, int | None]:
    """The store's id and the number of its last commit, as they stand there: whoever asks more will authenticate them.

    None where they can't be read: that is damage of another kind, and named by whoever needs what is damaged.
    """
    try:
        store_id = store_id_of(db, store)
        return store_id, Rows(db, Cells(Ring({}), store_id)).store().commit_number
    except (HoldfastError, apsw.CorruptError, apsw.SQLError, *UNREADABLE):
        return None, None


def forget(store: Path) -> None:
    """Before another store is put in the place of this one: what was noted must not be held against that one."""
    try:
        descriptor = os.open(path_of(store), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.ftruncate(descriptor, 0)
        os.fsync(descriptor)  # else a power cut could bring it back, ahead of what is there then
    finally:
        os.close(descriptor)

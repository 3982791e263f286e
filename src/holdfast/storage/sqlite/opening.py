"""Opening a store file: what is refused and why, before SQLite touches anything."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import Corrupt, Unopenable
from holdfast.storage.sqlite.schema import APPLICATION_ID, FORMAT, SCHEMA

_MAGIC: Final = b"SQLite format 3\0"
_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "beegfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"),
    )
)
BUSY_SECONDS: Final = 60
CACHE_KIB: Final = 16384  # of pages, for each connection
PAGE_BYTES: Final = 2048  # small rows touch few pages: half of 4096 is half the log for a commit and 7 % less file

_RENEWED_AT_ONCE: Final = 1 << 16  # SQLite's file system takes no more than 128 KiB at a time

forked = False
"""Whether this process was forked from one that had a store open: see `keep_log`."""


def check_file(path: Path, *, allow_network: bool, must_exist: bool) -> None:
    """Refuses what is no store of ours, with the reason. Reads the header only, through no lasting descriptor."""
    if path.is_dir():
        raise _refusal(path, "is a directory", "Name a file in it, for example checkpoints.db.")
    if not path.exists():
        if must_exist:
            raise _refusal(path, "does not exist", "Check the path; writing commands and programs make a new store.")
        if not path.parent.exists():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _refusal(path, f"can't be made: {error.strerror}", "Choose a folder you may write to.") from error
    elif not path.is_file():
        raise _refusal(path, "is not a regular file", "Name an ordinary file.")
    if not allow_network and (kind := network_kind(path)):
        raise _refusal(
            path,
            f"is on a network file system ({kind}), where locks and syncs can't be trusted",
            "Use a local disk, or pass allow_network=True (HOLDFAST_ALLOW_NETWORK=1) if you know better.",
        )
    if path.exists():
        _check_header(path)


def _check_header(path: Path) -> None:
    try:
        with path.open("rb", buffering=0) as file:
            header = file.read(100)
    except OSError as error:
        raise _refusal(path, f"can't be read: {error.strerror}", "Check its permissions.") from error
    if not header:
        return  # a store whose first commit never came
    if not any(header) and path.with_name(path.name + "-journal").exists():
        return  # the power went while the first page was being written: SQLite takes that back
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise _refusal(path, "is not a Holdfast store (no SQLite file)", "Check the path.")
    application, version = (int.from_bytes(header[at : at + 4], "big") for at in (68, 60))
    if application == APPLICATION_ID and version > FORMAT:
        raise _refusal(
            path, f"has format {version}; this Holdfast reads up to {FORMAT}", "Upgrade: pip install -U holdfast."
        )
    if application != APPLICATION_ID and (application or version or int.from_bytes(header[28:32], "big") > 1):
        raise _refusal(path, "is a SQLite database, but not a Holdfast store", "Choose another path.")


def has_content(path: Path) -> bool:
    """Whether there is a file that is not empty. Asked of its name: nothing is opened."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _refusal(path: Path, what: str, hint: str) -> Unopenable:
    return Unopenable(f"{path} {what}", path=str(path), hint=hint)


def network_kind(path: Path) -> str | None:
    """The network file system that this path is on, as far as the system tells (Linux)."""
    if sys.platform != "linux":
        return None
    here = os.path.realpath(path)
    best, kind = "", ""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split(" ")[4].replace("\\040", " ")
        if (here == mount or here.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, kind = mount, after.split(" ")[0]
    return kind if kind in _NETWORK else None


def connect_writer(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A connection that writes: WAL, synchronous FULL; a new file also gets incremental vacuum."""
    db = _connect(str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs, path)
    if db.execute("PRAGMA page_count").fetchone() == (0,):
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # which would write, and so end a log that has not been checked
    [(mode,)] = db.execute("PRAGMA journal_mode=WAL").fetchall()
    if mode != "wal":  # it says so and goes on without, where an acknowledged commit can be taken back by a power cut
        db.close()
        raise _refusal(path, "can't have a write-ahead log", "Check the disk; another file system may be needed.")
    db.execute("PRAGMA synchronous=FULL")
    if sys.platform == "darwin":
        db.execute("PRAGMA fullfsync=1")
    db.execute("PRAGMA journal_size_limit=4194304")
    db.execute("PRAGMA secure_delete=FAST")  # what was erased must not be readable in what is left of its page
    return db


def connect_reader(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A connection that reads beside a writer of this process."""
    db = _connect(str(path), apsw.SQLITE_OPEN_READWRITE, vfs, path)
    db.execute("PRAGMA query_only=1")
    return db


def connect_read_only(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A connection that writes nothing at all, not even beside the file, unless a log waits to be read.

    Without a log nobody has written since the last clean close: the file is read as it is (immutable). The caller
    checks `log_waits` again afterwards.
    """
    uri = "file:" + str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    mode = "?mode=ro" if log_waits(path) else "?immutable=1"
    return _connect(uri + mode, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs, path)


def log_waits(path: Path) -> bool:
    """Whether there is a write-ahead log with something in it."""
    try:
        return os.stat(os.path.realpath(path) + "-wal").st_size > 0  # SQLite follows links as well
    except FileNotFoundError:
        return False


def renew_log(path: Path, *, vfs: str | None) -> None:
    """Writes the log that a crash has left once more, byte by byte, and syncs it. Nobody else may be writing.

    After a sync that failed, what was written may be in memory only, and no later sync writes it: it looks clean.
    SQLite would copy such a log into the database, and if the power went meanwhile, neither of them would be whole.
    """
    name = os.path.realpath(path) + "-wal"
    if not log_waits(path) or not path.exists() or not os.access(name, os.W_OK):
        return  # what may not be written is refused by whoever connects next
    log = apsw.VFSFile(vfs or "", name, [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0])
    try:
        for offset in range(0, log.xFileSize(), _RENEWED_AT_ONCE):
            log.xWrite(log.xRead(min(_RENEWED_AT_ONCE, log.xFileSize() - offset), offset), offset)
        log.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        log.xClose()


def check_tables(db: apsw.Connection, path: Path) -> None:
    """Refuses tables that are not ours: a damaged definition changes what is found, and a trigger what is written."""
    found = set(db.execute(_TABLES))
    if not found:  # whoever makes it has not committed yet, or died before
        raise _refusal(path, "is empty: no store was made there yet", "Write to it first, or try again in a moment.")
    if found != _our_tables():
        raise Corrupt(f"The tables of {path} are not those of a Holdfast store", path=str(path))


_TABLES: Final = "SELECT type, name, tbl_name, CAST(sql AS BLOB) FROM sqlite_schema"


@cache
def _our_tables() -> frozenset[tuple[object, ...]]:
    db = apsw.Connection(":memory:")
    try:
        db.execute(SCHEMA)
        return frozenset(db.execute(_TABLES))
    finally:
        db.close()


def keep_log(db: apsw.Connection) -> None:
    """Makes this connection leave the log in place when it closes.

    After a fork, parent and child each believe that they hold locks which the other can't see, so neither may take
    the log away as the last one out. Emptying it at close stays safe: that takes real locks.
    """
    flag = ctypes.c_int(1)
    db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(flag))


def _connect(name: str, flags: int, vfs: str | None, path: Path) -> apsw.Connection:
    try:
        db = apsw.Connection(name, flags=flags, vfs=vfs)
        db.set_busy_timeout(BUSY_SECONDS * 1000)
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        db.execute("PRAGMA application_id").fetchall()  # the first read: a broken file shows here
        if forked:
            keep_log(db)
    except (
        apsw.CantOpenError,
        apsw.NotADBError,
        apsw.CorruptError,
        apsw.IOError,
        apsw.ReadOnlyError,
        apsw.PermissionsError,
    ) as error:
        raise _refusal(
            path, f"can't be opened: {error}", "Check the file, its folder and their permissions."
        ) from error
    return db

"""A disk that remembers in which order it was told what: every write, truncation and sync, every name and its end.

Files are known by their inode, so that one that was replaced or deleted is not mixed up with its successor.
"""
# ruff: noqa: N802 - the names are those of the interfaces

from __future__ import annotations

import builtins
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.storage import durably, files
from holdfast.storage.sqlite import anchor, ballast, keyring, lastcommit, locks, reserve
from tests.faults.vfs import FaultyFile, FaultyVFS


@dataclass(frozen=True, slots=True)
class Wrote:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncated:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that was written to the file before is on the disk; `failed`: nobody knows, and nobody ever will."""

    inode: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A name got a file, or with `inode=None` lost it."""

    name: str
    inode: int | None


@dataclass(frozen=True, slots=True)
class Renamed:
    old: str
    new: str
    inode: int


@dataclass(frozen=True, slots=True)
class FolderSynced:
    """The names are on the disk as well."""


@dataclass(frozen=True, slots=True)
class Told:
    """Not the disk's: what somebody was told at this moment, and relies on from now on."""

    what: tuple[Any, ...]


Event = Wrote | Truncated | Synced | Named | Renamed | FolderSynced | Told


class Disk:
    """The events of one folder. Its files really are there; what they would be after a cut, `Remains` works out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self._inodes: dict[str, int] = {}
        self._numbers = count(1)

    def tell(self, *what: Any) -> None:
        self.events.append(Told(what))

    def knows(self, name: object) -> bool:
        """Whether this is one of our files; the system's temporary ones are nobody's."""
        return name is not None and Path(str(name)).parent == self.folder

    def named(self, path: str | Path) -> int:
        """The inode of this name, which is made if there is none."""
        name = Path(path).name
        if name not in self._inodes:
            self._inodes[name] = next(self._numbers)
            self.events.append(Named(name, self._inodes[name]))
        return self._inodes[name]

    def linked(self, old: str | Path, new: str | Path) -> None:
        self._inodes[Path(new).name] = self._inodes[Path(old).name]
        self.events.append(Named(Path(new).name, self._inodes[Path(old).name]))

    def renamed(self, old: str | Path, new: str | Path) -> None:
        inode = self._inodes[Path(new).name] = self._inodes.pop(Path(old).name)
        self.events.append(Renamed(Path(old).name, Path(new).name, inode))

    def deleted(self, path: str | Path) -> None:
        if self._inodes.pop(Path(path).name, None) is not None:
            self.events.append(Named(Path(path).name, None))


class RecordingFile(FaultyFile):
    """A file of SQLite's that tells its disk what has happened to it."""

    def __init__(self, vfs: RecordingVFS, name, flags):
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        asked = flags[0]
        super().__init__(vfs, name, flags)
        self._disk = vfs.disk if vfs.disk.knows(path) else None
        self._inode = vfs.disk.named(path) if self._disk is not None else 0
        # SQLite syncs the folder with the first sync of a log that it has opened for writing.
        self._new_log = bool(asked & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))

    def xWrite(self, data, offset):
        super().xWrite(data, offset)
        if self._disk is not None:
            self._disk.events.append(Wrote(self._inode, offset, bytes(data)))

    def xTruncate(self, size):
        super().xTruncate(size)
        if self._disk is not None:
            self._disk.events.append(Truncated(self._inode, size))

    def xSync(self, flags):
        failed = True
        try:
            super().xSync(flags)
            failed = False
        finally:
            if self._disk is not None:
                self._disk.events.append(Synced(self._inode, failed=failed))
                if self._new_log and not failed:
                    self._disk.events.append(FolderSynced())
                    self._new_log = False


class RecordingVFS(FaultyVFS):
    """SQLite's file system on such a disk; it can be told to fail as well."""

    def __init__(self, disk: Disk, error: Callable[[], apsw.Error] | None = None, **options: Any):
        self.disk = disk
        super().__init__(*([] if error is None else [error]), **options)

    def xOpen(self, name, flags):
        return RecordingFile(self, name, flags)

    def xDelete(self, name, syncdir):
        super().xDelete(name, syncdir)
        if self.disk.knows(name):
            self.disk.deleted(name)
            if syncdir:
                self.disk.events.append(FolderSynced())


class FaultySystem:
    """The modules `os` and `fcntl` for whoever writes files beside SQLite: the operation number `fail_at` fails."""

    ASKED = frozenset((
        "open", "read", "pread", "write", "pwrite", "posix_fallocate", "ftruncate", "fsync", "fstat", "replace", "link",
        "unlink", "rmdir", "scandir", "flock",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.asked = 0
        self.fail_at: int | None = None
        self.always = ""  # an operation that fails whenever it is asked for
        self.number = errno.EIO
        self.failed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(os if hasattr(os, name) else fcntl, name)
        if name not in self.ASKED:
            return found

        def asking(*arguments: Any, **options: Any) -> Any:
            self.ask(name)
            return found(*arguments, **options)

        return asking

    def ask(self, name: str) -> None:
        self.asked += 1
        if name == self.always or self.asked == self.fail_at:
            self.failed.append(name)
            raise OSError(self.number, os.strerror(self.number))

    def open_file(self, descriptor, mode):
        """The builtin `open`, for a descriptor of the above."""
        self.ask("open")
        return builtins.open(descriptor, mode, buffering=0)  # noqa: PTH123 - whoever asked closes it


class RecordingOS:
    """The module `os` for whoever writes files beside SQLite: key files, and the note of the last commit."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._inodes: dict[int, int | None] = {}  # by descriptor; None: a folder

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path, flags, mode=0o777):
        descriptor = os.open(path, flags, mode)
        if self._disk.knows(path):
            self._inodes[descriptor] = self._disk.named(path)
        elif Path(path) == self._disk.folder:
            self._inodes[descriptor] = None
        return descriptor

    def fsync(self, descriptor):
        os.fsync(descriptor)
        inode = self._inodes.get(descriptor, 0)
        if inode is None:
            self._disk.events.append(FolderSynced())
        elif inode:
            self._disk.events.append(Synced(inode))

    def pwrite(self, descriptor, data, offset):
        written = os.pwrite(descriptor, data, offset)
        if inode := self._inodes.get(descriptor):
            self._disk.events.append(Wrote(inode, offset, bytes(data)))
        return written

    def ftruncate(self, descriptor, size):
        os.ftruncate(descriptor, size)
        if inode := self._inodes.get(descriptor):
            self._disk.events.append(Truncated(inode, size))

    def replace(self, old, new):
        os.replace(old, new)  # noqa: PTH105 - it stands for this very function
        self._disk.renamed(old, new)

    def link(self, old, new):
        os.link(old, new)
        self._disk.linked(old, new)

    def open_file(self, descriptor, mode):
        """The builtin `open`, for a descriptor of the above."""
        file = builtins.open(descriptor, mode, buffering=0)  # noqa: PTH123, SIM115 - whoever asked closes it
        return _RecordedWrites(file, self._disk, self._inodes.get(descriptor) or 0)


@contextmanager
def recorded_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk in a new folder, on which a storage of files can be made."""
    folder.mkdir()
    disk = Disk(folder)
    recording = RecordingOS(disk)
    unlink = Path.unlink

    def recorded_unlink(path, *, missing_ok=False):
        there = path.exists()
        unlink(path, missing_ok=missing_ok)
        if there and disk.knows(path):
            disk.deleted(path)

    with monkeypatch.context() as patched:
        patched.setattr(durably, "os", recording)
        patched.setattr(durably, "open", recording.open_file, raising=False)
        patched.setattr(files, "os", recording)
        patched.setattr(Path, "unlink", recorded_unlink)
        yield disk


@asynccontextmanager
async def recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **faults: Any
) -> AsyncIterator[tuple[Disk, RecordingVFS]]:
    """A disk in a new folder, on which stores can be made; their key files are on it, too."""
    os.mkdir(folder)  # noqa: PTH102 - nobody else waits
    disk = Disk(folder)
    vfs = RecordingVFS(disk, **faults)
    recording = RecordingOS(disk)
    with monkeypatch.context() as patched:
        patched.setattr(durably, "os", recording)
        patched.setattr(durably, "open", recording.open_file, raising=False)
        patched.setattr(keyring, "os", recording)
        patched.setattr(lastcommit, "os", recording)
        yield disk, vfs


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultySystem]:
    """Whatever writes beside SQLite does it through this: key files, locks, anchors, notes, and what takes up room."""
    system = FaultySystem()
    with monkeypatch.context() as patched:
        for module in (anchor, ballast, durably, keyring, lastcommit, locks, reserve):
            patched.setattr(module, "os", system)
        for module in (durably, locks):
            patched.setattr(module, "fcntl", system)
        patched.setattr(durably, "open", system.open_file, raising=False)
        yield system


class _RecordedWrites:
    def __init__(self, file, disk: Disk, inode: int) -> None:
        self._file, self._disk, self._inode = file, disk, inode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data):
        offset = self._file.tell()
        written = self._file.write(data)
        if self._inode:
            self._disk.events.append(Wrote(self._inode, offset, bytes(data)))
        return written

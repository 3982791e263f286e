"""The two locks of a store: who is alive (a locked file for each writer), and whose turn it is to write."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.storage.sqlite.waiting import Waiting

NOTE_BYTES: Final = 128


class TurnLock:
    """The lock file around write transactions. The kernel queues those who wait, which SQLite's own lock does not.

    It is a file of its own: POSIX drops SQLite's locks when any descriptor of the database is closed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.waiting = Waiting(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _wait(self) -> None:
        self.waiting.begin()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            self.waiting.end()

    def close(self) -> None:
        self.waiting.stop()
        os.close(self._descriptor)


class Presence:
    """A writer's sign of life: a file of its own that the kernel unlocks when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = secrets.token_hex(6)
        self._descriptor: int | None = None

    def appear(self) -> None:
        """Takes this writer's lock. To be called in turn (under the `TurnLock`), so that nobody probes half of it."""
        self.folder.mkdir(exist_ok=True)
        self._descriptor = os.open(self.folder / self.writer, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with suppress(OSError):  # on a full disk nobody can know who this is, and the lock alone counts
            os.write(self._descriptor, f"{os.getpid()} {_pid_namespace()}".encode())

    def vanish(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with suppress(OSError):  # a file that stays is not locked any more, and the next one sweeps it away
            os.unlink(self.folder / self.writer)
        with suppress(OSError):
            os.close(descriptor)
        with suppress(OSError):  # others are still there, or the folder is gone
            os.rmdir(self.folder)

    @property
    def descriptor(self) -> int:
        """The writer's own file. Its first NOTE_BYTES say who this is; the others mean nothing."""
        if self._descriptor is None:
            raise RuntimeError("this writer has not appeared")
        return self._descriptor

    def drop_in_child(self) -> None:
        """After fork(): the child's copy of the descriptor would keep a dead parent looking alive."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def alive(self, writer: str) -> bool:
        """Whether this writer's process lives. A dead one's file is removed."""
        return writer == self.writer or is_alive(self.folder, writer)

    def others_alive(self) -> bool:
        try:
            names = [entry.name for entry in os.scandir(self.folder)]
        except FileNotFoundError:
            return False
        alive = [
            name for name in names if name != self.writer and self.alive(name)
        ]  # all of them: this sweeps the dead
        return bool(alive)


def is_alive(folder: Path, writer: str, *, sweep: bool = True) -> bool:
    """Whether the lock on a writer's file is held; `sweep` removes the file of a dead one."""
    path = folder / writer
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return not _is_left_over(os.read(descriptor, NOTE_BYTES))
    else:
        if sweep:
            path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _is_left_over(written: bytes) -> bool:
    """Whether the lock outlives the process that took it: whatever it started last holds a copy until it calls exec.

    That is over within milliseconds, and long enough for somebody who takes over at once. The process is known by its
    number, which says something only among those that are numbered alike: not from one container to another.
    """
    pid, _, namespace = written.rstrip(b"\0").decode(errors="replace").partition(" ")
    if not pid.isdigit() or namespace != _pid_namespace():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux
        return sys.platform

"""What is under every store: raw commits, raw synced appends, bytes in a directory, the file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw


class RawCommits:
    """A bare SQLite database whose every insert is a commit: WAL, synchronous=FULL, nothing else."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self.db = apsw.Connection(str(path), vfs=vfs)
        self.db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        self.db.execute("CREATE TABLE IF NOT EXISTS raw (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit(self, body: bytes) -> None:
        self.db.execute("INSERT INTO raw (body) VALUES (?)", (body,))

    def commit_many(self, bodies: list[bytes]) -> None:
        with self.db:
            self.db.executemany("INSERT INTO raw (body) VALUES (?)", [(body,) for body in bodies])

    def read(self, number: int) -> bytes:
        body: Any = self.db.execute("SELECT body FROM raw WHERE number = ?", (number,)).fetchall()[0][0]
        return bytes(body)

    def read_all(self) -> list[bytes]:
        return [body for (body,) in self.db.execute("SELECT body FROM raw ORDER BY number")]

    def close(self) -> None:
        self.db.close()


class RawAppends:
    """A file that is appended to and synced each time: the least that durable can cost without preparation."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, body: bytes) -> None:
        os.write(self.descriptor, body)
        getattr(os, "fdatasync", os.fsync)(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


def bytes_in(directory: Path) -> int:
    """The sizes of all files below a directory, whatever they are."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def file_system(path: Path) -> str:
    """The kind of file system that a path is on, as far as Linux tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    here = path.resolve()
    found = (Path("/"), "unknown")
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(before.split(" ")[4].replace("\\040", " "))
        if here.is_relative_to(mount) and mount.is_relative_to(found[0]):
            found = (mount, after.split(" ")[0])
    return found[1]

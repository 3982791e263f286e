"""The storage whose checkpoints are files: one readable JSON document each, in one folder."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import Corrupt, DiskFull, HoldfastError, ReadOnly, StorageFailed, UnknownCheckpoint
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.storage import document, filenames
from holdfast.storage.durably import NO_ROOM, NOT_ALLOWED, locked, sync_folder, write_new, write_whole
from holdfast.storage.folder import Entry, Folder
from holdfast.storage.heads import detached
from holdfast.storage.protocol import CheckpointStorage, Damage, Report

LOCK_NAME: Final = ".holdfast.lock"
TEMPORARY_SECONDS_MAX: Final = 3600


class FileCheckpointStorage(CheckpointStorage):
    """Checkpoints as JSON files that a person can read, `<agent_id>_<YYYYMMDDHHMMSS>_<kind>.checkpoint` (UTC).

    Each file is there whole or not at all, and holds a SHA-256 over its content. That detects damage; it does not
    detect forgery, because whoever changes a file can compute the hash anew, nor that a file was removed. Keep what
    must be authentic in SQLite. While a damaged file is there, what lists its agent is Corrupt.

    Files of the same shape that somebody else wrote, without the `integrity` field, are read too, with
    `verified=False`. Everything else in the folder is left alone. Any number of processes may use it at once.
    """

    def __init__(self, directory: str | os.PathLike[str] = "runtime/agent_comms/checkpoints") -> None:
        self.directory = Path(directory)
        self._folder = Folder(self.directory)

    async def save(self, checkpoint: Checkpoint) -> str:
        await asyncio.to_thread(self.write, checkpoint)
        return checkpoint.id

    async def load(self, checkpoint_id: str) -> Checkpoint | None:
        return await asyncio.to_thread(self._load, checkpoint_id)

    async def list_by_user(self, user_id: str, limit: int, offset: int) -> list[Checkpoint]:
        return await asyncio.to_thread(self._page, None, user_id, limit, offset)

    async def list_by_agent(self, agent_id: str, limit: int, offset: int) -> list[Checkpoint]:
        return await asyncio.to_thread(self._page, agent_id, None, limit, offset)

    async def delete(self, checkpoint_id: str) -> bool:
        return await asyncio.to_thread(self._delete, checkpoint_id)

    async def verify(self) -> Report:
        """Reads every file and names each damaged one."""
        return await asyncio.to_thread(self._verify)

    # --- the same for programs without an event loop

    def write(self, checkpoint: Checkpoint) -> Path:
        """Saves a checkpoint and returns its file, which is durable then."""
        kind = str(Kind.of(checkpoint.kind))
        with self._writing() as lock:
            names = self._folder.names()
            _remove_old_temporaries(self.directory)
            before = self._folder.find(checkpoint.id, checkpoint.agent_id)
            number = self._next_number(lock)
            data = document.dump(checkpoint.evolve(commit_number=number, kind=kind))
            _put_number(lock, number)
            path = self._place(checkpoint, kind, names, before)
            if before is not None and path == before.path:
                write_whole(path, data)
            else:
                while not write_new(path, data):  # only a program that ignores the lock can have taken the name
                    path = self._place(checkpoint, kind, [*self._folder.names(), path.name], None)
                if before is not None:
                    before.path.unlink(missing_ok=True)
                    sync_folder(self.directory)
            self._folder.note(path)
            return path

    def read(self, path: str | os.PathLike[str]) -> Checkpoint:
        """The whole checkpoint in a file; Corrupt when it is damaged."""
        path = Path(path)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UnknownCheckpoint(f"There is no checkpoint file {path}", path=str(path)) from None
        except OSError as error:
            raise StorageFailed(f"Checkpoint file {path} can't be read: {error}", path=str(path)) from error
        try:
            return document.parse(data, name=path.name)
        except (ValueError, RecursionError) as error:
            id_ = document.id_within(data)
            raise Corrupt(f"Checkpoint file {path} is damaged: {error}", checkpoint_id=id_, path=str(path)) from error

    def load_path(self, path: str | os.PathLike[str]) -> Checkpoint:
        """The whole checkpoint in a file; the same as `read`."""
        return self.read(path)

    def path_of(self, checkpoint_id: str) -> Path | None:
        """The file of a checkpoint, damaged or not; None when there is none."""
        entry = self._folder.find(checkpoint_id)
        return None if entry is None else entry.path

    def entries(self, agent_id: str | None = None, kind: str | None = None) -> list[Path]:
        """The files of an agent and a kind, newest first. Corrupt if a damaged one may be among them."""
        return [path for path, found in self._folder.whole(agent_id) if kind in (None, found.kind)]

    # --- in a thread

    def _load(self, checkpoint_id: str) -> Checkpoint | None:
        entry = self._folder.find(checkpoint_id)
        if entry is None:
            return None
        try:
            return self.read(entry.path)
        except UnknownCheckpoint:  # another process removed it just now
            return None
        except Corrupt as error:
            error.checkpoint_id = error.ids["checkpoint_id"] = checkpoint_id
            raise

    def _page(self, agent_id: str | None, user_id: str | None, limit: int, offset: int) -> list[Checkpoint]:
        return [detached(found) for _, found in self._folder.whole(agent_id, user_id)[offset : offset + limit]]

    def _delete(self, checkpoint_id: str) -> bool:
        if not self.directory.is_dir():
            return False
        with self._writing():
            entry = self._folder.find(checkpoint_id)
            there = entry
            while there is not None:  # a crash while it was replaced may have left an older file of the same id
                there.path.unlink(missing_ok=True)
                there = self._folder.find(checkpoint_id)
            if entry is not None:
                sync_folder(self.directory)
            return entry is not None

    def _verify(self) -> Report:
        entries = self._folder.entries()
        for entry in entries:
            entry.checked = False  # a disk may damage what no program has changed
        return Report(
            whole=tuple(entry.id for entry in entries if self._folder.is_whole(entry) and entry.id is not None),
            damaged=tuple(_damage(entry) for entry in entries if entry.damage is not None),
            checkpoints=len(entries),
        )

    # --- writing

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """The descriptor of the locked lock file: one writer at a time, of all threads and processes."""
        try:
            self._make_directory()
            with locked(self.directory / LOCK_NAME) as descriptor:
                yield descriptor
        except OSError as error:
            raise _failure(error, self.directory) from error

    def _make_directory(self) -> None:
        missing = [folder for folder in (self.directory, *self.directory.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)

    def _next_number(self, lock: int) -> int:
        """One more than any number given before. The lock file remembers it, so that not every file must be read."""
        written = os.pread(lock, 32, 0).strip()
        given = int(written) if written.isdigit() else self._highest_number(self._folder.entries())
        return max(given, self._highest_number(self._folder.known())) + 1

    @staticmethod
    def _highest_number(entries: list[Entry]) -> int:
        return max((entry.checkpoint.commit_number for entry in entries if entry.checkpoint), default=0)

    def _place(self, checkpoint: Checkpoint, kind: str, names: list[str], before: Entry | None) -> Path:
        """The first free name; free even where case does not count, for the folder may be copied there."""
        taken = {name.casefold() for name in names if before is None or name != before.path.name}
        candidates = filenames.names_for(checkpoint.agent_id, checkpoint.timestamp, kind)
        return self.directory / next(name for name in candidates if name.casefold() not in taken)


def _remove_old_temporaries(directory: Path) -> None:
    """Removes what a crash left. Our lock is held, so nobody is writing an old one still."""
    for name in os.listdir(directory):
        if filenames.is_temporary(name):
            path = directory / name
            if time.time() - path.stat().st_mtime > TEMPORARY_SECONDS_MAX:
                path.unlink(missing_ok=True)


def _put_number(lock: int, number: int) -> None:
    os.pwrite(lock, b"%d\n" % number, 0)
    os.fsync(lock)


def _damage(entry: Entry) -> Damage:
    parts = filenames.parts_of(entry.path.name)
    agent_id = entry.checkpoint.agent_id if entry.checkpoint else filenames.unescape(parts.agent) if parts else None
    return Damage(
        kind="checkpoint",
        id=entry.id or filenames.id_of_name(entry.path.name),
        agent_id=agent_id,
        seq=None,
        reason=f"{entry.path}: {entry.damage}",
    )


def _failure(error: OSError, directory: Path) -> HoldfastError:
    if error.errno in NO_ROOM:
        return DiskFull(f"There is no room in {directory} for a checkpoint", path=str(directory))
    if error.errno in NOT_ALLOWED:
        return ReadOnly(f"The folder {directory} can't be written to: {error}", path=str(directory))
    return StorageFailed(f"The folder {directory} failed: {error}", path=str(directory))

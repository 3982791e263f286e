"""A folder of checkpoint files as it is now: what was read once is read again only when the file changed."""

from __future__ import annotations

import logging
import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Corrupt, StorageFailed
from holdfast.history.checkpoint import Checkpoint
from holdfast.storage import document, filenames

log = logging.getLogger("holdfast")

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Entry:
    """A file and what is known of it: its checkpoint without the state, or why it is damaged."""

    path: Path
    stamp: Stamp  # a file with another modification time, size or inode is another file
    checkpoint: Checkpoint | None = None
    id: str | None = None
    damage: str | None = None
    checked: bool = False  # whether the whole content was compared with its hash

    @property
    def order(self) -> tuple[int, float, str]:
        """The store's number first; files that somebody else wrote have none, and only a clock."""
        if self.checkpoint is None:
            return (0, 0.0, self.path.name)
        return (self.checkpoint.commit_number, self.checkpoint.timestamp.timestamp(), self.path.name)


class Folder:
    """The checkpoint files of one directory. Thread-safe; a directory that is not there yet is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Entry] = {}
        self._lock = threading.Lock()

    def entries(self, agent_id: str | None = None) -> list[Entry]:
        """What there is, newest first, of one agent by the files' names; an older file of the same id was replaced."""
        with self._lock:
            names = [name for name in self.names() if agent_id is None or filenames.may_be_of(name, agent_id)]
            found = [entry for name in names if (entry := self._entry(name)) is not None]
        found.sort(key=lambda entry: entry.order, reverse=True)
        ids = set()
        current = []
        for entry in found:
            if entry.damage is None and entry.id in ids:
                continue
            ids.add(entry.id)
            current.append(entry)
        return current

    def whole(self, agent_id: str | None = None, user_id: str | None = None) -> list[tuple[Path, Checkpoint]]:
        """The files of an agent or a user that match their hash, newest first, with the checkpoints but no states.

        Raises Corrupt if a damaged file may be one of them: nothing in it can be believed, neither whose it is nor
        how new. Its name says whose; of a file whose name was not made here it is only said in the log.
        """
        whole: list[tuple[Path, Checkpoint]] = []
        damaged: list[tuple[Entry, str]] = []
        for entry in self.entries(agent_id):
            if self.is_whole(entry) and entry.checkpoint is not None:
                whole.append((entry.path, entry.checkpoint))
            elif entry.damage is not None and (parts := filenames.parts_of(entry.path.name)) is not None:
                damaged.append((entry, parts.agent))
        users = {agent: found.user_id for _, found in whole for agent in filenames.parts_for(found.agent_id)}
        for entry, agent in damaged:
            if user_id is None or users.get(agent, user_id) == user_id:  # it may be the only one of its agent
                raise _corrupt(entry, agent)
        return [
            (path, found)
            for path, found in whole
            if agent_id in (None, found.agent_id) and user_id in (None, found.user_id)
        ]

    def is_whole(self, entry: Entry) -> bool:
        """Reads the whole file, unless that was done since it changed last. What was removed just now is not whole."""
        if entry.checked or entry.damage is not None:
            return entry.checked
        try:
            document.parse(entry.path.read_bytes(), name=entry.path.name)
        except FileNotFoundError:
            return False
        except (OSError, ValueError, RecursionError) as error:
            self._damaged(entry, error)
            return False
        entry.checked = True
        return True

    def find(self, checkpoint_id: str, agent_id: str | None = None) -> Entry | None:
        """The file of this id, damaged or not."""
        with self._lock:
            known = [entry for entry in self._known.values() if entry.id == checkpoint_id]
            unchanged = [entry for entry in known if self._entry(entry.path.name) is entry]
        if unchanged:
            return max(unchanged, key=lambda entry: entry.order)
        return next((entry for entry in self.entries(agent_id) if entry.id == checkpoint_id), None)

    def note(self, path: Path) -> None:
        """Looks at a file that was just written, so that its id is known even if it is damaged one day."""
        with self._lock:
            self._entry(path.name)

    def known(self) -> list[Entry]:
        """What was read so far, as it was then."""
        with self._lock:
            return list(self._known.values())

    def names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.path) if filenames.is_checkpoint(name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageFailed(f"The folder {self.path} can't be read: {error}", path=str(self.path)) from error

    def _entry(self, name: str) -> Entry | None:
        path = self.path / name
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                return None
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._known.get(name)
            if known is None or known.stamp != stamp:
                known = self._known[name] = self._glanced(path, stamp, known)
        except FileNotFoundError:
            self._known.pop(name, None)
            return None
        return known

    def _glanced(self, path: Path, stamp: Stamp, before: Entry | None) -> Entry:
        entry = Entry(path=path, stamp=stamp, id=before.id if before else None)
        data = b""
        try:
            data = path.read_bytes()
            entry.checkpoint = document.glance(data, name=path.name)
            entry.id = entry.checkpoint.id
        except FileNotFoundError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            entry.id = document.id_within(data) or entry.id
            self._damaged(entry, error)
        return entry

    def _damaged(self, entry: Entry, reason: Exception) -> None:
        entry.damage = str(reason)
        log.warning("Checkpoint file %s is damaged: %s", entry.path, reason)


def _corrupt(entry: Entry, agent: str) -> Corrupt:
    agent_id = filenames.unescape(agent) or agent
    return Corrupt(
        f"Checkpoint file {entry.path} of agent {agent_id} is damaged: {entry.damage}",
        checkpoint_id=entry.id,
        agent_id=agent_id,
        path=str(entry.path),
        hint="`verify` names the checkpoints that are whole, and they can be loaded. Move the damaged file elsewhere, "
        "or delete it, and its agent goes on from the newest of them.",
    )

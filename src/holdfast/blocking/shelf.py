"""Where one agent's checkpoints lie, and how a caller names one: by a file's path, or by an id."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeAlias

from holdfast.blocking.loop import run
from holdfast.blocking.manager import Manager
from holdfast.errors import Corrupt, UnknownCheckpoint, WrongAgent
from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.files import FileCheckpointStorage

Reference: TypeAlias = str | os.PathLike[str]


class Shelf(ABC):
    """One way of naming checkpoints."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    @abstractmethod
    def reference(self, checkpoint_id: str) -> Reference:
        """The name of a checkpoint that was saved just now."""

    @abstractmethod
    def read(self, reference: Reference) -> Checkpoint:
        """The whole checkpoint; UnknownCheckpoint or Corrupt."""

    @abstractmethod
    def delete(self, agent_id: str, reference: Reference) -> bool:
        """Removes the agent's checkpoint; False when there is none, WrongAgent when it is another's."""

    # The last one, because below it `list` names this method.
    @abstractmethod
    def list(self, agent_id: str, kind: str | None, limit: int | None) -> list[Reference]:
        """The names of an agent's checkpoints, newest first."""


class StoreShelf(Shelf):
    """By id, in any storage."""

    def reference(self, checkpoint_id: str) -> Reference:
        return checkpoint_id

    def read(self, reference: Reference) -> Checkpoint:
        return self.manager.load(os.fspath(reference))

    def delete(self, agent_id: str, reference: Reference) -> bool:
        checkpoint_id = os.fspath(reference)
        try:
            _check_agent(run(self._position(checkpoint_id)), agent_id, reference)
        except UnknownCheckpoint:
            return False
        return self.manager.delete(checkpoint_id)

    async def _position(self, checkpoint_id: str) -> Checkpoint:
        found = await self.manager.asynchronous.store.position(checkpoint_id)
        if found is None:
            raise UnknownCheckpoint(f"There is no checkpoint {checkpoint_id}", checkpoint_id=checkpoint_id)
        return found

    def list(self, agent_id: str, kind: str | None, limit: int | None) -> list[Reference]:
        listed = self.manager.list_by_agent(agent_id, kind, limit=10**9 if limit is None else limit)
        return [checkpoint.id for checkpoint in listed]


class FileShelf(Shelf):
    """By path, in a folder of files. A file elsewhere, a copy perhaps, can be read too, but not deleted."""

    def __init__(self, storage: FileCheckpointStorage, manager: Manager) -> None:
        super().__init__(manager)
        self.storage = storage

    def reference(self, checkpoint_id: str) -> Reference:
        path = self.storage.path_of(checkpoint_id)
        if path is None:
            raise UnknownCheckpoint(
                f"Checkpoint {checkpoint_id} is gone from {self.storage.directory} already", checkpoint_id=checkpoint_id
            )
        return path

    def read(self, reference: Reference) -> Checkpoint:
        return self.storage.read(reference)

    def delete(self, agent_id: str, reference: Reference) -> bool:
        path = Path(reference)
        if path.parent.resolve() != self.storage.directory.resolve():
            return False
        try:
            checkpoint = self.storage.read(path)
        except UnknownCheckpoint:
            return False
        except Corrupt as error:
            return self._delete_damaged(path, error.checkpoint_id)
        _check_agent(checkpoint, agent_id, path)
        return self.manager.delete(checkpoint.id)

    def _delete_damaged(self, path: Path, checkpoint_id: str | None) -> bool:
        if checkpoint_id is not None and self.storage.path_of(checkpoint_id) == path:
            return run(self.storage.delete(checkpoint_id))
        path.unlink(missing_ok=True)  # nothing in it says which checkpoint it was
        return True

    def list(self, agent_id: str, kind: str | None, limit: int | None) -> list[Reference]:
        return [*self.storage.entries(agent_id, kind)[:limit]]


def _check_agent(checkpoint: Checkpoint, agent_id: str, reference: Reference) -> None:
    if checkpoint.agent_id != agent_id:
        raise WrongAgent(
            f"Checkpoint {reference} belongs to agent {checkpoint.agent_id}, not to {agent_id}",
            agent_id=checkpoint.agent_id,
            checkpoint_id=checkpoint.id,
            path=str(reference),
        )

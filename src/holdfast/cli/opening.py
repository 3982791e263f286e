"""Which store a command works on, and how it is opened: reading commands write nothing at all."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote

from holdfast.errors import MissingMethod, Unopenable

if TYPE_CHECKING:
    from holdfast.cli.command import Invocation
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.retention import Policy
    from holdfast.storage.protocol import CheckpointStorage
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

ENVIRONMENT: Final = "HOLDFAST_STORE"
DEFAULT: Final = "checkpoints.db"


def store_name(invocation: Invocation) -> str:
    return invocation.store or os.environ.get(ENVIRONMENT) or DEFAULT


def store_path(name: str) -> Path:
    """The file or folder that a name or URL stands for.

    In a URL three slashes begin a path as it is given, so that an absolute one has four; `file:` follows the
    standard, where three slashes begin an absolute path.

    >>> store_path("sqlite:///notes.db"), store_path("sqlite:////var/notes.db"), store_path("file:///var/notes")
    (PosixPath('notes.db'), PosixPath('/var/notes.db'), PosixPath('/var/notes'))
    """
    scheme, colon, rest = name.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9+.]+", scheme) or Path(name).exists():
        try:
            return Path(name).expanduser()
        except RuntimeError as error:
            raise Unopenable(f"{name} names no folder: {error}", path=name) from error
    if scheme == "sqlite" and rest.startswith("///"):
        return Path(unquote(rest[3:]))
    if scheme == "file" and rest.startswith("/"):
        return Path(unquote(re.sub("^//(?=/)", "", rest)))
    if scheme == "memory":
        raise Unopenable(
            "A store in memory lives in its own process only", hint="Name the file or folder of a store: --store PATH."
        )
    raise Unopenable(f"{name} names no kind of store", hint="Use a path, sqlite:///PATH or file:///DIR.")


def existing(name: str) -> Path:
    """The path of a store that is there. Nothing is ever made by looking for it."""
    path = store_path(name)
    if not path.exists():
        raise Unopenable(
            f"There is no store at {path.absolute()}",
            path=str(path),
            hint=f"Name one with --store PATH, or set {ENVIRONMENT}.",
        )
    return path


def sqlite_path(invocation: Invocation, what: str) -> Path:
    """The file of a store that is there and is a SQLite file."""
    path = existing(store_name(invocation))
    if path.is_dir() or store_name(invocation).startswith("file:"):
        raise MissingMethod(
            f"{path} is a folder of checkpoint files, which can't {what}", hint="A SQLite store can; see the docs."
        )
    return path


@asynccontextmanager
async def reading(
    invocation: Invocation, *, retention: Policy | None = None, anchor: str | None = None
) -> AsyncIterator[CheckpointManager]:
    """A manager of the store, opened so that nothing can be written."""
    if anchor is None:
        storage = _storage(invocation, read_only=True)
    else:
        storage = sqlite(sqlite_path(invocation, "be held against an anchor"), read_only=True, anchor=anchor)
    async with _manager(storage, retention) as manager:
        yield manager


@asynccontextmanager
async def writing(invocation: Invocation, *, retention: Policy | None = None) -> AsyncIterator[CheckpointManager]:
    """A manager of a store that is there already."""
    storage = _storage(invocation, read_only=False)
    async with _manager(storage, retention) as manager:
        yield manager


@asynccontextmanager
async def creating(invocation: Invocation) -> AsyncIterator[CheckpointManager]:
    """A manager of the store, which is made if it is not there."""
    name = store_name(invocation)
    storage = _storage(invocation, read_only=False) if store_path(name).exists() else sqlite(store_path(name))
    async with _manager(storage, None) as manager:
        yield manager


@asynccontextmanager
async def _manager(storage: CheckpointStorage, retention: Policy | None) -> AsyncIterator[CheckpointManager]:
    from holdfast.cli.warnings import shown_warnings
    from holdfast.durable.manager import CheckpointManager

    with shown_warnings():
        async with CheckpointManager(storage, retention=retention) as manager:
            yield manager


def _storage(invocation: Invocation, *, read_only: bool) -> CheckpointStorage:
    name = store_name(invocation)
    path = existing(name)
    if path.is_dir():
        if name.startswith("sqlite:"):
            raise Unopenable(f"{path} is a directory", path=str(path), hint="Name a file, or use file:///DIR.")
        from holdfast.cli.folder import FolderStore
        from holdfast.storage.files import FileCheckpointStorage

        return cast("CheckpointStorage", FolderStore(FileCheckpointStorage(path)))
    if name.startswith("file:"):
        raise Unopenable(f"{path} is not a directory", path=str(path), hint="Name a folder, or use sqlite:///PATH.")
    return sqlite(path, read_only=read_only)


def sqlite(path: Path, *, read_only: bool = False, anchor: str | None = None) -> SQLiteCheckpointStorage:
    """A SQLite store without limits: those are the program's that writes it, and nobody asked us to apply ours."""
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

    return SQLiteCheckpointStorage(path, max_checkpoints_per_user=None, read_only=read_only, anchor=anchor)

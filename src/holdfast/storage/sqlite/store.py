"""`SQLiteCheckpointStorage`: a full store in one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import Closed, Corrupt, HoldfastError, KeyMissing, ReadOnly
from holdfast.history import codec
from holdfast.storage.base import FullStorage
from holdfast.storage.sqlite import lifetime
from holdfast.storage.sqlite.findings import SENSELESS
from holdfast.storage.sqlite.readside import ReadSide
from holdfast.storage.sqlite.session import Settings
from holdfast.storage.sqlite.writeside import Work, WriteSide

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.history.records import Record
    from holdfast.storage.protocol import (
        AgentInfo,
        Change,
        Committed,
        InboxMessage,
        Pending,
        Progress,
        Query,
        Report,
        RunPlace,
    )
    from holdfast.storage.sqlite.ledger import Ledger
    from holdfast.storage.sqlite.reader import Reader
    from holdfast.storage.sqlite.session import WriteSession

T = TypeVar("T")


class SQLiteCheckpointStorage(FullStorage):
    """A full store in one file. Opened at first use; usable from every thread and event loop of a process.

    `max_checkpoints_per_user` is a soft limit on `auto`, `manual` and `workflow` checkpoints; None keeps all.
    `key` overrides HOLDFAST_KEY and the key file beside the database. With `read_only` nothing is ever written.
    `anchor` is a file kept elsewhere that remembers how far the store was: an older copy in its place is `RolledBack`.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and none is needed
        self,
        db_path: str | os.PathLike[str] = "checkpoints.db",
        max_checkpoints_per_user: int | None = 100,
        *,
        max_checkpoints: int | None = None,
        key: str | bytes | None = None,
        read_only: bool = False,
        allow_network: bool | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        vfs: str | None = None,
        anchor: str | os.PathLike[str] | None = None,
    ) -> None:
        self.max_checkpoints_per_user = max_checkpoints_per_user
        self.max_checkpoints = max_checkpoints
        if allow_network is None:
            allow_network = os.environ.get("HOLDFAST_ALLOW_NETWORK", "") not in ("", "0")
        self.settings = Settings(
            path=Path(db_path), key=key, read_only=read_only, allow_network=allow_network, vfs=vfs, now=now,
            anchor=None if anchor is None else Path(anchor),
        )  # fmt: skip
        self._begin()
        lifetime.watch(self)

    def _begin(self) -> None:
        self._closed = False
        self._reads_only = self.settings.read_only
        self.write_side = WriteSide(self.settings)
        self.read_side = ReadSide(self.settings)

    def __repr__(self) -> str:
        return f"SQLiteCheckpointStorage({str(self.settings.path)!r})"

    @property
    def path(self) -> Path:
        return self.settings.path

    # --- the verbs of a store

    async def commit(self, *changes: Change) -> list[Committed]:
        return await self._write(
            lambda ledger: ledger.apply(changes),
            room_bytes=sum(change.room_bytes for change in changes),
            adds_nothing=all(not (change.records or change.checkpoint or change.hold) for change in changes),
        )

    async def send(self, agent_id: str, user_id: str, content: Any, *, sender: str) -> int:
        # Encoded now, so that the sender may go on with what it sent, and an unknown type is refused by its path.
        kept = codec.decode(codec.encode(content, path="content"))
        return await self._write(lambda ledger: ledger.send(agent_id, user_id, kept, sender=sender))

    async def read(
        self, agent_id: str, *, after: int = 0, limit: int | None = None, snapshots: bool = True
    ) -> list[Record]:
        return await self._read(lambda reader: reader.read(agent_id, after, limit, snapshots=snapshots))

    async def snapshot(self, agent_id: str, seq: int) -> bytes | None:
        return await self._read(lambda reader: reader.snapshot(agent_id, seq))

    async def runs(
        self,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        session: str | None = None,
        user_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunPlace]:
        return await self._read(lambda reader: reader.runs(agent_id, name, session, user_id, limit))

    async def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None:
        return await self._read(lambda reader: reader.fetch(checkpoint_id))

    async def position(self, checkpoint_id: str) -> Checkpoint | None:
        return await self._read(lambda reader: reader.position(checkpoint_id))

    async def agents(self, user_id: str | None = None) -> list[AgentInfo]:
        return await self._read(lambda reader: reader.agents(user_id))

    async def agent(self, agent_id: str) -> AgentInfo | None:
        return await self._read(lambda reader: reader.agent(agent_id))

    async def group(self, group_id: str) -> list[str]:
        return await self._read(lambda reader: reader.group(group_id))

    async def pending(self, what: str, *, user_id: str | None = None, agent_id: str | None = None) -> list[Pending]:
        return await self._read(lambda reader: reader.pending(what, user_id, agent_id))

    async def inbox(self, agent_id: str, *, limit: int = 100) -> list[InboxMessage]:
        return await self._read(lambda reader: reader.inbox(agent_id, limit))

    # --- care

    async def verify(self, progress: Progress | None = None) -> Report:
        """Checks everything that is stored, on a connection of its own, while others go on.

        When all is well, the anchor follows, if there is one.
        """
        from holdfast.storage.sqlite.verify import verify

        anchor = self.settings.its_anchor()

        def inspected(reader: Reader) -> Report:
            report = verify(reader, progress)
            if report.ok and anchor is not None:
                anchor.follow(reader.db, reader.cells)
            return report

        return await self._aside(inspected)

    async def stats(self) -> dict[str, Any]:
        from holdfast.storage.sqlite.stats import stats

        return await self._aside(lambda reader: stats(reader, self))

    async def collect_garbage(self, progress: Progress | None = None) -> dict[str, int]:
        return await self._alone(lambda session: self.write_side.collect_garbage(session, progress))

    async def backup(
        self, target: str | os.PathLike[str], progress: Progress | None = None, *, overwrite: bool = False
    ) -> dict[str, Any]:
        """Copies the database and its key, as of one moment, while others go on writing. Returns what was made."""
        from holdfast.storage.sqlite.backup import backup

        path = Path(target)
        return await self._aside(lambda reader: backup(reader, self.settings, path, progress, overwrite=overwrite))

    async def rotate_key(self) -> int:
        """Adds a key to the ring; what is written from now on names it. Returns its number."""
        from holdfast.storage.sqlite.rekey import rotate

        return await self._alone(rotate)

    async def reopen(self) -> None:
        """After `Poisoned`: opens the file anew, with a first writer's precautions, and reads its head again."""
        self._check_open()
        await self._close_sides()
        self._begin()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._close_sides()

    async def _close_sides(self) -> None:
        await self.read_side.close()
        await self.write_side.close()

    def close_now(self) -> None:
        """For the end of the program, when no event loop runs any more."""
        if not self._closed:
            self._closed = True
            self.read_side.close_now()
            self.write_side.close_now()

    # --- ways in

    async def _write(self, work: Callable[[Ledger], T], *, room_bytes: int = 0, adds_nothing: bool = False) -> T:
        self._check_open()
        if self.settings.read_only:
            raise ReadOnly(f"{self.path} was opened for reading only", path=str(self.path))
        return await self.write_side.commit(Work(work, room_bytes=room_bytes, adds_nothing=adds_nothing))

    async def _alone(self, work: Callable[[WriteSession], T]) -> T:
        self._check_open()
        if self.settings.read_only:
            raise ReadOnly(f"{self.path} was opened for reading only", path=str(self.path))
        return await self.write_side.alone(work)

    async def _read(self, work: Callable[[Reader], T]) -> T:
        await self._ready()
        return await self._answer(self.read_side, work)

    async def _answer(self, side: ReadSide, work: Callable[[Reader], T]) -> T:
        try:
            return await side.read(work)
        except HoldfastError:
            raise
        except SENSELESS as error:  # a damaged page can hold any type and any text where ours should be
            raise Corrupt(f"{self.path} holds what can't be read: {error!r}", path=str(self.path)) from error

    async def _aside(self, work: Callable[[Reader], T]) -> T:
        """Long reading on a thread and a connection of its own, so that short reads need not wait."""
        await self._ready()
        aside = ReadSide(self.settings)
        try:
            return await self._answer(aside, work)
        finally:
            await aside.close()

    async def _ready(self) -> None:
        """A store that may write is opened by its writing side first, which makes it safe to trust."""
        self._check_open()
        if self._reads_only or self.write_side.is_open:
            return
        try:
            await self.write_side.open()
        except (KeyMissing, ReadOnly):
            self._reads_only = True  # without its key, or on a read-only disk, a store still opens for reading

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"The storage of {self.path} was closed", path=str(self.path))

    async def list(self, query: Query) -> list[Checkpoint]:
        return await self._read(lambda reader: reader.list(query))

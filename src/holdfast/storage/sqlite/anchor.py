"""The anchor: a small file kept apart from a store, which shows when the store was put back from an older copy.

A store authenticates itself, so an old copy of it does as well: only what is kept elsewhere can tell. The anchor says
how far the store was: its commit number, and the end of the store's own history. That history gets a record from every
writer that opens the store with an anchor, so a store that went on from an old copy has another one in its place.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import RolledBack, Unopenable
from holdfast.storage.authenticity import unkeyed_hash
from holdfast.storage.durably import locked, sync_folder
from holdfast.storage.sqlite.rows import Rows
from holdfast.storage.sqlite.schema import STORE, key_of

if TYPE_CHECKING:
    from holdfast.storage.sqlite.cells import Cells
    from holdfast.storage.sqlite.database import Database

log = logging.getLogger("holdfast")

_BYTES: Final = 256  # always the same, and within one sector: it is overwritten in place, whole or not at all


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far a store was."""

    store: str
    commit: int
    seq: int  # the last record of the store's own history
    chain: str  # the MAC of that record


class Anchor:
    """Holds a store against what the file remembers, and lets the file follow the store.

    The file is written after a commit and not synced: after a power loss it may be behind the store, never ahead.
    """

    def __init__(self, path: Path, store: Path) -> None:
        self.path = path
        self._store = store

    def check(self, db: Database, cells: Cells) -> None:
        """Raises RolledBack unless the store is where the anchor says, or went on from there."""
        with self._held() as file:
            mark = self._read(file)
        if mark is None:
            return
        store = Rows(db, cells).store()
        if mark.store != cells.store_id.hex():
            raise self._not_it("is another store than the one that its anchor belongs to")
        if store.commit_number < mark.commit or store.seq < mark.seq:
            raise self._not_it(f"is at commit {store.commit_number}, but was at {mark.commit}")
        if self._went_on(db, cells, mark, store.chain if store.seq == mark.seq else None):
            return
        raise self._not_it(f"was put back to before commit {mark.commit} and went on from there")

    def check_empty(self) -> None:
        """Raises RolledBack when there was a store where a new one is about to be made."""
        with self._held() as file:
            mark = self._read(file)
        if mark is not None:
            raise self._not_it(f"is not there any more, or is empty, but was at commit {mark.commit}")

    def follow(self, db: Database, cells: Cells) -> None:
        """Remembers how far the store is. To be called in a transaction, or in turn."""
        store = Rows(db, cells).store()
        now = Mark(store=cells.store_id.hex(), commit=store.commit_number, seq=store.seq, chain=store.chain.hex())
        with self._held() as file:
            before = self._read(file)
            if before is not None and before.commit >= now.commit:  # another process was quicker
                return
            os.pwrite(file, _packed(now), 0)
            if before is None:
                os.fsync(file)
                sync_folder(self.path.parent)

    def try_to_follow(self, db: Database, cells: Cells) -> None:
        """The same after a commit, which must not fail for it: an anchor that stays behind is still right."""
        try:
            self.follow(db, cells)
        except Unopenable as error:
            log.warning("The anchor of %s stays behind: %s", self._store, error)

    @staticmethod
    def _went_on(db: Database, cells: Cells, mark: Mark, end: bytes | None) -> bool:
        """Whether the store's own history has the marked record, and after it only what came later."""
        if end is not None:
            return end.hex() == mark.chain
        key = key_of(STORE, mark.seq)
        found = dict(db.execute("SELECT key, body FROM records WHERE key IN (?, ?)", (key, key + 1)).fetchall())
        if len(found) < 2 or cells.chain_of(found[key]).hex() != mark.chain:
            return False
        chain = bytes.fromhex(mark.chain)
        _, commit_number = cells.unpack_record(key + 1, chain, found[key + 1], agent_id="", seq=mark.seq + 1)
        return commit_number > mark.commit

    # --- the file

    @contextmanager
    def _held(self) -> Iterator[int]:
        if "\0" in str(self.path):
            raise Unopenable(f"{str(self.path)!r} is no path of an anchor", path=str(self.path))
        try:
            with locked(self.path) as file:
                yield file
        except OSError as error:
            raise Unopenable(
                f"The anchor {self.path} can't be used: {error.strerror}", path=str(self.path), hint="Check the path."
            ) from error

    def _read(self, file: int) -> Mark | None:
        data = os.pread(file, _BYTES + 1, 0)
        if not data:
            return None
        try:
            fields = json.loads(data)
            check = fields.pop("check")
            mark = Mark(**fields)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            mark = None
        if mark is None or check != _check(mark):
            raise Unopenable(
                f"The anchor {self.path} is damaged, or is no anchor",
                path=str(self.path),
                hint="Make sure by other means that the store is as new as it must be; then remove the anchor.",
            )
        return mark

    def _not_it(self, what: str) -> RolledBack:
        return RolledBack(f"{self._store} {what} (anchor {self.path})", path=str(self._store))


def _packed(mark: Mark) -> bytes:
    return json.dumps({**asdict(mark), "check": _check(mark)}).encode().ljust(_BYTES - 1) + b"\n"


def _check(mark: Mark) -> str:
    return unkeyed_hash(json.dumps(asdict(mark)).encode())[:4].hex()

"""The reading thread of a storage object: each answer from one consistent moment of the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.errors import Closed, HoldfastError
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.sqlite import failures, lastcommit, lifetime, locks, opening
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.keyring import check_keys, find_ring
from holdfast.storage.sqlite.reader import Reader
from holdfast.storage.sqlite.session import Settings
from holdfast.storage.sqlite.worker import Job, Worker

T = TypeVar("T")
_SECONDS_AT_EXIT = 5


def _let_go(_: Reader) -> None:
    """The job after which nothing is open."""


class ReadSide:
    """Owns a connection that only reads; opens it at the first job."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.activity = threading.Lock()
        self.reader: Reader | None = None
        self._passive = settings.read_only  # a store without its key is read that way too
        self._log_waited = False
        self._worker = Worker("holdfast-reader", self._serve)

    async def read(self, work: Callable[[Reader], T]) -> T:
        result: T = await self._worker.do(work)
        return result

    async def close(self) -> None:
        if self.reader is not None:
            await self._worker.do(_let_go)
        self._worker.stop()

    def close_now(self) -> None:
        if self.reader is not None:
            self._worker.do_blocking(_let_go, seconds_max=_SECONDS_AT_EXIT)
        if thread := self._worker.stop():
            thread.join(_SECONDS_AT_EXIT)

    # --- on the reading thread

    def _serve(self, jobs: list[Job]) -> None:
        with self.activity:
            for job in jobs:
                if job.work is _let_go:
                    self._let_go()
                    continue
                try:
                    job.result = self._answer(job.work)
                except apsw.Error as error:
                    job.error = failures.translated(error, str(self.settings.path))
                    self._let_go()
                except OSError as error:
                    job.error = failures.of_system(error, self.settings.path)
                except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the job
                    job.error = error

    def _answer(self, work: Callable[[Reader], T]) -> T:
        """Asks; when a writer appeared beside a file that was read as it lay, asks again properly."""
        for _ in range(3):
            reader = self._opened()
            changed = False
            try:
                reader.db.execute("BEGIN")
                try:
                    return work(reader)
                finally:
                    changed = self._changed()
                    if not reader.db.get_autocommit():  # an error may have ended it, and must not be hidden
                        reader.db.execute("ROLLBACK")
            except (apsw.Error, HoldfastError):
                if not changed:
                    raise
            finally:
                if changed:
                    self._let_go()
        raise Closed(f"{self.settings.path} keeps changing under a read-only reader", path=str(self.settings.path))

    def _changed(self) -> bool:
        return self._passive and opening.log_waits(self.settings.path) != self._log_waited

    def _opened(self) -> Reader:
        if self.reader is not None and not self._changed():
            return self.reader
        self._let_go()
        path = self.settings.path
        lifetime.check_file(path, allow_network=self.settings.allow_network, must_exist=True)
        lifetime.opened(path)  # before it is: from now on nobody here may touch the file by other means
        try:
            db, cells = self._connected(path)
        except BaseException:
            lifetime.closed(path)
            raise
        alive = partial(locks.is_alive, self.settings.beside(".writers"), sweep=False)
        self.reader = Reader(db, cells, alive)
        return self.reader

    def _connected(self, path: Path) -> tuple[apsw.Connection, Cells]:
        has_key = keys.explicit_ring(self.settings.key) is not None or keys.key_path(path).exists()
        self._passive = self.settings.read_only or not has_key
        last = lastcommit.read(path) if self._passive else None  # elsewhere the writing side has done it
        lastcommit.check_there(path, last)
        self._log_waited = opening.log_waits(path)
        if self._passive:
            db = opening.connect_read_only(path, vfs=self.settings.vfs)
        else:
            db = opening.connect_reader(path, vfs=self.settings.vfs)
        try:
            lastcommit.check(path, db, last)
            opening.check_tables(db, path)
            ring = find_ring(db, path, self.settings.key)
            cells = Cells(ring or Ring({}), check_keys(db, ring, path))
            if self._passive and (anchor := self.settings.its_anchor()) is not None:
                anchor.check(db, cells)
        except BaseException:
            db.close()
            raise
        return db, cells

    def _let_go(self) -> None:
        if self.reader is not None:
            with suppress(apsw.Error):  # the last connection writes when it is closed, perhaps to a disk that fails
                self.reader.db.close()
            lifetime.closed(self.settings.path)
            self.reader = None

    def forget_in_child(self) -> list[Any]:
        kept = [] if self.reader is None else [self.reader.db]
        self.reader = None
        self.activity = threading.Lock()
        self._worker = Worker("holdfast-reader", self._serve)
        return kept

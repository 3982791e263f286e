"""The writing thread of a storage object: group commit, one turn at a time, poisoned by an I/O error."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from holdfast.errors import Corrupt, HoldfastError, Poisoned, ReadOnly, Unopenable
from holdfast.storage.sqlite import failures, lifetime
from holdfast.storage.sqlite.session import Settings, WriteSession, give_back_space, transaction
from holdfast.storage.sqlite.worker import Job, Worker

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.ledger import Ledger

T = TypeVar("T")
_SECONDS_AT_EXIT = 5
log = logging.getLogger("holdfast")

_FREE_PAGES_MAX = 256  # more than this is given back as it comes


class WriteSide:
    """Owns the writing session; opens it at the first job."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.activity = threading.Lock()  # held while the database is touched, so that fork() can wait for it
        self.session: WriteSession | None = None
        self._poison: HoldfastError | None = None
        self._worker = Worker("holdfast-writer", self._serve)

    @property
    def is_open(self) -> bool:
        return self.session is not None

    async def open(self) -> None:
        await self._worker.do(lambda _: None, alone=True)

    async def commit(self, work: Callable[[Ledger], T]) -> T:
        """Runs the work in a transaction, together with whatever else is waiting for one."""
        result: T = await self._worker.do(work)
        return result

    async def alone(self, work: Callable[[WriteSession], T]) -> T:
        """Runs the work on the writing thread; it takes its own turns and transactions."""
        result: T = await self._worker.do(work, alone=True)
        return result

    async def close(self) -> None:
        if self.session is not None:
            await self._worker.do(self._end, alone=True)
        self._worker.stop()

    def close_now(self) -> None:
        if self.session is not None:
            self._worker.do_blocking(self._end, seconds_max=_SECONDS_AT_EXIT)
        if thread := self._worker.stop():
            thread.join(_SECONDS_AT_EXIT)

    # --- on the writing thread

    def _serve(self, jobs: list[Job]) -> None:
        with self.activity:
            try:
                session = self._opened()
            except (HoldfastError, apsw.Error, OSError) as error:
                told = self._opening_failed(error)
                for job in jobs:
                    job.error = told
                return
            for alone, group in groupby(jobs, key=lambda job: job.alone):
                if alone:
                    for job in group:
                        self._run_alone(session, job)
                else:
                    self._run_together(session, list(group))
            if self.session is not None and session.is_open:
                self._housekeep(session)

    def _opened(self) -> WriteSession:
        if self._poison is not None:
            raise self._poison
        if self.session is None:
            path = self.settings.path
            lifetime.check_file(path, allow_network=self.settings.allow_network, must_exist=False)
            lifetime.opened(path)  # before it is: from now on nobody here may touch the file by other means
            try:
                self.session = WriteSession(self.settings)
            except BaseException:
                lifetime.closed(path)
                raise
        return self.session

    def _end(self, session: WriteSession) -> None:
        session.close()
        self.session = None
        lifetime.closed(self.settings.path)

    def _opening_failed(self, error: Exception) -> HoldfastError:
        path = str(self.settings.path)
        if isinstance(error, HoldfastError):
            return error
        if isinstance(error, apsw.Error):
            return failures.translated(error, path)
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            return ReadOnly(f"{path} can't be opened for writing: {error.strerror}", path=path)
        return Unopenable(f"{path} can't be opened: {error}", path=path, hint="Check the path and the disk.")

    def _run_together(self, session: WriteSession, jobs: list[Job]) -> None:
        ledger, db = session.ledger, session.db
        holds = dict(ledger.holds)
        try:
            with session.turn.held():
                with ledger.rows.remembering(), transaction(db):
                    for job in jobs:
                        _run_one(ledger, db, job)
                    ledger.rows.settle()
                if session.anchor is not None:
                    session.anchor.try_to_follow(db, session.cells)
        except apsw.Error as error:
            told = failures.translated(error, str(self.settings.path))
            self._failed(session, error, told, holds)
            for job in jobs:
                job.error = told
        except _TakenBack:
            ledger.holds = holds
            ledger.states.newest.clear()
            if len(jobs) > 1:
                self._run_one_by_one(session, jobs)

    def _run_one_by_one(self, session: WriteSession, jobs: list[Job]) -> None:
        """After one of them spoilt their transaction: each in its own. It is rare, so no savepoint guards every job."""
        for job in jobs:
            job.result, job.error = None, self._poison
            if self._poison is None:
                self._run_together(session, [job])

    def _run_alone(self, session: WriteSession, job: Job) -> None:
        try:
            job.result = job.work(session)
        except apsw.Error as error:
            job.error = failures.translated(error, str(self.settings.path))
            self._failed(session, error, job.error, {})
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the job
            job.error = error

    def _failed(self, session: WriteSession, error: apsw.Error, told: HoldfastError, holds: dict[str, int]) -> None:
        session.ledger.holds = holds
        session.ledger.states.newest.clear()
        if isinstance(error, failures.POISONING):
            self._poison = Poisoned(
                f"The store {self.settings.path} had an I/O error and must be opened again: {told.message}",
                path=str(self.settings.path),
            )
            session.abandon()
            lifetime.closed(self.settings.path)
            self.session = None

    # --- housekeeping: never fails a save

    def _housekeep(self, session: WriteSession) -> None:
        """Rewrites half-dead segments and gives free pages back, a little after each batch."""
        ledger, db = session.ledger, session.db
        if not ledger.overfull and not ledger.freed:
            return
        try:
            with session.turn.held(), transaction(db):
                if ledger.overfull:
                    ledger.compact_one()
                ledger.freed = False
                [(free,)] = db.execute("PRAGMA freelist_count").fetchall()
                if free > _FREE_PAGES_MAX:
                    db.execute(f"PRAGMA incremental_vacuum({free - _FREE_PAGES_MAX // 2})").fetchall()
        except (apsw.Error, Corrupt) as error:
            ledger.overfull.clear()
            ledger.states.newest.clear()
            log.warning("Housekeeping in %s was left for later: %s", self.settings.path, error)
            if isinstance(error, failures.POISONING):
                self._failed(session, error, failures.translated(error, str(self.settings.path)), {})

    def collect_garbage(self, session: WriteSession, progress: Progress | None) -> dict[str, int]:
        """Rewrites every segment that holds something deleted, and gives all free space back."""
        db, ledger = session.db, session.ledger
        before = _size(db)
        numbers = ledger.with_leftovers()
        for done, number in enumerate(numbers):
            if progress is not None:
                progress("rewriting", done, len(numbers))
            self._compact_with_ballast(session, number)
        with session.turn.held():
            free = give_back_space(db)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if progress is not None:
            progress("rewriting", len(numbers), len(numbers))
        session.ballast.load()
        return {"agents": len(numbers), "pages": free, "bytes": max(0, before - _size(db))}

    def _compact_with_ballast(self, session: WriteSession, number: int) -> None:
        """On a full disk, the ballast is the room in which to make room."""
        for attempt in (1, 2):
            try:
                with session.turn.held(), transaction(session.db):
                    session.ledger.compact(number)
            except apsw.FullError:
                session.ledger.states.newest.clear()
                if attempt == 2 or not session.ballast.drop():
                    raise
            except Corrupt as error:
                session.ledger.states.newest.clear()
                log.warning("What was deleted of agent number %d can't be rewritten: %s", number, error)
                return
            else:
                return

    # --- fork

    def forget_in_child(self) -> list[Any]:
        """In a forked child: lets go of what belongs to the parent, and returns what must never be closed here."""
        kept: list[Any] = []
        if self.session is not None:
            self.session.presence.drop_in_child()
            kept = [self.session]
        self.session = None
        self.activity = threading.Lock()
        self._worker = Worker("holdfast-writer", self._serve)
        return kept


class _TakenBack(Exception):
    """A commit was refused after it had begun to write: the transaction that it shares can't be kept."""


def _run_one(ledger: Ledger, db: Database, job: Job) -> None:
    """One commit among others. One that is refused before it writes, as nearly all are, leaves the others alone."""
    before = db.total_changes()
    try:
        job.result = job.work(ledger)
    except apsw.Error:
        raise
    except Exception as error:
        job.error = error
        if db.total_changes() != before:
            raise _TakenBack from error


def _size(db: Database) -> int:
    [(pages,)] = db.execute("PRAGMA page_count").fetchall()
    [(size,)] = db.execute("PRAGMA page_size").fetchall()
    return int(pages) * int(size)

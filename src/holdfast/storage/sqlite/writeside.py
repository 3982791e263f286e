"""The writing thread of a storage object: group commit, one turn at a time, poisoned by an I/O error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import apsw

from holdfast.errors import Corrupt, DiskFull, HoldfastError, Poisoned, ReadOnly, Unopenable
from holdfast.storage.durably import NO_ROOM, NOT_ALLOWED
from holdfast.storage.sqlite import failures, lifetime
from holdfast.storage.sqlite.findings import SENSELESS
from holdfast.storage.sqlite.session import Settings, WriteSession, free_pages, give_back_space, transaction
from holdfast.storage.sqlite.worker import Job, Worker

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.storage.protocol import Progress
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.ledger import Ledger

T = TypeVar("T")
_SECONDS_AT_EXIT = 5
log = logging.getLogger("holdfast")

_FREE_PAGES_MAX = 256  # more than this is given back as it comes


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """What is to be done in a transaction, and what it means for the room on the disk."""

    does: Callable[[Ledger], T]
    room_bytes: int = 0  # as in `Change`
    adds_nothing: bool = False  # it only deletes, say, or gives an agent back

    def __call__(self, ledger: Ledger) -> T:
        return self.does(ledger)


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

    async def commit(self, work: Work[T]) -> T:
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
            except (HoldfastError, OSError, *SENSELESS) as error:
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
        if not isinstance(error, OSError):
            return Corrupt(f"{path} holds what can't be read: {error!r}", path=path)
        if error.errno in NOT_ALLOWED:
            return ReadOnly(f"{path} can't be opened for writing: {error.strerror}", path=path)
        if error.errno in NO_ROOM:
            return DiskFull(f"There is no room left to open {path}", path=path)
        return Unopenable(f"{path} can't be opened: {error}", path=path, hint="Check the path and the disk.")

    def _run_together(self, session: WriteSession, jobs: list[Job]) -> None:
        before = _Before(session)
        try:
            with session.turn.held():
                self._transact(session, jobs, before)
                if session.anchor is not None:
                    session.anchor.try_to_follow(session.db, session.cells)
        except apsw.Error as error:
            before.restore()
            if isinstance(error, apsw.FullError) and len(jobs) > 1:
                self._run_one_by_one(session, jobs)  # one that is too large must not keep the others out
                return
            told = failures.translated(error, str(self.settings.path))
            self._failed(session, error, told)
            _tell(jobs, told)
        except OSError as error:  # of the locks: before the commit or after it
            _tell(jobs, self._lost_turn(session, error))
        except _TakenBack:
            before.restore()
            if len(jobs) > 1:
                self._run_one_by_one(session, jobs)
        else:
            _release(session, jobs)

    def _transact(self, session: WriteSession, jobs: list[Job], before: _Before) -> None:
        """These jobs in one transaction. One alone that finds the disk full is given the room that was kept for it."""
        reached = None

        def attempt() -> None:
            nonlocal reached
            with session.ledger.rows.remembering(), transaction(session.db):
                for job in jobs:
                    _run_one(session, job)
                reached = session.ledger.rows.settle()

        try:
            _with_room(attempt, [] if len(jobs) > 1 else _rescues(session, jobs[0].work), before)
        except apsw.FullError:
            session.reserve.restore()
            raise
        if reached is not None:
            session.last.put(reached)

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
            session.ledger.states.newest.clear()
            self._failed(session, error, job.error)
        except OSError as error:
            job.error = self._lost_turn(session, error)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the job
            job.error = _as_ours(error, self.settings.path)

    def _failed(self, session: WriteSession, error: apsw.Error, told: HoldfastError) -> None:
        if isinstance(error, failures.POISONING):
            self._give_up(session, told)

    def _lost_turn(self, session: WriteSession, error: OSError) -> HoldfastError:
        """After an error of the locks nobody knows whose turn it is."""
        told = failures.of_system(error, self.settings.path)
        self._give_up(session, told)
        return told

    def _give_up(self, session: WriteSession, told: HoldfastError) -> None:
        if self.session is None:
            return
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
                free = free_pages(db)
                if free > _FREE_PAGES_MAX:
                    db.execute(f"PRAGMA incremental_vacuum({free - _FREE_PAGES_MAX // 2})").fetchall()
        except (apsw.Error, Corrupt) as error:
            ledger.overfull.clear()
            ledger.states.newest.clear()
            log.warning("Housekeeping in %s was left for later: %s", self.settings.path, error)
            if isinstance(error, apsw.Error):
                self._failed(session, error, failures.translated(error, str(self.settings.path)))
        except OSError as error:
            told = self._lost_turn(session, error)
            log.warning("Housekeeping in %s failed: %s", self.settings.path, told.message)

    def collect_garbage(self, session: WriteSession, progress: Progress | None) -> dict[str, int]:
        """Rewrites every segment that holds something deleted, and gives all free space back."""
        db, ledger = session.db, session.ledger
        before = _size(db)
        numbers = ledger.with_leftovers()
        for done, number in enumerate(numbers):
            if progress is not None:
                progress("rewriting", done, len(numbers))
            with session.turn.held():
                self._compact(session, number)
        with session.turn.held():
            free = free_pages(db)
            _with_room(partial(give_back_space, db), [session.make_room, session.make_room], _Before(session))
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if progress is not None:
            progress("rewriting", len(numbers), len(numbers))
        session.ballast.load()
        return {"agents": len(numbers), "pages": free, "bytes": max(0, before - _size(db))}

    def _compact(self, session: WriteSession, number: int) -> None:
        try:
            _with_room(partial(_compact, session, number), [session.make_room], _Before(session))
        except Corrupt as error:
            session.ledger.states.newest.clear()
            log.warning("What was deleted of agent number %d can't be rewritten: %s", number, error)

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


class _Before:
    """What a writer knows of itself, for when a transaction comes to nothing."""

    def __init__(self, session: WriteSession) -> None:
        self._session = session
        self._holds = dict(session.ledger.holds)
        self._promised = session.reserve.promised

    def restore(self) -> None:
        self._session.ledger.holds = dict(self._holds)
        self._session.reserve.promised = self._promised
        self._session.ledger.states.newest.clear()


class _TakenBack(Exception):
    """A commit was refused after it had begun to write: the transaction that it shares can't be kept."""


def _tell(jobs: list[Job], error: HoldfastError) -> None:
    for job in jobs:
        job.error = error


def _as_ours(error: Exception, path: Path) -> Exception:
    """What went wrong in a commit; what can only come of the system or of damage as an error of ours."""
    if isinstance(error, OSError):
        return failures.of_system(error, path)
    if isinstance(error, UnicodeDecodeError):  # a name that is no text any more
        return Corrupt(f"{path} holds what can't be read: {error}", path=str(path))
    return error


def _release(session: WriteSession, jobs: list[Job]) -> None:
    """Room that results needed which are written now. Also if one was refused: whoever was taken over needs none."""
    for job in jobs:
        if job.work.room_bytes < 0:
            session.reserve.release(-job.work.room_bytes)


def _run_one(session: WriteSession, job: Job) -> None:
    """One commit among others. One that is refused before it writes, as nearly all are, leaves the others alone."""
    before, promised = session.db.total_changes(), session.reserve.promised
    try:
        if job.work.room_bytes > 0:
            session.reserve.promise(job.work.room_bytes)
        job.result = job.work(session.ledger)
    except apsw.Error:
        raise
    except Exception as error:
        session.reserve.promised = promised
        job.error = _as_ours(error, session.settings.path)
        if session.db.total_changes() != before:
            raise _TakenBack from error


def _compact(session: WriteSession, number: int) -> None:
    with transaction(session.db):
        session.ledger.compact(number)


def _with_room(attempt: Callable[[], None], rescues: Iterable[Callable[[], bool]], before: _Before) -> None:
    """Does it; again if the disk was full, as long as there is something left that can be given back."""
    left = iter(rescues)
    while True:
        try:
            return attempt()
        except apsw.FullError:
            before.restore()
            if not any(rescue() for rescue in left):
                raise


def _rescues(session: WriteSession, work: Work[Any]) -> list[Callable[[], bool]]:
    """The rooms that were kept for this on a full disk."""
    if work.room_bytes < 0:
        return [partial(session.reserve.give, -work.room_bytes), session.make_room]
    return [session.make_room] if work.adds_nothing else []


def _size(db: Database) -> int:
    [(pages,)] = db.execute("PRAGMA page_count").fetchall()
    [(size,)] = db.execute("PRAGMA page_size").fetchall()
    return int(pages) * int(size)

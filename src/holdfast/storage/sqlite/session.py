"""An open store: its connection, key ring and locks, from the first writer's precautions to the last one's clean-up."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import Closed, KeyMissing
from holdfast.history.records import StoreEvent
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.sqlite import failures, lastcommit, opening
from holdfast.storage.sqlite.anchor import Anchor
from holdfast.storage.sqlite.ballast import Ballast
from holdfast.storage.sqlite.cells import Cells, StoreRow
from holdfast.storage.sqlite.database import Database
from holdfast.storage.sqlite.keyring import check_keys, checks_of, find_ring, put_key_checks, settle_ring
from holdfast.storage.sqlite.lastcommit import Last, LastCommit
from holdfast.storage.sqlite.ledger import Ledger
from holdfast.storage.sqlite.locks import Presence, TurnLock
from holdfast.storage.sqlite.reserve import Reserve
from holdfast.storage.sqlite.rows import Rows
from holdfast.storage.sqlite.schema import APPLICATION_ID, FORMAT, SCHEMA, STORE, key_of

log = logging.getLogger("holdfast")

_PAGES_A_STEP: Final = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a store file is to be opened."""

    path: Path
    key: str | bytes | None = None
    read_only: bool = False
    allow_network: bool = False
    vfs: str | None = None
    anchor: Path | None = None
    now: Callable[[], datetime]

    def beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def its_anchor(self) -> Anchor | None:
        return None if self.anchor is None else Anchor(self.anchor, self.path)


class WriteSession:
    """The one connection of a storage object that writes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.turn = TurnLock(settings.beside(".lock"))
        self.presence = Presence(settings.beside(".writers"))
        self.ballast = Ballast(settings.path)
        self.anchor = settings.its_anchor()
        self.reserve = Reserve(self.presence, settings.path)
        self.last = LastCommit(settings.path)
        self._db: apsw.Connection | None = None
        try:
            with self.turn.held():
                self._open_on_any_disk()
        except BaseException:
            self.abandon()
            raise

    def _open_on_any_disk(self) -> None:
        """Opens; on a disk that is full, in the room of the ballast that was left there when it filled up."""
        try:
            self._open()
        except (apsw.FullError, apsw.IOError) as error:
            if not (failures.is_full(error) and self.ballast.drop()):
                raise
            self._let_go()
            self._open()

    def _open(self) -> None:
        path = self.settings.path
        alone = not self.presence.others_alive()
        last = lastcommit.read(path)
        self._check_there(last)
        if alone:
            # A crash may have left a log whose syncs failed: nothing in it is trusted until it was written again and
            # written back, and one commit of our own has reached the disk.
            opening.renew_log(path, vfs=self.settings.vfs)
        self._db = db = opening.connect_writer(path, vfs=self.settings.vfs)
        lastcommit.check(path, db, last)  # before the log is emptied: what may be left of it is evidence
        if alone:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ring = self._ring(db)
        opening.check_tables(db, path)
        store_id = check_keys(db, ring, path)
        if not ring:
            raise KeyMissing(f"The key of {path} is missing", path=str(path))
        self.cells = Cells(ring, store_id)
        if self.anchor is not None:
            self.anchor.check(db, self.cells)
        self.presence.appear()
        self.last.open(store_id, last)
        self.ledger = Ledger(
            db, self.cells, writer=self.presence.writer, alive=self.presence.alive, now=self.settings.now
        )
        self._add_keys(ring)
        if alone or self.anchor is not None:  # which is recognised by these records
            with transaction(db):
                self.note("opened", self.presence.writer)
        self.remember()
        if alone:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self.anchor is not None:
            self.anchor.follow(db, self.cells)
        self.ballast.load()

    def _check_there(self, last: Last | None) -> None:
        if self.anchor is not None and not opening.has_content(self.settings.path):
            self.anchor.check_empty()
        lastcommit.check_there(self.settings.path, last)

    def _ring(self, db: Database) -> Ring | None:
        """The store's keys, if they are there; a store that is not there yet is made."""
        is_new = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone() is None
        settle_ring(db, self.settings.path)
        ring = find_ring(db, self.settings.path, self.settings.key)
        if not is_new:
            return ring
        if self.anchor is not None:
            self.anchor.check_empty()
        if ring and keys.key_path(self.settings.path).exists():
            log.warning("%s is empty although it has a key: a new store is made", self.settings.path)
        create(db, ring or keys.new_ring(keys.key_path(self.settings.path)))
        return find_ring(db, self.settings.path, self.settings.key)

    def _add_keys(self, ring: Ring) -> None:
        """Ends a rotation that was interrupted, and takes in keys that were added by hand."""
        if ring.keys.keys() <= checks_of(self.db).keys():
            return
        with transaction(self.db):
            for number in put_key_checks(self.db, ring, self.cells.store_id):
                self.note("key_added", number)

    @property
    def db(self) -> Database:
        if self._db is None:
            raise Closed(f"The storage of {self.settings.path} was closed", path=str(self.settings.path))
        return self._db

    @property
    def is_open(self) -> bool:
        return self._db is not None

    def note(self, event: str, detail: object = None) -> None:
        """Writes a record into the store's own history."""
        note(self.ledger.rows, self.settings.now(), StoreEvent(event=event, detail=detail))

    def remember(self) -> None:
        """Notes the number of the last commit. To be called in turn, after whatever commits by itself."""
        self.last.put(self.ledger.rows.store().commit_number)

    def close(self) -> None:
        """Ends cleanly: the last writer gives free space back, empties the log and drops the ballast."""
        if self._db is None:
            return
        try:
            self._close()
        except OSError as error:  # of the locks: without them nobody may touch the database, as after a crash
            log.warning("%s could not be closed in order: %s", self.settings.path, error)
            self.abandon()

    def _close(self) -> None:
        with self.turn.held():
            self.presence.vanish()
            if not self.presence.others_alive():
                self.ballast.drop()
                with suppress(apsw.Error):  # a reader elsewhere, or a full disk: the next one will do it
                    give_back_space(self.db)
                    [(busy, _, _)] = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                    if not busy:
                        self.last.put(0)
            with suppress(apsw.Error):
                self.db.close()
        self._db = None
        self.last.close()
        self.turn.close()

    def abandon(self) -> None:
        """Lets go of everything without touching the database: after an I/O error nothing more is written."""
        self._let_go()
        with suppress(OSError):
            self.turn.close()

    def make_room(self) -> bool:
        """On a full disk: gives back what only takes up room, and with its help what the log takes up. To be called
        in turn. False if there was nothing to give.
        """
        made = self.ballast.drop() | self.reserve.give(0)
        with suppress(apsw.FullError):
            [(busy, frames, _)] = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            made = made or (not busy and frames > 0)
        return made

    def _let_go(self) -> None:
        if self._db is not None:
            with suppress(apsw.Error):
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._db.close()
        self._db = None
        self.last.close()
        self.presence.vanish()


def create(db: Database, ring: Ring) -> None:
    """Makes the tables of a new store, in one commit that is in the file itself when this returns."""
    store_id = secrets.token_bytes(16)
    with transaction(db):
        db.execute(SCHEMA)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("INSERT INTO meta (name, value) VALUES ('store_id', ?)", (store_id,))
        put_key_checks(db, ring, store_id)
        cells = Cells(ring, store_id)
        row = StoreRow(chain=cells.first_chain("", ""))
        db.execute("INSERT INTO agents (number, id, user, head) VALUES (?, x'', 0, ?)", (STORE, cells.pack_store(row)))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def note(rows: Rows, now: datetime, event: StoreEvent) -> None:
    """Appends a record to the store's own history, which is agent 0's."""
    store = rows.store()
    seq = store.seq + 1
    key = key_of(STORE, seq)
    number = store.commit_number + 1
    cell, chain = rows.cells.pack_record(key, store.chain, event.evolve(seq=seq), commit_number=number, at=now)
    rows.db.execute("INSERT INTO records (key, body) VALUES (?, ?)", (key, cell))
    rows.put_store(store.evolve(seq=seq, chain=chain, commit_number=number))


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """A write transaction; any exception takes it back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if not db.get_autocommit():
            with suppress(apsw.Error):
                db.execute("ROLLBACK")
        raise


def free_pages(db: Database) -> int:
    """How many pages of the file hold nothing."""
    [(free,)] = db.execute("PRAGMA freelist_count").fetchall()
    return int(free)


def give_back_space(db: Database) -> None:
    """Takes free pages out of the file, in steps that need little room."""
    for _ in range(0, free_pages(db), _PAGES_A_STEP):
        db.execute(f"PRAGMA incremental_vacuum({_PAGES_A_STEP})").fetchall()

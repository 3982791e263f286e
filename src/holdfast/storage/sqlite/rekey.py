"""Keys: adding one to a store's ring, and beginning a new ring when the old one is lost."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.errors import InvalidArgument, KeyMissing, StorageFailed
from holdfast.history.records import StoreEvent
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.durably import write_whole
from holdfast.storage.sqlite import failures, lastcommit, lifetime, opening
from holdfast.storage.sqlite.cells import Cells
from holdfast.storage.sqlite.keyring import (
    check_keys,
    checks_of,
    incoming_path,
    put_key_checks,
    settle_ring,
    store_id_of,
)
from holdfast.storage.sqlite.locks import Presence, TurnLock
from holdfast.storage.sqlite.reseal import Resealing
from holdfast.storage.sqlite.rows import Rows
from holdfast.storage.sqlite.session import note, transaction

if TYPE_CHECKING:
    from holdfast.storage.protocol import Progress
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.session import Settings, WriteSession


def rotate(session: WriteSession) -> int:
    """Adds a key to the ring; what anybody writes from now on names it. Returns its number.

    The key file comes first: nothing stored may name a key that is nowhere. After a crash in between the next writer
    finds a key that the store does not know yet, and takes it in.
    """
    path = session.settings.path
    if keys.explicit_ring(session.settings.key) is not None:
        raise InvalidArgument(
            f"The key of {path} comes from {keys.ENVIRONMENT} or an argument, so Holdfast can't add to it",
            hint="Append `,NUMBER:64-HEX-DIGITS` to what `holdfast key show --secret` prints, with the next number and"
            " new digits (`python -c 'import secrets; print(secrets.token_hex(32))'`), and give that to all processes.",
        )
    with session.turn.held():
        ring = keys.read_ring(keys.key_path(path))
        if ring is None:
            raise KeyMissing(f"The key of {path} is missing", path=str(path))
        check_keys(session.db, ring, path)
        with failures.told(keys.key_path(path)):
            grown = keys.grow_ring(keys.key_path(path), ring)
        session.cells.ring.adopt(grown)
        with transaction(session.db):
            for number in put_key_checks(session.db, grown, session.cells.store_id):
                session.note("key_added", number)
        session.remember()
    return grown.current


def reset(settings: Settings, progress: Progress | None = None) -> dict[str, Any]:
    """Begins a new ring without the old key: authenticates anew what the unkeyed hashes confirm.

    What they do not confirm stays as it is, and so stays Corrupt; the result names it. Interpreter snapshots are
    dropped, because a snapshot is code: their runs are replayed. The new key is HOLDFAST_KEY or the argument where
    there is one, else it is made beside the database; a key file that was there is kept as `.key.replaced`.
    """
    path = settings.path
    lifetime.check_file(path, allow_network=settings.allow_network, must_exist=True)
    if lifetime.is_open(path):
        raise _in_use(path)
    with failures.told(path), closing(TurnLock(settings.beside(".lock"))) as turn, turn.held():
        if Presence(settings.beside(".writers")).others_alive():
            raise _in_use(path)
        last = lastcommit.read(path)
        lastcommit.check_there(path, last)
        opening.renew_log(path, vfs=settings.vfs)
        with closing(opening.connect_writer(path, vfs=settings.vfs)) as db:
            lastcommit.check(path, db, last)
            lastcommit.forget(path)
            return _reset(db, settings, progress)


def _in_use(path: Path) -> StorageFailed:
    return StorageFailed(
        f"{path} is in use", path=str(path), hint="End every program that has it open, then try again."
    )


def _reset(db: apsw.Connection, settings: Settings, progress: Progress | None) -> dict[str, Any]:
    path = settings.path
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    opening.check_tables(db, path)
    store_id = store_id_of(db, path)
    explicit = keys.explicit_ring(settings.key)
    ring = explicit or _new_ring(db)
    if explicit is None:
        _set_aside(keys.key_path(path))
        write_whole(incoming_path(path), keys.ring_text(ring).encode(), mode=0o600)
    with transaction(db):
        result = Resealing(db, Cells(ring, store_id), progress).run()
        db.execute("DELETE FROM meta WHERE name LIKE 'key:%'")
        put_key_checks(db, ring, store_id)
        note(
            Rows(db, Cells(ring, store_id)),
            settings.now(),
            StoreEvent(event="key_reset", detail={"key": ring.current, "unconfirmed": len(result["unconfirmed"])}),
        )
    if explicit is None:
        settle_ring(db, path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return {**result, "key_file": None if explicit else str(keys.key_path(path))}


def _new_ring(db: Database) -> Ring:
    """A ring of one new key, with a number that the lost keys did not have where there is one left."""
    number = max(checks_of(db), default=0) + 1
    return Ring({number if number <= keys.NUMBER_MAX else 1: secrets.token_bytes(keys.KEY_BYTES)})


def _set_aside(path: Path) -> None:
    """Keeps the key file that is about to be replaced: it may be the right one of another store."""
    if path.exists():
        write_whole(path.with_name(path.name + ".replaced"), path.read_bytes(), mode=0o600)

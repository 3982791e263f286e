"""Which key ring goes with a store file: found beside it, checked against it, and moved in one step with it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from holdfast.errors import Corrupt, Unopenable, WrongKey
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.durably import sync_folder

if TYPE_CHECKING:
    from holdfast.storage.sqlite.database import Database


def incoming_path(db_path: Path) -> Path:
    """Where a new ring waits while the file that it goes with is being put in place.

    Two files can't be replaced in one step. So the new ring is written here first; then comes the one step that makes
    the store another (a commit, or a rename); then the ring takes its proper name. Whoever opens the store in between
    takes the ring that fits.
    """
    return db_path.with_name(db_path.name + ".key.new")


def find_ring(db: Database, path: Path, key: str | bytes | None) -> Ring | None:
    """The ring that an argument, HOLDFAST_KEY or the key file gives; None when there is none of them."""
    explicit = keys.explicit_ring(key)
    if explicit is not None:
        return explicit
    return _fitting(db, path)[0]


def settle_ring(db: Database, path: Path) -> None:
    """Ends what a crash left half done: the ring that fits gets its proper name. To be called in turn."""
    incoming = incoming_path(path)
    if not incoming.exists():
        return
    ring, source = _fitting(db, path)
    if source == incoming:
        os.replace(incoming, keys.key_path(path))
        sync_folder(path.parent)
    elif ring is not None and fits(db, ring):
        incoming.unlink()


def _fitting(db: Database, path: Path) -> tuple[Ring | None, Path]:
    proper, incoming = keys.key_path(path), incoming_path(path)
    if not incoming.exists():
        return _reloading(proper), proper
    for candidate in (proper, incoming):
        with suppress(Unopenable):
            ring = _reloading(candidate)
            if ring is not None and fits(db, ring):
                return ring, candidate
    return _reloading(proper), proper


def _reloading(path: Path) -> Ring | None:
    """The ring in this file. When another process has added a key since, the ring learns it."""
    ring = keys.read_ring(path)
    return None if ring is None else Ring(ring.keys, refresh=lambda: keys.read_ring(path))


# --- the checks in the store


def store_id_of(db: Database, path: Path) -> bytes:
    try:
        row = db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchone()
    except UnicodeDecodeError:  # a damaged page can make text of it that is none
        row = None
    if row is None or not isinstance(row[0], bytes):
        raise Unopenable(f"{path} has lost its store id", path=str(path), hint="Restore it from a backup.")
    return row[0]


def checks_of(db: Database) -> dict[int, bytes]:
    """One value for each key that the store was ever written with; only this key can make it."""
    try:
        found = db.execute("SELECT name, value FROM meta WHERE name LIKE 'key:%'").fetchall()
        return {int(name[4:]): check for name, check in found}
    except (ValueError, TypeError) as error:
        raise Corrupt("The key checks of the store are damaged") from error


def fits(db: Database, ring: Ring) -> bool:
    """Whether this ring has every key that the store was written with."""
    try:
        store_id = store_id_of(db, Path())
        return all(
            number in ring and _check(ring, number, store_id) == there for number, there in checks_of(db).items()
        )
    except (Corrupt, Unopenable, apsw.Error):
        return False


def check_keys(db: Database, ring: Ring | None, path: Path) -> bytes:
    """The store's id, after making sure that the ring is the one that wrote it."""
    store_id = store_id_of(db, path)
    for number, there in checks_of(db).items():
        if ring and (number not in ring or _check(ring, number, store_id) != there):
            raise WrongKey(f"The key given did not write {path} (key {number})", path=str(path))
    return store_id


def put_key_checks(db: Database, ring: Ring, store_id: bytes) -> list[int]:
    """Adds a check for each key that has none yet; their numbers."""
    new = sorted(ring.keys.keys() - checks_of(db).keys())
    for number in new:
        db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (f"key:{number}", _check(ring, number, store_id)))
    return new


def _check(ring: Ring, number: int, store_id: bytes) -> bytes:
    return ring.mac(b"keycheck", store_id, b"", number=number)

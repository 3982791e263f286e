"""What a store holds and what takes up its room, in numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.history.retention import LIMITED
from holdfast.storage import keys
from holdfast.storage.sqlite.cells import KIND_NUMBERS, KINDS
from holdfast.storage.sqlite.rows import untext
from holdfast.storage.sqlite.schema import FORMAT

if TYPE_CHECKING:
    from holdfast.storage.sqlite.database import Database
    from holdfast.storage.sqlite.reader import Reader
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage


def stats(reader: Reader, store: SQLiteCheckpointStorage) -> dict[str, Any]:
    """Plain numbers and names, ready to be shown or written as JSON."""
    db = reader.db
    head = reader.rows.store()
    rows = [row for row in reader.rows.agents(None) if not row.erased]
    return {
        "path": str(store.path),
        "format": FORMAT,
        "sqlite_version": apsw.sqlite_lib_version(),
        "commits": head.commit_number,
        "users": _one(db, "SELECT count(*) FROM users"),
        "agents": len(rows),
        "agents_held": sum(1 for row in rows if row.head.owner is not None and reader.alive(row.head.owner)),
        "checkpoints": sum([row.head.live for row in rows]),
        "checkpoints_by_kind": _by_kind(db),
        "checkpoints_deleted": _one(db, "SELECT count(*) FROM ids") - sum([row.head.live for row in rows]),
        "records": _one(db, "SELECT count(*) FROM records"),
        "inbox_waiting": sum([row.head.inbox_last - row.head.inbox_acknowledged for row in rows]),
        "operations_interrupted": _pending(reader, "operation"),
        "runs": _one(db, "SELECT count(*) FROM runs"),
        "runs_interrupted": _pending(reader, "run"),
        "bytes": _bytes(db, store),
        "pages": _pages(db),
        "limits": _limits(db, store),
        "writers_alive": _writers_alive(reader, store),
        "keys": keys.fingerprint(reader.cells.ring),
        "key_current": reader.cells.ring.current or None,
    }


def _one(db: Database, query: str) -> int:
    [(value,)] = db.execute(query).fetchall()
    return int(value or 0)


def _by_kind(db: Database) -> dict[str, int]:
    found = db.execute("SELECT kind, count(*) FROM checkpoints WHERE head IS NOT NULL GROUP BY kind").fetchall()
    return {str(KINDS[number - 1]): count for number, count in found}


def _pending(reader: Reader, what: str) -> int:
    """What was begun by somebody who is no longer there to end it."""
    return sum(1 for one in reader.pending(what, None, None) if not one.owner_alive)


def _bytes(db: Database, store: SQLiteCheckpointStorage) -> dict[str, int]:
    pages = _pages(db)
    return {
        "file": pages["size"] * pages["count"],
        "log": _size(store.settings.beside("-wal")),
        "ballast": _size(store.settings.beside(".ballast")),
        "free": pages["size"] * pages["free"],
        "states_open": _one(db, "SELECT sum(length(state)) FROM checkpoints WHERE state IS NOT NULL"),
        "states_sealed": _one(db, "SELECT sum(length(body)) FROM segments"),
        "heads": _one(db, "SELECT sum(length(head)) FROM checkpoints WHERE head IS NOT NULL"),
        "records": _one(db, "SELECT sum(length(body)) FROM records"),
        "snapshots": _one(db, "SELECT sum(length(body)) FROM snapshots"),
        "inbox": _one(db, "SELECT sum(length(body)) FROM inbox"),
    }


def _size(path: Path) -> int:
    """By name only: to open the file or its log would drop SQLite's locks."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _pages(db: Database) -> dict[str, int]:
    return {
        "size": _one(db, "PRAGMA page_size"),
        "count": _one(db, "PRAGMA page_count"),
        "free": _one(db, "PRAGMA freelist_count"),
    }


def _limits(db: Database, store: SQLiteCheckpointStorage) -> dict[str, Any]:
    """The limits are soft: nothing is refused when one is exceeded, but it is said here."""
    kinds = ",".join(str(KIND_NUMBERS[kind]) for kind in KINDS if kind in LIMITED)
    counts = db.execute(
        "SELECT u.id, count(*) FROM checkpoints c JOIN users u ON u.number = c.user"
        f" WHERE c.head IS NOT NULL AND c.kind IN ({kinds}) GROUP BY c.user ORDER BY u.id"
    ).fetchall()
    per_user, total = store.max_checkpoints_per_user, store.max_checkpoints
    limited = sum([count for _, count in counts])
    return {
        "max_checkpoints_per_user": per_user,
        "max_checkpoints": total,
        "limited_checkpoints": limited,
        "users_over": {untext(user): count for user, count in counts if per_user is not None and count > per_user},
        "total_over": total is not None and limited > total,
    }


def _writers_alive(reader: Reader, store: SQLiteCheckpointStorage) -> int:
    try:
        names = [entry.name for entry in os.scandir(store.settings.beside(".writers"))]
    except OSError:
        return 0
    return sum(1 for name in names if reader.alive(name))

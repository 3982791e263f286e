"""What a process has open: for fork(), for its end, and so that no open file is opened by other means."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.storage.sqlite import opening

if TYPE_CHECKING:
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

_stores: weakref.WeakSet[SQLiteCheckpointStorage] = weakref.WeakSet()
_open: Counter[str] = Counter()
_lock = threading.Lock()
_never_closed: list[Any] = []  # a parent's connections, in a forked child


def watch(store: SQLiteCheckpointStorage) -> None:
    with _lock:
        _stores.add(store)


def opened(path: Path) -> None:
    with _lock:
        _open[os.path.realpath(path)] += 1


def closed(path: Path) -> None:
    with _lock:
        _open[os.path.realpath(path)] -= 1


def is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    with _lock:
        return _open[os.path.realpath(path)] > 0


def check_file(path: Path, *, allow_network: bool, must_exist: bool) -> None:
    """Refuses what is no store. A file that this process has open was checked before, and must not be touched:
    closing a second descriptor of it would drop SQLite's locks.
    """
    with _lock:
        if _open[os.path.realpath(path)] > 0 and path.exists():
            return
        opening.check_file(path, allow_network=allow_network, must_exist=must_exist)


def _close_all() -> None:
    for store in list(_stores):
        with suppress(Exception):
            store.close_now()


def _before_fork() -> None:
    """No transaction may be under way: the child would inherit SQLite's note of locks that it does not have."""
    _lock.acquire()
    for store in list(_stores):
        store.write_side.activity.acquire()
        store.read_side.activity.acquire()


def _after_fork_in_parent() -> None:
    for store in list(_stores):
        for db in _connections(store):
            opening.keep_log(db)
        store.read_side.activity.release()
        store.write_side.activity.release()
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - the child must not inherit a lock that a thread of the parent holds
    for store in list(_stores):
        _never_closed.extend(_connections(store))
        _never_closed.extend(store.write_side.forget_in_child())
        _never_closed.extend(store.read_side.forget_in_child())
    opening.forked = True
    _lock = threading.Lock()


def _connections(store: SQLiteCheckpointStorage) -> list[Any]:
    session, reader = store.write_side.session, store.read_side.reader
    both = (session.db if session is not None and session.is_open else None, None if reader is None else reader.db)
    return [db for db in both if db is not None]


atexit.register(_close_all)
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)

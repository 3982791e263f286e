"""Ids of checkpoints and groups: a prefix and 26 characters that sort by the time they were made."""

from __future__ import annotations

import os
import secrets
import threading
import time
from functools import lru_cache

_OURS = b"0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: nothing to misread aloud, and it sorts as it counts
_PAIRS = [chr(first) + chr(second) for first in _OURS for second in _OURS]
_DIGITS = b"0123456789abcdefghijklmnopqrstuv"  # how int() counts to 32
_TO_DIGITS = bytes(_DIGITS[_OURS.index(byte)] if byte in _OURS else ord("!") for byte in range(256))


def new_id(prefix: str = "chk") -> str:
    """A new id: 48 bits of time, so that neighbours in time are neighbours in an index, and 80 random ones.

    Nothing relies on the time in it: order is the store's number.
    """
    moment = time.time_ns() // 1_000_000 & (1 << 48) - 1
    return id_text(prefix, moment.to_bytes(6, "big") + _chance())


_POOL_BYTES = 1024
_pool = bytearray()
_pool_lock = threading.Lock()


def _chance() -> bytes:
    """Ten random bytes. Asking the system for each id would give the other threads a turn at every save."""
    with _pool_lock:
        if len(_pool) < 10:
            _pool.extend(secrets.token_bytes(_POOL_BYTES))
        chance = bytes(_pool[-10:])
        del _pool[-10:]
    return chance


def _after_fork() -> None:
    """A child must not make the ids that its parent makes."""
    global _pool_lock  # noqa: PLW0603 - a thread of the parent's may hold it
    _pool_lock = threading.Lock()
    _pool.clear()


os.register_at_fork(after_in_child=_after_fork)


def id_text(prefix: str, raw: bytes) -> str:
    """Sixteen bytes as `prefix_` and 26 characters."""
    number = int.from_bytes(raw, "big") << 2  # 26 characters hold two bits more than 16 bytes
    return f"{prefix}_{''.join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])}"


def id_bytes(text: str, prefix: str = "chk") -> bytes | None:
    """The sixteen bytes behind an id made by `new_id`, or None for ids of any other shape."""
    if len(text) != len(prefix) + 27 or not text.startswith(f"{prefix}_") or not text.isascii():
        return None
    try:
        number = int(text[-26:].encode().translate(_TO_DIGITS), 32)
    except ValueError:
        return None
    return None if number & 3 else (number >> 2).to_bytes(16, "big")


@lru_cache(maxsize=4096)  # one save asks for its own id and its parent's several times
def stored_id(text: str) -> bytes:
    """How an id is kept in a store: those that `new_id` makes as 16 bytes, all others as text behind a zero byte."""
    raw = id_bytes(text)
    return raw if raw is not None and raw[0] else b"\0" + text.encode("utf-8", "surrogatepass")


def id_from(stored: bytes) -> str:
    return id_text("chk", stored) if stored[0] else stored[1:].decode("utf-8", "surrogatepass")

"""Keyed MACs and unkeyed hashes: nothing stored is interpreted before one of them was checked."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from holdfast.errors import HoldfastError, KeyMissing

MAC_BYTES: Final = 16
HASH_BYTES: Final = 16
SEAL_BYTES: Final = 1 + MAC_BYTES


def unkeyed_hash(data: bytes | bytearray) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()


def mac(key: bytes, domain: bytes, context: bytes, data: bytes) -> bytes:
    """The keyed MAC of `data` in its place. Domain and lengths are bound in, so that no two places share a MAC."""
    hasher = blake2b(key=key, digest_size=MAC_BYTES, person=domain)
    hasher.update(len(context).to_bytes(4, "big"))
    hasher.update(context)
    hasher.update(data)
    return hasher.digest()


class Ring:
    """A ring of keys by number: the newest one signs, every one verifies. An empty ring can only read."""

    __slots__ = ("_keys", "_refresh", "current")

    def __init__(self, keys: dict[int, bytes], *, refresh: Callable[[], Ring | None] | None = None) -> None:
        """`refresh` gives the ring as it is now, where another process may add keys to it."""
        self._keys = dict(keys)
        self._refresh = refresh
        self.current = max(self._keys, default=0)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, number: int) -> bool:
        return self._key(number) is not None

    def adopt(self, grown: Ring) -> None:
        """Takes over a ring that has all of this one's keys; its newest signs from now on."""
        if self._keys.items() <= grown._keys.items():
            self._keys = dict(grown._keys)
            self.current = max(self._keys, default=0)

    def _key(self, number: int) -> bytes | None:
        key = self._keys.get(number)
        if key is None and self._refresh is not None:
            with suppress(HoldfastError):  # then this key stays unknown, and what names it is not authentic
                if (fresh := self._refresh()) is not None:
                    self.adopt(fresh)
            key = self._keys.get(number)
        return key

    @property
    def keys(self) -> dict[int, bytes]:
        return dict(self._keys)

    def mac(self, domain: bytes, context: bytes, data: bytes, *, number: int | None = None) -> bytes:
        """The MAC under the current key, or under the one of this number."""
        number = self.current if number is None else number
        key = self._key(number)
        if key is None:
            raise KeyMissing(f"This store was written with key {number}, which is not in the key ring")
        return mac(key, domain, context, data)

    def seal(self, domain: bytes, context: bytes, data: bytes) -> bytes:
        """`data` with the number of the key and the MAC in front."""
        return self.current.to_bytes(1, "big") + self.mac(domain, context, data) + data

    def unseal(self, domain: bytes, context: bytes, sealed: bytes) -> bytes | None:
        """What was sealed in this very place, or None when the MAC does not hold.

        Without any key only the seal is taken off: the store is open for reading what its hashes confirm.
        """
        data = sealed[SEAL_BYTES:]
        if not self._keys:
            return data if len(sealed) >= SEAL_BYTES else None
        key = self._key(sealed[0]) if sealed else None
        if key is None or not hmac.compare_digest(mac(key, domain, context, data), sealed[1:SEAL_BYTES]):
            return None
        return data

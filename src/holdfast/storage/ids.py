"""Ids of checkpoints and groups: a prefix and 26 characters that sort by the time they were made."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: nothing to misread aloud


def new_id(prefix: str = "chk") -> str:
    """A new id: 48 bits of time, so that neighbours in time are neighbours in an index, and 80 random ones.

    Nothing relies on the time in it: order is the store's number.
    """
    number = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | secrets.randbits(80)
    return id_text(prefix, number.to_bytes(16, "big"))


def id_text(prefix: str, raw: bytes) -> str:
    """Sixteen bytes as `prefix_` and 26 characters."""
    number = int.from_bytes(raw, "big")
    return f"{prefix}_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def id_bytes(text: str, prefix: str = "chk") -> bytes | None:
    """The sixteen bytes behind an id made by `new_id`, or None for ids of any other shape."""
    if len(text) != len(prefix) + 27 or not text.startswith(f"{prefix}_"):
        return None
    number = 0
    for char in text[len(prefix) + 1 :]:
        digit = _ALPHABET.find(char)
        if digit < 0:
            return None
        number = number << 5 | digit
    return number.to_bytes(17, "big")[1:] if number < 1 << 128 else None

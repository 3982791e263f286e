"""The names of checkpoint files: readable, safe on every file system, and parted again without opening them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from holdfast.storage.ids import id_text

SUFFIX: Final = ".checkpoint"

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_LENGTH_MAX: Final = 140  # of the agent's part; the whole stays below the 255 bytes that a name may have
_NAME: Final = re.compile(r"(?P<agent>.+)_(?P<stamp>\d{14})_(?P<kind>[a-z_]+?)(?:_\d{1,9})?\.checkpoint", re.DOTALL)

_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{12}\.tmp", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a file name says by itself."""

    agent: str  # escaped
    kind: str


def names_for(agent_id: str, timestamp: datetime, kind: str) -> Iterator[str]:
    """The name of a checkpoint's file, and what to call it when that is taken: `_2`, `_3` … before the suffix."""
    moment = timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp
    stem = f"{escape(agent_id)}_{moment:%Y%m%d%H%M%S}_{kind}"
    if moment.year < 1000:  # strftime does not pad years
        stem = f"{escape(agent_id)}_{moment.year:04}{moment:%m%d%H%M%S}_{kind}"
    yield stem + SUFFIX
    number = 2
    while True:
        yield f"{stem}_{number}{SUFFIX}"
        number += 1


def parts_of(name: str) -> Parts | None:
    """The parts of a name made here, or None for any other."""
    match = _NAME.fullmatch(name)
    return Parts(match["agent"], match["kind"]) if match else None


def is_checkpoint(name: str) -> bool:
    """Whether a file is a checkpoint's by its name; hidden ones are temporary."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def is_temporary(name: str) -> bool:
    """Whether a file is one that a crash kept from becoming a checkpoint's."""
    return _TEMPORARY.fullmatch(name) is not None


def may_be_of(name: str, agent_id: str) -> bool:
    """Whether a file can be this agent's. A name that nobody made here says nothing, so its file must be read."""
    parts = parts_of(name)
    return parts is None or parts.agent in parts_for(agent_id)


def parts_for(agent_id: str) -> tuple[str, str]:
    """What stands for an agent in the names of its files: those made here, and those that somebody else makes."""
    return escape(agent_id), agent_id


def escape(agent_id: str) -> str:
    """An agent id as part of a file name; different ids give different texts.

    >>> escape("agent-3"), escape("../ä"), escape("")
    ('agent-3', '%2E.%2F%C3%A4', '%')
    """
    raw = agent_id.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in raw)
    if escaped.startswith("."):
        escaped = "%2E" + escaped[1:]
    if len(escaped) > _LENGTH_MAX:
        # No id is escaped to a text with a tilde, so a shortened one is never another id's.
        escaped = f"{escaped[: _LENGTH_MAX - 33]}~{blake2b(raw, digest_size=16).hexdigest()}"
    return escaped or "%"


def unescape(part: str) -> str | None:
    """The agent id behind an escaped one; None when it had to be shortened, or was not escaped here."""
    if part == "%":
        return ""
    try:
        raw = re.sub(rb"%([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), part.encode())
        agent_id = raw.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return agent_id if escape(agent_id) == part else None


def id_of_name(name: str) -> str:
    """The id of a checkpoint whose file does not say any: it stays the same as long as the file's name does."""
    return id_text("chk", blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).digest())

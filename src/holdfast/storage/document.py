"""A checkpoint as a JSON document that a person can read: its keys, its integrity, and a quick look at its head."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.filenames import id_of_name

VERSION: Final = 1
ALGORITHM: Final = "sha256"

_NEEDED: Final = ("agent_id", "timestamp", "checkpoint_type", "version", "state")
_NOT_KEPT: Final = frozenset({"verified", "deleted", "kind"})
_FIELDS: Final = frozenset(field.name for field in fields(Checkpoint)) - _NOT_KEPT
# Inside of values every line is indented further, so these two only ever match the document's own keys.
_STATE_LINE: Final = b'\n  "state": '
_ID_LINE: Final = b'\n  "id": '
_ID: Final = re.compile(rb'^  "id": "((?:[^"\\]|\\.)+)"', re.MULTILINE)


def dump(checkpoint: Checkpoint) -> bytes:
    """The document: what a person looks for first, the state, the rest, and the hash over all of it."""
    plain = checkpoint.to_dict()
    document = {
        "agent_id": plain["agent_id"],
        "timestamp": plain["timestamp"],
        "checkpoint_type": plain["kind"],
        "version": VERSION,
        "state": plain["state"],
        "id": plain["id"],
        **{name: value for name, value in plain.items() if name not in _NOT_KEPT},
    }
    document["integrity"] = {"algorithm": ALGORITHM, "hash": _hash(document)}
    try:
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        return json.dumps(document, indent=2, allow_nan=False).encode() + b"\n"


def parse(data: bytes, *, name: str) -> Checkpoint:
    """The whole checkpoint, once its hash was checked. One without integrity field comes with `verified=False`.

    Raises ValueError with the reason when it is damaged; who calls knows the path.
    """
    document = _object(data)
    if missing := [key for key in _NEEDED if key not in document]:
        raise ValueError(f"it has no {', '.join(missing)}")
    integrity = document.pop("integrity", None)
    if integrity is not None and (not isinstance(integrity, dict) or integrity.get("algorithm") != ALGORITHM):
        raise ValueError(f"its integrity is of an unknown kind: {integrity!r}")
    if integrity is not None and integrity.get("hash") != _hash(document):
        raise ValueError("its content does not match its hash")
    return _checkpoint(document, name=name, verified=integrity is not None)


def glance(data: bytes, *, name: str) -> Checkpoint:
    """The checkpoint without its state and unchecked, for a listing: the state is not even parsed."""
    start = data.find(_STATE_LINE)
    end = data.find(_ID_LINE, start)
    if start < 0 or end < 0:
        return parse(data, name=name).evolve(state=None)
    document = _object(data[:start] + _STATE_LINE + b"{}," + data[end:])
    return _checkpoint(document, name=name, verified="integrity" in document).evolve(state=None)


def id_within(data: bytes) -> str | None:
    """The id that a damaged document still shows, to name it."""
    found = _ID.search(data)
    return found[1].decode(errors="replace") if found else None


def _checkpoint(document: dict[str, Any], *, name: str, verified: bool) -> Checkpoint:
    values = {key: value for key, value in document.items() if key in _FIELDS}
    values["kind"] = document["checkpoint_type"]
    values["timestamp"] = _moment(document["timestamp"], own=verified)
    values.setdefault("id", id_of_name(name))
    for key in ("id", "agent_id", "user_id", "kind"):
        if not isinstance(values.get(key, ""), str):
            raise ValueError(f"its {key} is not a text")  # noqa: TRY004 - the one error of a damaged document
    for key in ("position", "commit_number"):
        if type(values.get(key, 0)) is not int:
            raise ValueError(f"its {key} is not a number")
    if not isinstance(document["state"], dict):
        raise ValueError("its state is not an object")  # noqa: TRY004 - the one error of a damaged document
    try:
        return Checkpoint.from_dict(values).evolve(verified=verified)
    except HoldfastError as error:
        raise ValueError(error.message) from error


def _moment(written: Any, *, own: bool) -> datetime:
    """ISO 8601 or seconds since 1970. Where a home-made document names no zone, UTC is meant."""
    if isinstance(written, str):
        moment = datetime.fromisoformat(written)
        return moment if own or moment.tzinfo else moment.replace(tzinfo=UTC)
    if type(written) not in (int, float):
        raise ValueError("its timestamp is no moment in time")
    try:
        return datetime.fromtimestamp(written, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError("its timestamp is no moment in time") from error


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("it nests deeper than anything that is written") from error
    if not isinstance(document, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - the one error of a damaged document
    return document


def _hash(document: dict[str, Any]) -> str:
    """The hash over the canonical form, so that spaces, line ends and the order of keys may change."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()

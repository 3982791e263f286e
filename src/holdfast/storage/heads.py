"""The head of a checkpoint: everything that a listing shows and no index keeps, in a few bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import Corrupt
from holdfast.history import codec
from holdfast.history.checkpoint import Checkpoint

if TYPE_CHECKING:
    from holdfast.history.image import Image

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DIGEST_BYTES: Final = 16

# The stored order, what is changed most often first: new fields go last, none is ever removed.
_FIELDS: Final = (
    "timestamp",
    "agent_type",
    "status",
    "metadata",
    "collected_fields",
    "required_fields",
    "context_summary",
    "operation",
    "group_id",
    "state_version",
    "pinned",
    "verified",
    "group_place",
    "inbox",
)
_DEFAULTS: Final[tuple[Any, ...]] = (None, "", "", {}, {}, [], "", None, None, 1, False, True, None, None)


def pack_head(checkpoint: Checkpoint) -> bytes:
    """The head's fields by position, without the trailing ones that have their defaults.

    What is left out is kept elsewhere: id, agent, user, kind, position, commit number, parent and state.
    """
    values = [
        _moment(checkpoint.timestamp),
        str(checkpoint.agent_type),
        str(checkpoint.status),
        *(getattr(checkpoint, name) for name in _FIELDS[3:]),
    ]
    while _is_default(len(values) - 1, values[-1]):
        values.pop()
    return codec.pack(values)


def unpack_head(data: bytes, **known: Any) -> Checkpoint:
    """The checkpoint of a packed head and of what was kept elsewhere, which wins where both have it."""
    values = codec.decode(data)
    if not isinstance(values, list) or not values:
        raise Corrupt("A checkpoint's head is not one", checkpoint_id=known.get("id"), agent_id=known.get("agent_id"))
    fields = dict(zip(_FIELDS, values, strict=False))
    fields["timestamp"] = _datetime(fields["timestamp"])
    return Checkpoint(**{**fields, **known})


def detached(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without its state, sharing nothing that somebody could change."""
    if not (checkpoint.collected_fields or checkpoint.required_fields or checkpoint.metadata):
        return checkpoint.evolve(
            agent_type=str(checkpoint.agent_type), status=str(checkpoint.status), kind=str(checkpoint.kind),
            collected_fields={}, required_fields=[], metadata={}, state=None,
        )  # fmt: skip
    return unpack_head(
        pack_head(checkpoint),
        id=checkpoint.id,
        agent_id=checkpoint.agent_id,
        user_id=checkpoint.user_id,
        kind=str(checkpoint.kind),
        parent_checkpoint_id=checkpoint.parent_checkpoint_id,
        position=checkpoint.position,
        commit_number=checkpoint.commit_number,
    )


def digest_of(checkpoint: Checkpoint, image: Image) -> bytes:
    """The 16 bytes that bind a checkpoint's content to its record.

    Whether it is pinned is not part of it, because that changes; nor what the record says itself (id, kind, parent).
    """
    content = [
        str(checkpoint.status),
        checkpoint.collected_fields,
        checkpoint.required_fields,
        checkpoint.context_summary,
        checkpoint.metadata,
        str(checkpoint.agent_type),
        checkpoint.state_version,
        checkpoint.operation,
        _moment(checkpoint.timestamp),
    ]
    return blake2b(image.digest + codec.pack(content), digest_size=_DIGEST_BYTES).digest()


def _is_default(index: int, value: Any) -> bool:
    default = _DEFAULTS[index]
    return type(value) is type(default) and bool(value == default)


def _moment(timestamp: datetime) -> Any:
    """UTC as microseconds since 1970; every other zone, and none, is left to the codec, which keeps it exactly."""
    return (timestamp - _EPOCH) // _MICROSECOND if timestamp.tzinfo is UTC else timestamp


def _datetime(moment: Any) -> datetime:
    if isinstance(moment, datetime):
        return moment
    if not isinstance(moment, int):
        raise Corrupt("A checkpoint's head has no moment in time")
    try:
        return _EPOCH + timedelta(microseconds=moment)
    except OverflowError as error:
        raise Corrupt("A checkpoint's head has a moment outside of time") from error

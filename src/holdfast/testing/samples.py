"""The checkpoints, states and changes that the claims are tried with."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, Protocol
from uuid import UUID

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.image import Image
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Change, Committed, Store

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)

ODD_STATE: Final[dict[str, Any]] = {
    "text": "naïve ☃ \U0001f600 \x00 \ud800",
    "numbers": [0, -1, 2**63, -(2**200), 0.1, -0.0, float("inf"), float("nan"), True, 1, 1.0],
    "nothing": [None, "", b"", [], {}, ()],
    "tuple": (1, ("nested", [2])),
    "bytes": bytes(range(256)),
    "sets": {"set": {1, 2}, "frozen": frozenset({"a"})},
    "keys": {1: "int", None: "none", (1, "a"): "tuple", "1": "str"},
    "$tuple": {"$dict": [1]},
    "time": [NOON, datetime(2026, 3, 1), NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), date(1, 1, 1)],  # noqa: DTZ001 - a naive one
    "exact": [Decimal("1.10"), UUID(int=7), complex(1, -2), timedelta(microseconds=-1)],
    "messages": [{"role": "user", "content": f"message {i}"} for i in range(200)],
}
"""A state with everything that storages like to lose: types, signs, order, surrogates, long lists."""


class FullStore(Store, Protocol):
    """A full store, which serves the three methods of a checkpoint storage as well."""

    async def save(self, checkpoint: Checkpoint) -> str: ...

    async def load(self, checkpoint_id: str) -> Checkpoint | None: ...


def checkpoint(agent_id: str = "agent", *, user_id: str = "user", **fields: Any) -> Checkpoint:
    """A checkpoint as `save` takes it, with a new id."""
    values: dict[str, Any] = {
        "id": new_id(),
        "agent_type": "Sample",
        "status": "RUNNING",
        "state": {"agent": agent_id},
    }
    return Checkpoint(agent_id=agent_id, user_id=user_id, **{**values, **fields})


def saving(agent_id: str = "agent", *, state: dict[str, Any] | None = None, **fields: Any) -> Change:
    """A change that saves a checkpoint: fields of `Change` and of `Checkpoint` alike; other names go to the latter."""
    of_change = {name: fields.pop(name) for name in list(fields) if name in _CHANGE_ONLY}
    if "parent" in fields:
        fields["parent_checkpoint_id"] = fields.pop("parent")
    saved = checkpoint(agent_id, **fields)
    return Change(
        agent_id=agent_id,
        user_id=saved.user_id,
        agent_type=saved.agent_type,
        checkpoint=saved.evolve(state=None),
        image=Image.of(state if state is not None else saved.state),
        **of_change,
    )


_CHANGE_ONLY: Final = {
    "records", "continue_newest", "only_newest", "fork_of", "delete", "pin", "acknowledge", "send", "epoch", "hold",
    "take_over",
}  # fmt: skip


async def save(store: Store, agent_id: str = "agent", **fields: Any) -> Checkpoint:
    """Commits one checkpoint and returns it as the store completed it."""
    [done] = await store.commit(saving(agent_id, **fields))
    assert done.checkpoint is not None
    return done.checkpoint


async def continued(store: Store, agent_id: str = "agent", **fields: Any) -> Checkpoint:
    """Saves on from the agent's newest checkpoint."""
    return await save(store, agent_id, continue_newest=True, **fields)


async def commit(store: Store, agent_id: str = "agent", *, user_id: str = "user", **fields: Any) -> Committed:
    """Commits one change without a checkpoint."""
    [done] = await store.commit(Change(agent_id=agent_id, user_id=user_id, **fields))
    return done

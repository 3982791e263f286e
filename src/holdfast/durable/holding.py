"""Holding an agent through several saves, without a checkpoint to go back to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.errors import OwnedElsewhere

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager


@asynccontextmanager
async def holding(
    manager: CheckpointManager, agent_id: str, user_id: str, *, take_over: bool = False
) -> AsyncIterator[None]:
    """Holds an agent: no other process, and nothing else in this one, holds it then."""
    held = manager._users.held  # noqa: SLF001 - of the same package
    if agent_id in held:  # the store would let its own writer in
        raise OwnedElsewhere(
            f"Agent {agent_id} is being advanced by something else in this process",
            agent_id=agent_id,
            hint="Wait until that ends.",
        )
    held.add(agent_id)
    try:
        async with manager.hold(agent_id, user_id, take_over=take_over):
            yield
    finally:
        held.discard(agent_id)

"""Holding an agent through several saves, without a checkpoint to go back to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager


@asynccontextmanager
async def holding(
    manager: CheckpointManager, agent_id: str, user_id: str, *, take_over: bool = False
) -> AsyncIterator[None]:
    """Holds an agent: no other process, and nothing else in this one, holds it then."""
    with manager._users.advancing(agent_id):  # noqa: SLF001 - of the same package
        async with manager.hold(agent_id, user_id, take_over=take_over):
            yield

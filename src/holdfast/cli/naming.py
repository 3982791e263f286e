"""Which checkpoint is meant: its id, the beginning of one, or a place in an agent's list."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from holdfast.cli.output import counted
from holdfast.errors import InvalidArgument, UnknownAgent, UnknownCheckpoint
from holdfast.storage.protocol import Query

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint

_PREFIX: Final = "chk_"
_BEGINNING_MIN: Final = 4
_TOLD_MAX: Final = 5
_SHORT_MIN: Final = len(_PREFIX) + 14  # ten characters of time and four of chance


async def named(manager: CheckpointManager, name: str) -> str:
    """The id that is meant by an id, a beginning of one that only one has, `AGENT@latest` or `AGENT~2`.

    `AGENT~2` is the agent's checkpoint two before its newest.
    """
    if await manager.store.position(name) is not None:
        return name
    match = re.fullmatch(r"(.+)(?:@latest|~(\d{1,9}))", name, re.DOTALL)
    if match:
        return await _counted_back(manager, match[1], int(match[2] or 0))
    beginning = name.removeprefix(_PREFIX)
    if name.startswith(_PREFIX) and len(beginning) < _BEGINNING_MIN:
        raise InvalidArgument(
            f"{name} is too short to name a checkpoint",
            hint=f"Give at least {_BEGINNING_MIN} characters after {_PREFIX}.",
        )
    found = [one for one in await manager.store.list(Query(limit=None)) if one.id.startswith(name)]
    if len(found) > 1:
        told = ", ".join(one.id for one in found[:_TOLD_MAX])
        more = f" and {len(found) - _TOLD_MAX:,} more" if len(found) > _TOLD_MAX else ""
        raise InvalidArgument(
            f"{name} is the beginning of {counted(len(found), 'checkpoint')}", hint=f"One of {told}{more}."
        )
    if not found or len(name) < _BEGINNING_MIN:
        raise UnknownCheckpoint(f"There is no checkpoint {name}", checkpoint_id=name, hint=_hint(name))
    return found[0].id


async def known_agent(manager: CheckpointManager, agent_id: str) -> None:
    """Refuses an agent that the store does not know, with those that sound like it."""
    from difflib import get_close_matches

    if await manager.store.agent(agent_id) is not None:
        return
    near = get_close_matches(agent_id, [info.agent_id for info in await manager.store.agents()], n=3)
    raise UnknownAgent(
        f"There is no agent {agent_id}",
        agent_id=agent_id,
        hint=f"Did you mean {' or '.join(near)}?" if near else "`holdfast agents` lists those that there are.",
    )


def short_length(checkpoints: list[Checkpoint]) -> int:
    """How much of these ids tells each from all the others."""
    ids = sorted(one.id for one in checkpoints)
    longest = _SHORT_MIN
    for first, second in pairwise(ids):
        same = next((i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))
        longest = max(longest, same + 1)
    return longest


async def _counted_back(manager: CheckpointManager, agent_id: str, back: int) -> str:
    await known_agent(manager, agent_id)
    found = await manager.store.list(Query(agent_id=agent_id, limit=1, offset=back))
    if not found:
        raise UnknownCheckpoint(f"Agent {agent_id} has no checkpoint {back} before its newest", agent_id=agent_id)
    return found[0].id


def _hint(name: str) -> str:
    return (
        "`holdfast log` shows those that there are; old ones may have been retired."
        if name.startswith(_PREFIX)
        else "An id begins with chk_; AGENT@latest and AGENT~2 name an agent's newest and the second before it."
    )

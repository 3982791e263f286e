"""An agent's past: the checkpoints that one came from, and a history with what a fork shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.history.fold import live_path

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.records import Record
    from holdfast.storage.protocol import Store


class Past:
    """Looks back through a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def ancestors(self, checkpoint_id: str, limit: int | None) -> list[Checkpoint]:
        """Parents of parents, nearest first, across forks; ends where an agent began or was erased."""
        found: list[Checkpoint] = []
        seen = {checkpoint_id}
        here = await self.store.position(checkpoint_id)
        while here is not None and here.parent_checkpoint_id is not None and (limit is None or len(found) < limit):
            parent_id = here.parent_checkpoint_id
            if parent_id in seen:  # a storage of somebody's own may hold anything
                break
            seen.add(parent_id)
            here = await self.store.position(parent_id)
            if here is not None:
                found.append(here)
        return found

    async def history(self, agent_id: str, *, snapshots: bool = True) -> list[Record]:
        """The agent's records; a fork's begin with the live path that it was forked from."""
        parts: list[list[Record]] = []
        name: str | None = agent_id
        upto: int | None = None
        while name is not None:
            records = await self.store.read(name, snapshots=snapshots)
            if upto is not None:
                records = live_path([r for r in records if r.seq <= upto])
            parts.append(records)
            info = await self.store.agent(name)
            name, upto = info.forked_from if info is not None and info.forked_from is not None else (None, None)
        return [record for part in reversed(parts) for record in part]

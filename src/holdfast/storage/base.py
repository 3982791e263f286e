"""The adapter downwards: any full store serves the three methods of `CheckpointStorage` as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.history import retention
from holdfast.history.image import Image
from holdfast.storage.protocol import Change, CheckpointStorage, Committed, Query

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint


class FullStorage(CheckpointStorage, ABC):
    """A full store: `save`, `load`, `list_by_user`, `list_by_agent` and `delete` in terms of its own verbs."""

    max_checkpoints: int | None = None
    max_checkpoints_per_user: int | None = None

    @abstractmethod
    async def commit(self, *changes: Change) -> list[Committed]: ...

    @abstractmethod
    async def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None: ...

    @abstractmethod
    async def position(self, checkpoint_id: str) -> Checkpoint | None: ...

    @abstractmethod
    async def list(self, query: Query) -> list[Checkpoint]: ...

    async def save(self, checkpoint: Checkpoint) -> str:
        """Keeps the checkpoint as it is, parent and id included; an id that is there already is replaced."""
        there = await self.position(checkpoint.id)
        change = Change(
            agent_id=checkpoint.agent_id,
            user_id=checkpoint.user_id,
            agent_type=checkpoint.agent_type,
            checkpoint=checkpoint.evolve(state=None),
            image=Image.of(checkpoint.state or {}, None),
            delete=(checkpoint.id,) if there is not None and there.agent_id == checkpoint.agent_id else (),
        )
        await self.commit(change)
        await self._trim(checkpoint.user_id)
        return checkpoint.id

    async def load(self, checkpoint_id: str) -> Checkpoint | None:
        found = await self.fetch(checkpoint_id)
        return None if found is None else found[0].evolve(state=found[1].decode())

    async def list_by_user(self, user_id: str, limit: int, offset: int) -> Sequence[Checkpoint]:  # type: ignore[override]
        return await self.list(Query(user_id=user_id, limit=limit, offset=offset))

    async def list_by_agent(self, agent_id: str, limit: int, offset: int) -> Sequence[Checkpoint]:  # type: ignore[override]
        return await self.list(Query(agent_id=agent_id, limit=limit, offset=offset))

    async def delete(self, checkpoint_id: str) -> bool:
        found = await self.position(checkpoint_id)
        if found is None or found.deleted:
            return False
        [done] = await self.commit(Change(agent_id=found.agent_id, user_id=found.user_id, delete=(checkpoint_id,)))
        return done.deleted == 1

    async def _trim(self, user_id: str) -> None:
        """Applies the limits that the storage itself was given; a manager plans them into its own commits."""
        for limit, scope in ((self.max_checkpoints_per_user, user_id), (self.max_checkpoints, None)):
            if limit is None:
                continue
            beyond = await self.list(Query(user_id=scope, kinds=retention.LIMITED, offset=limit, limit=None))
            newest = {agent: await self._newest(agent) for agent in {checkpoint.agent_id for checkpoint in beyond}}
            for removal in retention.beyond_limit(beyond, newest, "limit"):
                await self.delete(removal.checkpoint_id)

    async def _newest(self, agent_id: str) -> str:
        [newest] = await self.list(Query(agent_id=agent_id, limit=1))
        return newest.id

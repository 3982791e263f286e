"""The loader: finds a user's active agents in the store, and makes them live as their newest checkpoints have them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from holdfast.agents.orchestrator.autosave import MESSAGE
from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.status import AgentStatus
from holdfast.errors import MissingMethod
from holdfast.storage.protocol import Query

if TYPE_CHECKING:
    from collections.abc import Container

    from holdfast.agents.orchestrator.catalog import Catalog
    from holdfast.agents.orchestrator.watching import Watches
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import AgentInfo

_USERS_MAX: Final = 10_000  # whose last look is remembered
_PAGE: Final = 50


class Loader:
    """Remembers up to which commit each user's checkpoints were looked at: a user may have any number of old agents."""

    def __init__(self, manager: CheckpointManager, catalog: Catalog, watches: Watches) -> None:
        self.manager = manager
        self.catalog = catalog
        self.watches = watches
        self._looked_at: OrderedDict[str, int] = OrderedDict()

    async def active(self, user_id: str, known: Container[str]) -> list[StandardAgent]:
        """The user's agents that are not finished, not known, and were saved since the last look; the latest last."""
        listed = await self._since(user_id, self._looked_at.get(user_id))
        newest: dict[str, Checkpoint] = {}
        for checkpoint in listed:
            newest.setdefault(checkpoint.agent_id, checkpoint)
        found = []
        for agent_id, checkpoint in reversed(newest.items()):
            if agent_id not in known and self._may_be_ours(checkpoint):
                agent = await self.newest(user_id, agent_id)
                if agent is not None and not agent.finished:
                    found.append(agent)
        self._look_ended(user_id, listed)  # only now: whoever could not be restored is to be found, and named, again
        return found

    async def newest(self, user_id: str, agent_id: str) -> StandardAgent | None:
        """The agent as its newest checkpoint has it; None when it has none, or is none of ours.

        When the newest was deleted (that of an operation is, on success), it goes on from there with what the one
        before it has.
        """
        info = await self._info(agent_id)
        if info is None:
            listed = await self.manager.store.list(Query(user_id=user_id, agent_id=agent_id, limit=1))
            return await self._restored(listed[0]) if listed else None
        if info.tip is None:
            return None
        here = await self.manager.store.position(info.tip)
        if here is not None and not here.deleted:
            return await self._restored(here)
        for ancestor in await self.manager.ancestors(info.tip):
            if not ancestor.deleted:
                agent = await self._restored(ancestor)
                if agent is not None:
                    self.manager.go_on_from(agent, info.tip)
                return agent
        return None

    async def _since(self, user_id: str, commit_number: int | None) -> list[Checkpoint]:
        """The user's checkpoints after this commit, newest first, in one look at the store: none may slip through."""
        limit = None if commit_number is None else _PAGE
        while True:
            listed = await self.manager.store.list(Query(user_id=user_id, limit=limit))
            fresh = [one for one in listed if commit_number is None or one.commit_number > commit_number]
            if limit is None or len(listed) < limit or len(fresh) < len(listed):
                return fresh
            limit *= 4

    def _look_ended(self, user_id: str, listed: list[Checkpoint]) -> None:
        self._looked_at[user_id] = listed[0].commit_number if listed else self._looked_at.get(user_id, 0)
        self._looked_at.move_to_end(user_id)
        if len(self._looked_at) > _USERS_MAX:
            self._looked_at.popitem(last=False)

    def _may_be_ours(self, checkpoint: Checkpoint) -> bool:
        """Whether it is active, and of a class of ours; one that has another name now is known by who saved it."""
        status = AgentStatus.__members__.get(checkpoint.status)
        if status is None or status.finished:
            return False
        return checkpoint.agent_type in self.catalog or MESSAGE in checkpoint.metadata

    async def _info(self, agent_id: str) -> AgentInfo | None:
        try:
            return await self.manager.store.agent(agent_id)
        except MissingMethod:  # three methods don't list by agent
            return None

    async def _restored(self, checkpoint: Checkpoint) -> StandardAgent | None:
        agent = await self.manager.restore(checkpoint.id)
        if not isinstance(agent, StandardAgent) or type(agent).__name__ not in self.catalog:
            return None
        self.watches.restored(agent, checkpoint.metadata)
        return agent

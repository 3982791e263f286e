"""One save, from live agents to one commit: what is read, checked, planned and remembered."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.durable.agents import Portrait, portrait
from holdfast.durable.caps import Caps
from holdfast.durable.lineage import Lineage
from holdfast.durable.redaction import Redact
from holdfast.durable.retirement import Retirement, removal_changes
from holdfast.errors import Corrupt, InvalidArgument, NotFound, WrongOwner
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.history.image import Image
from holdfast.storage.ids import new_id
from holdfast.storage.imagecache import ImageCache
from holdfast.storage.protocol import Change, Committed, Store

if TYPE_CHECKING:
    from holdfast.history.retention import Removal

log = logging.getLogger("holdfast")


@dataclass(frozen=True, kw_only=True, slots=True)
class Purpose:
    """Why a checkpoint is made, and under which ownership."""

    kind: Kind = Kind.MANUAL
    metadata: dict[str, Any] | None = None
    operation: str | None = None
    pinned: bool = False
    group_id: str | None = None
    epoch: int | None = None
    hold: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint ready to be committed."""

    agent: Any
    checkpoint: Checkpoint
    image: Image


class Saver:
    """Turns live agents into commits, and remembers which checkpoint each came from."""

    def __init__(
        self, store: Store, retirement: Retirement, *, caps: Caps, redact: Redact | None, now: Callable[[], datetime]
    ) -> None:
        self.store = store
        self.retirement = retirement
        self.caps = caps
        self.redact = redact
        self.now = now
        self.lineage = Lineage()
        self.images = ImageCache()
        self._turns: weakref.WeakValueDictionary[tuple[int, str], asyncio.Lock] = weakref.WeakValueDictionary()

    async def save(
        self, agents: Sequence[Any], purpose: Purpose, *, user_id: str | None
    ) -> tuple[list[Committed], list[Removal]]:
        """Saves the agents in one commit; with what was retired. `user_id` scopes: another user's agent is refused."""
        drafts = []
        for place, agent in enumerate(agents):
            seen = await portrait(agent)
            if user_id is not None and seen.user_id != user_id:
                raise WrongOwner(
                    f"Agent {seen.agent_id} is {seen.user_id}'s, and this manager is {user_id}'s",
                    agent_id=seen.agent_id,
                    user_id=user_id,
                )
            drafts.append(self._draft(agent, seen, purpose, (place, len(agents)) if purpose.group_id else None))
        async with self._in_turn(drafts):
            changes = [self._change(draft, purpose) for draft in drafts]
            removals = await self._removals(drafts)
            done = await self._commit(changes, removals)
            for draft in drafts:
                self.came_from(draft.agent, draft.checkpoint.agent_id, draft.checkpoint.id, draft.image)
        return done[: len(drafts)], removals

    def came_from(self, agent: Any, agent_id: str, checkpoint_id: str, image: Image | None = None) -> None:
        self.lineage.set(agent, checkpoint_id)
        if image is not None:
            self.images.put(agent_id, image)

    def _draft(self, agent: Any, seen: Portrait, purpose: Purpose, place: tuple[int, int] | None) -> Draft:
        """Encodes the state now: what the agent does while the commit is under way is the next checkpoint's."""
        state, metadata = seen.state, dict(purpose.metadata or {})
        if self.redact is not None:
            state, found = self.redact(state, "state")
            if found:
                metadata["redacted"] = found
        image = Image.of(state, self.images.get(seen.agent_id))
        self.caps.check(seen.agent_id, state, image)
        checkpoint = Checkpoint(
            id=new_id(),
            agent_id=seen.agent_id,
            agent_type=seen.agent_type,
            user_id=seen.user_id,
            status=seen.status,
            collected_fields=seen.collected_fields,
            required_fields=seen.required_fields,
            context_summary=seen.context_summary,
            timestamp=self.now(),
            metadata=metadata,
            kind=purpose.kind,
            state_version=seen.state_version,
            operation=purpose.operation,
            group_id=purpose.group_id,
            group_place=place,
            pinned=purpose.pinned,
        )
        return Draft(agent, checkpoint, image)

    def _change(self, draft: Draft, purpose: Purpose) -> Change:
        parent = self.lineage.get(draft.agent)
        checkpoint = draft.checkpoint
        return Change(
            agent_id=checkpoint.agent_id,
            user_id=checkpoint.user_id,
            agent_type=checkpoint.agent_type,
            checkpoint=checkpoint.evolve(parent_checkpoint_id=parent),
            image=draft.image,
            continue_newest=parent is None,
            epoch=purpose.epoch,
            hold=purpose.hold,
            take_over=purpose.take_over,
        )

    @asynccontextmanager
    async def _in_turn(self, drafts: list[Draft]) -> AsyncIterator[None]:
        """One save of an agent at a time: its parent is the one before, which must have been committed."""
        agent_ids = sorted({draft.checkpoint.agent_id for draft in drafts})
        if len(agent_ids) < len(drafts):
            raise InvalidArgument("A group has two objects of one agent", hint="Save each agent once in a group.")
        loop = id(asyncio.get_running_loop())
        locks = [self._turns.setdefault((loop, agent_id), asyncio.Lock()) for agent_id in agent_ids]
        async with AsyncExitStack() as stack:
            for lock in locks:
                await stack.enter_async_context(lock)
            yield

    async def _removals(self, drafts: list[Draft]) -> list[Removal]:
        """What is to be retired with this save. A save never fails because something can't be retired."""
        removals: dict[str, Removal] = {}
        for draft in drafts:
            try:
                found = await self.retirement.with_save(draft.checkpoint, self.now())
            except (Corrupt, NotFound) as error:
                log.warning("Nothing is retired with checkpoint %s: %s", draft.checkpoint.id, error)
            else:
                removals |= {removal.checkpoint_id: removal for removal in found}
        return list(removals.values())

    async def _commit(self, changes: list[Change], removals: list[Removal]) -> list[Committed]:
        if not removals:
            return await self.store.commit(*changes)
        try:
            return await self.store.commit(*_merged(changes, removal_changes(removals)))
        except Corrupt as error:
            log.warning("Saving without retiring %d checkpoints: %s", len(removals), error)
            return await self.store.commit(*changes)


def _merged(changes: list[Change], removing: list[Change]) -> list[Change]:
    """The changes with the removals of their own agents in them, then those of other agents."""
    by_agent = {change.agent_id: change for change in removing}
    merged = []
    for change in changes:
        own = by_agent.pop(change.agent_id, None)
        merged.append(change if own is None else replace(change, delete=(*change.delete, *own.delete)))
    return [*merged, *by_agent.values()]

"""One save, from live agents to one commit: what is read, checked, planned and remembered."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.durable.agents import AgentTypes, Portrait, portrait
from holdfast.durable.caps import Caps
from holdfast.durable.identity import ByIdentity
from holdfast.durable.operation import Operations
from holdfast.durable.redaction import Redact
from holdfast.durable.retirement import Retirement, removal_changes
from holdfast.errors import HoldfastError, InvalidArgument, Unstorable, WrongOwner
from holdfast.history import codec
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.history.image import Image
from holdfast.history.retention import Removal, removal
from holdfast.storage.adapter import StorageAdapter
from holdfast.storage.heads import detached
from holdfast.storage.ids import new_id
from holdfast.storage.imagecache import ImageCache
from holdfast.storage.protocol import Change, Committed, Outgoing, Store

if TYPE_CHECKING:
    from holdfast.history.records import Record

log = logging.getLogger("holdfast")


@dataclass(frozen=True, kw_only=True, slots=True)
class Purpose:
    """Why a checkpoint is made, and under which ownership."""

    kind: Kind = Kind.MANUAL
    metadata: dict[str, Any] | None = None
    operation: str | None = None
    pinned: bool = False
    group_id: str | None = None
    hold: bool = False  # begins an operation
    release: bool = False  # ends the operation that holds the agent
    take_over: bool = False
    only_newest: bool = False  # refused if somebody else advanced the agent
    records: tuple[Record, ...] = ()  # of a single agent, before its checkpoint's
    acknowledge: int | None = None  # inbox messages up to this number changed the state that is saved
    send: tuple[Outgoing, ...] = ()  # what the agent sent on the way to this state
    replaces: tuple[str, ...] = ()  # checkpoints of the agent that go with this commit


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint ready to be committed."""

    agent: Any
    checkpoint: Checkpoint
    image: Image
    purpose: Purpose


Saved: TypeAlias = "tuple[list[Committed], list[Removal]]"
"""What was committed, in the order of the agents, and what was retired with it."""


class Saver:
    """Turns live agents into commits, and remembers which checkpoint each came from."""

    def __init__(
        self,
        store: Store,
        retirement: Retirement,
        *,
        types: AgentTypes,
        operations: Operations,
        lineage: ByIdentity[str],
        caps: Caps,
        redact: Redact | None,
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.retirement = retirement
        self.types = types
        self.operations = operations
        self.lineage = lineage
        self.caps = caps
        self.redact = redact
        self.now = now
        self.images = ImageCache()
        self._turns: weakref.WeakValueDictionary[tuple[int, str], asyncio.Lock] = weakref.WeakValueDictionary()

    async def save(self, wanted: Sequence[tuple[Any, Purpose]], *, user_id: str | None) -> Saved:
        """Saves agents in one commit, each for its purpose; with what was retired.

        `user_id` scopes: another user's agent is refused.
        """
        drafts = []
        for place, (agent, purpose) in enumerate(wanted):
            seen = await portrait(agent)
            if user_id is not None and seen.user_id != user_id:
                raise WrongOwner(
                    f"Agent {seen.agent_id} is {seen.user_id}'s, and this manager is {user_id}'s",
                    agent_id=seen.agent_id,
                    user_id=user_id,
                )
            drafts.append(self._draft(agent, seen, purpose, (place, len(wanted)) if purpose.group_id else None))
        async with self._in_turn(drafts):
            changes = [self._change(draft) for draft in drafts]
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
        state, metadata = seen.state, {**(purpose.metadata or {}), **self.operations.notes.get(seen.agent_id, {})}
        fields, summary = seen.collected_fields, seen.context_summary
        if self.redact is not None:
            state, found = self.redact(state, "state")
            fields, in_fields = self.redact(fields, "collected_fields")
            summary, in_summary = self.redact(summary, "context_summary")
            if redacted := [*found, *in_fields, *in_summary]:
                metadata["redacted"] = redacted
        image = Image.of(state, self.images.get(seen.agent_id))
        self.caps.check(seen.agent_id, state, image)
        version = seen.state_version
        checkpoint = Checkpoint(
            id=new_id(),
            agent_id=seen.agent_id,
            agent_type=seen.agent_type,
            user_id=seen.user_id,
            status=seen.status,
            collected_fields=fields,
            required_fields=seen.required_fields,
            context_summary=summary,
            timestamp=self.now(),
            metadata=metadata,
            kind=purpose.kind,
            state_version=self.types.version_of(seen.agent_type) if version is None else version,
            operation=purpose.operation,
            group_id=purpose.group_id,
            group_place=place,
            pinned=purpose.pinned,
        )
        return Draft(agent, _settled(checkpoint), image, purpose)

    def _change(self, draft: Draft) -> Change:
        purpose = draft.purpose
        parent = self.lineage.get(draft.agent)
        checkpoint = draft.checkpoint
        checkpoint.parent_checkpoint_id = parent  # known only now: a draft waits for its turn
        held = None if purpose.hold else self.operations.of(checkpoint.agent_id)
        return Change(
            agent_id=checkpoint.agent_id,
            user_id=checkpoint.user_id,
            agent_type=checkpoint.agent_type,
            checkpoint=checkpoint,
            image=draft.image,
            records=purpose.records,
            id_is_new=True,
            continue_newest=parent is None and not purpose.only_newest,
            only_newest=purpose.only_newest,
            epoch=None if held is None else held.epoch,
            hold=purpose.hold or (held is not None and not purpose.release),
            take_over=purpose.take_over,
            acknowledge=purpose.acknowledge,
            send=purpose.send,
        )

    @asynccontextmanager
    async def _in_turn(self, drafts: list[Draft]) -> AsyncIterator[None]:
        """One save of an agent at a time: its parent is the one before, which must have been committed."""
        agent_ids = sorted({draft.checkpoint.agent_id for draft in drafts})
        if len(agent_ids) < len(drafts):
            raise InvalidArgument("A group has two objects of one agent", hint="Save each agent once in a group.")
        loop = id(asyncio.get_running_loop())
        locks = [self._turns.setdefault((loop, agent_id), asyncio.Lock()) for agent_id in agent_ids]
        held: list[asyncio.Lock] = []
        try:
            for lock in locks:
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()

    async def _removals(self, drafts: list[Draft]) -> list[Removal]:
        """What is to be retired with this save. A save never fails because something can't be retired."""
        removals: dict[str, Removal] = {}
        for draft in drafts:
            try:
                found = await self.retirement.with_save(draft.checkpoint, self.now())
            except Exception as error:  # noqa: BLE001 - whatever a storage raises, the save itself comes first
                log.warning("Nothing is retired with checkpoint %s: %s", draft.checkpoint.id, error)
            else:
                removals |= {removal.checkpoint_id: removal for removal in found}
            for replaced in draft.purpose.replaces:
                removals[replaced] = removal(draft.checkpoint.evolve(id=replaced), "replaced by a newer one")
        return list(removals.values())

    async def _commit(self, changes: list[Change], removals: list[Removal]) -> list[Committed]:
        if not removals:
            return await self.store.commit(*changes)
        if isinstance(self.store, StorageAdapter):  # without transactions, a failed deletion would hide what was saved
            done = await self.store.commit(*changes)
            try:
                await self.store.commit(*removal_changes(removals))
            except Exception as error:  # noqa: BLE001 - whatever a storage raises, the checkpoint is saved
                log.warning("Could not retire %d checkpoints: %s", len(removals), error)
            return done
        try:
            return await self.store.commit(*_merged(changes, removal_changes(removals)))
        except HoldfastError as error:  # what hinders the save itself, too, is raised again by the next line
            log.warning("Saving without retiring %d checkpoints: %s", len(removals), error)
            return await self.store.commit(*changes)


def _settled(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint as a copy that the agent can't change any more. What can't be kept is named by its path."""
    try:
        return detached(checkpoint)
    except Unstorable:
        for name in ("collected_fields", "required_fields", "metadata"):
            codec.encode(getattr(checkpoint, name), path=name)
        raise


def _merged(changes: list[Change], removing: list[Change]) -> list[Change]:
    """The changes with the removals of their own agents in them, then those of other agents."""
    by_agent = {change.agent_id: change for change in removing}
    merged = []
    for change in changes:
        own = by_agent.pop(change.agent_id, None)
        merged.append(change if own is None else replace(change, delete=(*change.delete, *own.delete)))
    return [*merged, *by_agent.values()]

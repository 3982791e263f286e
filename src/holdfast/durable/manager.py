"""`CheckpointManager`: save, restore, list, compare and fork agents on any storage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from holdfast.durable import group
from holdfast.durable.agents import AgentTypes, Upgrade
from holdfast.durable.caps import Caps
from holdfast.durable.committed import checkpoint_of
from holdfast.durable.events import Events, Handler
from holdfast.durable.operation import Operation, Operations, interrupted
from holdfast.durable.past import Past
from holdfast.durable.redaction import Redact, Redactor, redacted_records
from holdfast.durable.retirement import Retirement, policy_of
from holdfast.durable.saving import Purpose, Saved, Saver
from holdfast.durable.turn import Turns
from holdfast.durable.users import users_of
from holdfast.errors import DuplicateId, HoldfastError, InvalidArgument, UnknownCheckpoint, WrongAgent, WrongOwner
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.history.diff import CheckpointDiff, compare
from holdfast.history.image import Image
from holdfast.history.records import Record
from holdfast.history.retention import Policy, Removal, days_before
from holdfast.storage.adapter import StorageAdapter, as_store
from holdfast.storage.ids import new_id
from holdfast.storage.memory import InMemoryCheckpointStorage
from holdfast.storage.protocol import Change, CheckpointStorage, Committed, Progress, Query, Report

log = logging.getLogger("holdfast")


class CheckpointManager:
    """Keeps agents: everything here is durable when it returns.

    With `user_id` the manager is scoped: other users' ids are answered like unknown ones. `redact` is applied to
    states (tool arguments in records are redacted by default). All numbers of the retention policy are options.
    """

    def __init__(
        self,
        storage: CheckpointStorage | None = None,
        user_id: str | None = None,
        *,
        retention: Policy | None = None,
        redact: Redact | None = None,
        redact_arguments: Redact | None = Redactor(),  # noqa: B008 - frozen
        state_bytes_max: int = Caps().state_bytes_max,
        value_bytes_max: int = Caps().value_bytes_max,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.storage = storage if storage is not None else InMemoryCheckpointStorage()
        self.store = as_store(self.storage)
        self.user_id = user_id
        self.types = AgentTypes()
        self.events = Events()
        self.retirement = Retirement(self.store, retention or policy_of(self.storage))
        caps = Caps(state_bytes_max=state_bytes_max, value_bytes_max=value_bytes_max)
        self._now = now
        self._redact = redact
        self._redact_arguments = redact_arguments
        self._operations = Operations()
        self._users = users_of(self.storage)
        self._users.join(self)
        self._saver = Saver(
            self.store, self.retirement, types=self.types, operations=self._operations, lineage=self._users.lineage,
            caps=caps, redact=redact, now=now,
        )  # fmt: skip
        self._past = Past(self.store)
        self._closed = False

    def __repr__(self) -> str:
        scope = f", user_id={self.user_id!r}" if self.user_id is not None else ""
        return f"CheckpointManager({self.storage!r}{scope})"

    # --- agents

    def register(
        self,
        cls_or_factory: Callable[..., Any],
        name: str | None = None,
        *,
        upgrades: Mapping[int, Upgrade] | None = None,
    ) -> None:
        """Tells how agents of a type are rebuilt: a class, or a factory by name that gets the Checkpoint."""
        self.types.register(cls_or_factory, name, upgrades)

    async def save(
        self,
        agent: Any,
        *,
        kind: str = Kind.MANUAL,
        metadata: dict[str, Any] | None = None,
        operation: str | None = None,
        pinned: bool = False,
        take_over: bool = False,
    ) -> str:
        """Saves the agent as it is now and returns the checkpoint's id."""
        purpose = Purpose(
            kind=Kind.of(kind), metadata=metadata, operation=operation, pinned=pinned, take_over=take_over
        )
        [saved] = await self.save_each((agent, purpose))
        return saved.id

    async def save_each(self, *wanted: tuple[Any, Purpose]) -> list[Checkpoint]:
        """Saves agents in one commit, each for a purpose of its own: what loops and other layers above build on."""
        done, removed = await self._saver.save(wanted, user_id=self.user_id)
        await self._tell_saved(done, removed)
        return [checkpoint_of(committed) for committed in done]

    async def restore(self, checkpoint_id: str) -> Any:
        """A live agent as it was at this checkpoint. Nothing is written; its next save is a branch from there."""
        checkpoint, image = await self._fetched(checkpoint_id)
        return await self._rebuilt(checkpoint.evolve(state=image.decode()), image)

    async def restore_into(self, agent: Any, checkpoint_id: str) -> Checkpoint:
        """Brings a live object back to a checkpoint of its own, which becomes the parent of its next one."""
        checkpoint, image = await self._fetched(checkpoint_id)
        if checkpoint.agent_id != agent.agent_id:
            raise WrongAgent(
                f"Checkpoint {checkpoint_id} belongs to agent {checkpoint.agent_id}, not to {agent.agent_id}",
                agent_id=checkpoint.agent_id,
                checkpoint_id=checkpoint_id,
            )
        checkpoint = await self.types.put_back(agent, checkpoint.evolve(state=image.decode()))
        self._saver.came_from(agent, checkpoint.agent_id, checkpoint.id, image)
        await self.events.tell("checkpoint_restored", checkpoint, agent)
        return checkpoint

    def came_from(self, agent: Any) -> str | None:
        """The checkpoint that a live object was restored from, or saved as, last."""
        return self._users.lineage.get(agent)

    def go_on_from(self, agent: Any, checkpoint_id: str) -> None:
        """Tells that a live object was brought to this checkpoint by other means: the parent of its next one."""
        self._users.lineage.set(agent, checkpoint_id)

    async def fork(self, checkpoint_id: str, agent_id: str | None = None) -> Any:
        """A new agent that shares this one's past up to the checkpoint, and goes on by itself."""
        source, image = await self._fetched(checkpoint_id)
        self.types.check(source)  # before anything is written
        agent_id = agent_id or f"{source.agent_id}-{new_id('fork')[-6:]}"
        if await self.store.agent(agent_id) is not None:
            raise DuplicateId(f"There is an agent {agent_id} already", agent_id=agent_id)
        draft = source.evolve(
            id=new_id(), agent_id=agent_id, parent_checkpoint_id=source.id, timestamp=self._now(), kind=Kind.MANUAL,
            operation=None, group_id=None, group_place=None, pinned=False,
            metadata={**source.metadata, "forked_from": source.id},
        )  # fmt: skip
        change = Change(
            agent_id=agent_id, user_id=source.user_id, agent_type=source.agent_type, checkpoint=draft, image=image,
            fork_of=source.id,
        )  # fmt: skip
        [done] = await self.store.commit(change)
        forked = checkpoint_of(done)
        agent = await self._rebuilt(forked.evolve(state=image.decode()), image, tell=False)
        await self.events.tell("checkpoint_saved", forked)
        return agent

    async def save_group(
        self, agents: Sequence[Any], *, kind: str = Kind.MANUAL, metadata: dict[str, Any] | None = None
    ) -> str:
        """Saves several agents in one commit: a consistent cut. Returns the group's id."""
        if not agents:
            raise InvalidArgument("A group needs at least one agent")
        self._check_not_run(getattr(agent, "agent_id", None) for agent in agents)
        group_id = new_id("grp")
        purpose = Purpose(kind=Kind.of(kind), metadata=metadata, group_id=group_id)
        await self.save_each(*((agent, purpose) for agent in agents))
        return group_id

    async def restore_group(self, group_id: str) -> list[Any]:
        """The agents of a group as they were together, in the order in which they were given.

        Their inboxes are put back as well: of all messages none is lost, and none will have been received twice.
        """
        members = await group.members(self.store, group_id, self.user_id)
        self._check_not_run(checkpoint.agent_id for checkpoint, _ in members)
        agents = [await self._rebuilt(checkpoint.evolve(state=image.decode()), image) for checkpoint, image in members]
        for agent, committed in zip(agents, await group.put_back(self.store, members, self._now()), strict=False):
            self.go_on_from(agent, checkpoint_of(committed).id)
            await self.events.tell("checkpoint_saved", committed.checkpoint)
        return agents

    @asynccontextmanager
    async def hold(self, agent_id: str, user_id: str | None = None, *, take_over: bool = False) -> AsyncIterator[int]:
        """Holds an agent until the block ends: no other process may advance it. Yields the epoch."""
        user_id = user_id or self.user_id or "default"
        taking = asyncio.ensure_future(
            self.store.commit(Change(agent_id=agent_id, user_id=user_id, hold=True, take_over=take_over))
        )
        try:
            [held] = await asyncio.shield(taking)
        except asyncio.CancelledError:
            [held] = await taking
            await self._let_go(Operation(agent_id=agent_id, user_id=user_id, epoch=held.epoch))
            raise
        operation = Operation(agent_id=agent_id, user_id=user_id, epoch=held.epoch)
        self._operations.begin(operation)
        try:
            yield held.epoch
        finally:
            self._operations.end(operation)
            await self._let_go(operation)

    @contextmanager
    def noting(self, agent_id: str, metadata: dict[str, Any]) -> Iterator[None]:
        """What this manager saves of the agent within the block has this in its metadata as well."""
        self._operations.notes[agent_id] = metadata
        try:
            yield
        finally:
            del self._operations.notes[agent_id]

    async def _let_go(self, operation: Operation) -> None:
        """Gives an agent back. Who took it over, or a store that fails now, gives it back as well, by other ways."""
        change = Change(agent_id=operation.agent_id, user_id=operation.user_id, epoch=operation.epoch)
        try:
            await asyncio.shield(self.store.commit(change))
        except HoldfastError as error:
            log.warning("Agent %s was not given back: %s", operation.agent_id, error)

    @asynccontextmanager
    async def operation(
        self, agent: Any, name: str, *, metadata: dict[str, Any] | None = None, take_over: bool = False
    ) -> AsyncIterator[Operation]:
        """Holds the agent through a critical operation, with a `pre_operation` checkpoint to go back to.

        The checkpoint is gone when the operation succeeds. When it fails, or its process dies, it stays:
        `interrupted_operations` lists it.
        """
        outer = self._operations.of(getattr(agent, "agent_id", None))
        purpose = Purpose(
            kind=Kind.PRE_OPERATION, metadata=metadata, operation=name, hold=True, take_over=take_over and outer is None
        )
        operation, saved = await self._begun(agent, name, purpose)
        self._operations.begin(operation)
        try:
            await self._tell_saved(*saved)
            yield operation
        except BaseException as error:
            self._operations.end(operation)
            try:
                await self._release(operation, delete=False)
            except HoldfastError as unreleased:  # what went wrong in the operation matters more
                error.add_note(f"Operation {name} of agent {agent.agent_id} was not released: {unreleased}")
            raise
        self._operations.end(operation)
        await self._release(operation, delete=True)

    async def interrupted_operations(self) -> list[Checkpoint]:
        """The checkpoints of operations that neither completed nor go on in a live process, oldest first."""
        return await interrupted(self.store, self.user_id)

    # --- looking

    async def load(self, checkpoint_id: str) -> Checkpoint:
        """The checkpoint with its state."""
        checkpoint, image = await self._fetched(checkpoint_id)
        return checkpoint.evolve(state=image.decode())

    async def list_by_user(self, user_id: str | None = None, limit: int = 50, offset: int = 0) -> list[Checkpoint]:
        """A user's checkpoints, newest first, with state=None."""
        user_id = user_id if user_id is not None else self.user_id
        if user_id is None:
            raise InvalidArgument(
                "list_by_user needs a user_id", hint="Only a manager scoped to a user may leave it out."
            )
        if self.user_id not in (None, user_id):
            return []
        return await self.store.list(Query(user_id=user_id, **_page(limit, offset)))

    async def list_by_agent(
        self, agent_id: str, kind: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[Checkpoint]:
        """An agent's checkpoints, newest first, with state=None."""
        kinds = () if kind is None else (Kind.of(kind),)
        return await self.store.list(
            Query(agent_id=agent_id, user_id=self.user_id, kinds=kinds, **_page(limit, offset))
        )

    async def latest(self, agent_id: str, kind: str | None = None) -> Checkpoint | None:
        """The agent's newest checkpoint, or None."""
        found = await self.list_by_agent(agent_id, kind, limit=1)
        return found[0] if found else None

    async def ancestors(self, checkpoint_id: str, limit: int | None = None) -> list[Checkpoint]:
        """What the checkpoint came from, nearest first. One that was deleted is there as its bare position."""
        await self._positioned(checkpoint_id)
        return await self._past.ancestors(checkpoint_id, limit)

    async def compare(self, first_id: str, second_id: str) -> CheckpointDiff:
        """What changed from the first checkpoint to the second."""
        return compare(await self.load(first_id), await self.load(second_id))

    async def history(self, agent_id: str) -> list[Record]:
        """All the records of the agent's history, with the past that a fork shares."""
        info = await self.store.agent(agent_id)
        if info is None or self.user_id not in (None, info.user_id):
            return []
        return await self._past.history(agent_id)

    async def append(self, agent_id: str, *records: Record, user_id: str | None = None) -> Committed:
        """Appends records to an agent's history in one commit; secrets in tool arguments are taken out first."""
        if self.user_id is not None and user_id not in (None, self.user_id):
            raise WrongOwner(f"This manager is {self.user_id}'s, not {user_id}'s", agent_id=agent_id, user_id=user_id)
        held = self._operations.of(agent_id)
        change = Change(
            agent_id=agent_id, user_id=user_id or self.user_id or "default",
            records=redacted_records(records, self._redact_arguments),
            epoch=None if held is None else held.epoch, hold=held is not None,
        )  # fmt: skip
        [done] = await self.store.commit(change)
        return done

    # --- care

    async def pin(self, checkpoint_id: str, *, pinned: bool = True) -> None:
        """Keeps a checkpoint from every policy, or gives it back to them."""
        found = await self._positioned(checkpoint_id)
        if found.deleted:
            raise self._unknown(checkpoint_id)
        await self.store.commit(Change(agent_id=found.agent_id, user_id=found.user_id, pin={checkpoint_id: pinned}))

    async def delete(self, checkpoint_id: str) -> bool:
        """Erases a checkpoint's content; its position stays. False when it was gone already."""
        found = await self.store.position(checkpoint_id)
        if found is None or found.deleted or self.user_id not in (None, found.user_id):
            return False
        [done] = await self.store.commit(
            Change(agent_id=found.agent_id, user_id=found.user_id, delete=(checkpoint_id,))
        )
        if done.deleted:
            await self.events.tell("checkpoint_deleted", found)
        return bool(done.deleted)

    async def clear_user_history(self, user_id: str) -> int:
        """Erases everything of a user: checkpoints, histories, inboxes. Returns the number of checkpoints."""
        if self.user_id not in (None, user_id):
            return 0
        listed = (
            await self.store.list(Query(user_id=user_id, limit=None))
            if self.events.wanted("checkpoint_deleted")
            else []
        )
        changes = [
            Change(agent_id=info.agent_id, user_id=user_id, erase=True) for info in await self.store.agents(user_id)
        ]
        deleted = sum(done.deleted for done in await self.store.commit(*changes)) if changes else 0
        for checkpoint in listed:
            await self.events.tell("checkpoint_deleted", checkpoint)
        return deleted

    async def cleanup_old_checkpoints(self, max_age_days: float = 30) -> int:
        """Retires what is older, but never a pinned checkpoint or the newest of an agent. Returns the number."""
        moment = days_before(self._now(), max_age_days)
        return await self._retire(await self.retirement.plan_older(moment, user_id=self.user_id))

    async def plan_retirement(self) -> list[Removal]:
        """What the retention policy would retire now; nothing is changed."""
        return await self.retirement.plan(self._now(), user_id=self.user_id)

    async def collect_garbage(self, progress: Progress | None = None) -> dict[str, int]:
        """Carries the retention policy out, erases what deletions left behind and gives the space back."""
        retired = await self._retire(await self.plan_retirement())
        return {"retired": retired, **await self.store.collect_garbage(progress)}

    async def verify(self, progress: Progress | None = None) -> Report:
        """Checks everything that is stored."""
        return await self.store.verify(progress)

    async def stats(self) -> dict[str, Any]:
        return await self.store.stats()

    def on(self, event: str, handler: Handler | None = None) -> Any:
        """Adds a handler of an event; without one, a decorator."""
        return self.events.on(event, handler)

    async def close(self) -> None:
        """Lets go of the storage; the last manager that uses it closes it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._users.leave(self):
            await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- parts

    def _turns(self) -> Turns:
        """What the agents layer handles messages with; made anew each time, because it keeps this manager alive."""
        return Turns(
            save=self._saved, release=self._release, operations=self._operations, in_turn=self._users.in_turn,
            redact=self._redact, with_records=not isinstance(self.store, StorageAdapter),
        )  # fmt: skip

    async def _saved(self, agents: Sequence[Any], purpose: Purpose) -> list[Committed]:
        done, removed = await self._saver.save([(agent, purpose) for agent in agents], user_id=self.user_id)
        await self._tell_saved(done, removed)
        return done

    def _check_not_run(self, agent_ids: Iterable[str | None]) -> None:
        for agent_id in agent_ids:
            if self._operations.is_run(agent_id):
                raise InvalidArgument(
                    f"A loop runs agent {agent_id}, which may be in the middle of a step",
                    agent_id=agent_id,
                    hint="LoopGroup(loops).save_group() waits for their steps; stop the loops to restore a group.",
                )

    async def _tell_saved(self, done: Sequence[Committed], removed: Sequence[Removal]) -> None:
        for committed in done:
            await self.events.tell("checkpoint_saved", committed.checkpoint)
        await self._tell_deleted(removed)

    async def _begun(self, agent: Any, name: str, purpose: Purpose) -> tuple[Operation, Saved]:
        """Takes the agent for an operation. Who is cancelled meanwhile must not leave it taken for ever."""
        saving = asyncio.ensure_future(self._saver.save([(agent, purpose)], user_id=self.user_id))
        try:
            saved = await asyncio.shield(saving)
        except asyncio.CancelledError:
            await self._release(Operation.begun_with((await saving)[0], name), delete=True)
            raise
        return Operation.begun_with(saved[0], name), saved

    async def _release(self, operation: Operation, *, delete: bool) -> None:
        """Ends an operation; on success its checkpoint goes in the same commit."""
        found = await self.store.position(operation.checkpoint_id) if self.events.wanted("checkpoint_deleted") else None
        await self.store.commit(
            Change(
                agent_id=operation.agent_id,
                user_id=operation.user_id,
                epoch=operation.epoch,
                delete=(operation.checkpoint_id,) if delete else (),
            )
        )
        if delete and found is not None:
            await self.events.tell("checkpoint_deleted", found)

    async def _retire(self, removals: Sequence[Removal]) -> int:
        deleted = await self.retirement.carry_out(removals)
        await self._tell_deleted(removals)
        return deleted

    async def _tell_deleted(self, removals: Sequence[Removal]) -> None:
        if not self.events.wanted("checkpoint_deleted"):
            return
        for removal in removals:
            position = await self.store.position(removal.checkpoint_id)
            if position is None:  # a storage that remembers nothing of what it deleted
                position = Checkpoint(
                    id=removal.checkpoint_id, agent_id=removal.agent_id, user_id=removal.user_id, deleted=True
                )
            if position.deleted:
                await self.events.tell("checkpoint_deleted", position)

    async def _rebuilt(self, checkpoint: Checkpoint, image: Image, *, tell: bool = True) -> Any:
        agent = await self.types.rebuild(checkpoint)
        self._saver.came_from(agent, checkpoint.agent_id, checkpoint.id, image)
        if getattr(agent, "checkpoint_manager", self) is None:  # an agent that saves itself goes on doing so
            agent.checkpoint_manager = self
        if tell:
            await self.events.tell("checkpoint_restored", checkpoint, agent)
        return agent

    async def _fetched(self, checkpoint_id: str) -> tuple[Checkpoint, Image]:
        found = await self.store.fetch(checkpoint_id)
        if found is None or self.user_id not in (None, found[0].user_id):
            raise self._unknown(checkpoint_id)
        return found

    async def _positioned(self, checkpoint_id: str) -> Checkpoint:
        found = await self.store.position(checkpoint_id)
        if found is None or self.user_id not in (None, found.user_id):
            raise self._unknown(checkpoint_id)
        return found

    def _unknown(self, checkpoint_id: str) -> UnknownCheckpoint:
        return UnknownCheckpoint(f"There is no checkpoint {checkpoint_id}", checkpoint_id=checkpoint_id)


def _page(limit: int | None, offset: int) -> dict[str, Any]:
    if min(limit or 0, offset) < 0:
        raise InvalidArgument(f"There is no page of {limit} checkpoints from {offset} on")
    return {"limit": limit, "offset": offset}

"""The adapter upwards: any storage with three methods serves a manager as a store, as far as checkpoints go."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from holdfast.errors import Corrupt, InvalidArgument, MissingMethod, UnknownCheckpoint
from holdfast.history.checkpoint import Kind
from holdfast.history.image import Image
from holdfast.storage import rules
from holdfast.storage.heads import detached
from holdfast.storage.ids import new_id
from holdfast.storage.ledger import claimed
from holdfast.storage.protocol import (
    AgentInfo,
    Change,
    CheckpointStorage,
    Committed,
    InboxMessage,
    Pending,
    Progress,
    Query,
    Report,
    RunPlace,
    Store,
)
from holdfast.storage.rules import Head

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.records import Record

_PAGE: Final = 100


def as_store(storage: CheckpointStorage | Store) -> Store:
    """The storage itself if it is a full store, else an adapter round it."""
    return storage if isinstance(storage, Store) else StorageAdapter(storage)


class StorageAdapter:
    """Checkpoints only, one per commit: there is no history, no inbox and no transaction to put more into.

    Numbers go on from the newest checkpoint listed, and stay as exact as the storage keeps those fields. Ownership
    is known within this object only. A checkpoint that is pinned is saved again, which may make it the first listed.
    """

    def __init__(self, storage: CheckpointStorage) -> None:
        self.storage = storage
        self.writer = new_id("wrt")
        self._heads: dict[str, Head] = {}
        self._operations: dict[str, int] = {}
        self._commits = 0
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def commit(self, *changes: Change) -> list[Committed]:
        rules.check_distinct(changes)
        for change in changes:
            self._check(change)
        if sum(change.checkpoint is not None for change in changes) > 1:
            raise self._full_store("saving several agents in one commit")
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            heads = [await self._claim(change) for change in changes]
            number = await self._next_number(changes)
            done: dict[str, Committed] = {}
            # What is saved comes first: whatever happens in between, there is rather too much than too little.
            for change, (operations, head) in sorted(
                zip(changes, heads, strict=True), key=lambda pair: pair[0].checkpoint is None
            ):
                done[change.agent_id] = await self._carry_out(change, head, number)
                self._operations[change.agent_id] = operations
            self._commits = number
        return [done[change.agent_id] for change in changes]

    async def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None:
        found = await self._call("load", checkpoint_id)
        return None if found is None else (detached(found), Image.of(found.state or {}))

    async def position(self, checkpoint_id: str) -> Checkpoint | None:
        found = await self._call("load", checkpoint_id)
        return None if found is None else detached(found)

    async def agents(self, user_id: str | None = None) -> list[AgentInfo]:
        listed = [checkpoint async for checkpoint in self._each(Query(user_id=user_id))]
        return [
            self._info([one for one in listed if one.agent_id == agent_id])
            for agent_id in dict.fromkeys(checkpoint.agent_id for checkpoint in listed)
        ]

    async def agent(self, agent_id: str) -> AgentInfo | None:
        listed = [checkpoint async for checkpoint in self._each(Query(agent_id=agent_id))]
        return self._info(listed) if listed else None

    async def pending(self, what: str, *, user_id: str | None = None, agent_id: str | None = None) -> list[Pending]:
        if what != "operation":
            raise self._full_store(f"finding pending {what}s")
        return [
            Pending(
                what=what,
                name=checkpoint.id,
                agent_id=checkpoint.agent_id,
                user_id=checkpoint.user_id,
                seq=checkpoint.position,
                owner_alive=self._owner(checkpoint.agent_id) is not None,
            )
            async for checkpoint in self._each(Query(user_id=user_id, agent_id=agent_id, kinds=(Kind.PRE_OPERATION,)))
        ]

    async def read(
        self, agent_id: str, *, after: int = 0, limit: int | None = None, snapshots: bool = True
    ) -> list[Record]:
        raise self._full_store("reading a history")

    async def snapshot(self, agent_id: str, seq: int) -> bytes | None:
        raise self._full_store("reading a snapshot")

    async def runs(
        self,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        session: str | None = None,
        user_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunPlace]:
        raise self._full_store("finding runs")

    async def group(self, group_id: str) -> list[str]:
        raise self._full_store("a group of checkpoints")

    async def send(self, agent_id: str, user_id: str, content: Any, *, sender: str) -> int:
        raise self._full_store("sending a message to an inbox")

    async def inbox(self, agent_id: str, *, limit: int = 100) -> list[InboxMessage]:
        raise self._full_store("reading an inbox")

    async def verify(self, progress: Progress | None = None) -> Report:
        """What the storage finds itself, if it has a method for it."""
        return cast("Report", await self._call("verify"))

    async def stats(self) -> dict[str, Any]:
        return {"storage": type(self.storage).__name__}

    async def collect_garbage(self, progress: Progress | None = None) -> dict[str, int]:
        """There is nothing to do here: what a deletion leaves behind is the storage's own business."""
        return {}

    async def close(self) -> None:
        if hasattr(self.storage, "close"):
            await self._call("close")

    # --- one change

    def _check(self, change: Change) -> None:
        if change.records:
            raise self._full_store("writing records")
        if change.acknowledge is not None:
            raise self._full_store("acknowledging messages")
        if change.send:
            raise self._full_store("sending messages")
        if change.checkpoint is not None and change.image is None:
            raise InvalidArgument(
                f"Checkpoint {change.checkpoint.id} comes without its image", checkpoint_id=change.checkpoint.id
            )

    async def _claim(self, change: Change) -> tuple[int, Head]:
        """The agent's head as far as it is known, and as the change would own it; or the refusal."""
        head = self._heads.get(change.agent_id) or Head(user_id=change.user_id)
        if change.checkpoint is not None:
            Kind.of(change.checkpoint.kind)
            try:
                newest = await self._newest(change)
            except Corrupt:
                if change.agent_id not in self._heads:
                    raise
                newest = None  # what this object saved last is known, and damage must not keep the agent from going on
            if newest is not None and (newest.position > head.seq or head.tip_id is None):
                seq = max(head.seq, newest.position)
                head = head.evolve(user_id=newest.user_id, seq=seq, tip_id=newest.id, agent_type=newest.agent_type)
        rules.check_owner(change, head)
        if change.fork_of is not None:
            origin = await self._call("load", change.fork_of)
            if origin is None or origin.user_id != change.user_id:
                raise UnknownCheckpoint(
                    f"There is no checkpoint {change.fork_of} to fork", checkpoint_id=change.fork_of
                )
        rules.check_position(change, head)
        return claimed(change, head, self._operations.get(change.agent_id, 0), self.writer, self.writer.__eq__)

    async def _carry_out(self, change: Change, head: Head, number: int) -> Committed:
        first, completed = head.seq + 1, None
        if change.checkpoint is not None and change.image is not None:
            completed = detached(
                rules.completed(
                    change,
                    change.checkpoint,
                    parent=rules.parent_of(change, head),
                    seq=head.seq + 1,
                    commit_number=number,
                )
            )
            await self._call("save", detached(completed).evolve(state=change.image.decode()))
            head = head.evolve(seq=completed.position, tip_id=completed.id, agent_type=completed.agent_type)
        self._heads[change.agent_id] = head.evolve(commit_number=number)
        deleted = await self._delete(change)
        for checkpoint_id, pinned in change.pin.items():
            found = await self._call("load", checkpoint_id)
            if found is not None and found.agent_id == change.agent_id:
                await self._call("save", found.evolve(pinned=pinned))
        return Committed(
            agent_id=change.agent_id,
            commit_number=number,
            first_seq=first,
            last_seq=head.seq,
            epoch=head.epoch,
            checkpoint=completed,
            deleted=deleted,
        )

    async def _delete(self, change: Change) -> int:
        ids = dict.fromkeys(change.delete)
        if change.erase:
            ids = {one.id: None async for one in self._each(Query(user_id=change.user_id, agent_id=change.agent_id))}
        deleted = 0
        for checkpoint_id in ids:
            if change.checkpoint is not None and change.checkpoint.id == checkpoint_id:
                continue  # saving it has replaced it
            found = await self._call("load", checkpoint_id)
            if found is not None and (found.agent_id, found.user_id) == (change.agent_id, change.user_id):
                await self._call("delete", checkpoint_id)
                deleted += 1
        return deleted

    # --- what the storage lists

    async def _each(self, query: Query) -> AsyncIterator[Checkpoint]:
        """What a query selects, newest first, before its limit and offset."""
        seen: set[str] = set()
        while True:
            page = await self._page(query, _PAGE, len(seen))
            fresh = [found for found in page if found.id not in seen]
            seen.update(found.id for found in fresh)
            for found in fresh:
                if (
                    query.user_id in (None, found.user_id)
                    and query.agent_id in (None, found.agent_id)
                    and (not query.kinds or found.kind in query.kinds)
                ):
                    yield detached(found)
            if len(page) < _PAGE or not fresh:  # nothing new: a storage that ignores the offset would go on for ever
                return

    async def _page(self, query: Query, limit: int, offset: int) -> list[Checkpoint]:
        """A page of the agent's checkpoints where the storage can list them, else of the user's."""
        if query.agent_id is not None:
            try:
                return cast("list[Checkpoint]", await self._call("list_by_agent", query.agent_id, limit, offset))
            except MissingMethod:
                if query.user_id is None:
                    raise
        if query.user_id is None:
            raise self._full_store("listing the checkpoints of all users")
        return cast("list[Checkpoint]", await self._call("list_by_user", query.user_id, limit, offset))

    async def _newest(self, change: Change) -> Checkpoint | None:
        """The agent's newest by number. In an unknown agent's list, one that was pinned lately may stand before it."""
        query = Query(user_id=change.user_id, agent_id=change.agent_id)
        if change.agent_id in self._heads:
            found = [one for one in await self._page(query, 1, 0) if one.agent_id == change.agent_id]
        else:
            found = []
            async for checkpoint in self._each(query):
                found.append(checkpoint)
                if len(found) == _PAGE:
                    break
        return max(found, key=lambda checkpoint: checkpoint.commit_number, default=None)

    async def _next_number(self, changes: tuple[Change, ...]) -> int:
        number = self._commits
        for user_id in {change.user_id for change in changes}:
            with suppress(Corrupt):  # of another agent, maybe: it must not keep this one from going on
                page = await self._page(Query(user_id=user_id), 1 if number else _PAGE, 0)
                number = max([number, *(found.commit_number for found in page)])
        return number + 1

    def _info(self, listed: list[Checkpoint]) -> AgentInfo:
        newest = max(listed, key=lambda checkpoint: checkpoint.commit_number)
        head = self._heads.get(newest.agent_id) or Head(user_id=newest.user_id)
        return AgentInfo(
            agent_id=newest.agent_id,
            user_id=newest.user_id,
            agent_type=newest.agent_type,
            last_seq=max(head.seq, newest.position),
            commit_number=newest.commit_number,
            epoch=head.epoch,
            owner=head.owner,
            owner_alive=head.owner is not None,
            checkpoints=len(listed),
            tip=newest.id,
            forked_from=None,
        )

    def _owner(self, agent_id: str) -> str | None:
        head = self._heads.get(agent_id)
        return head.owner if head else None

    # --- calls

    async def _call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the storage, with an error that names it when it is not there or not async."""
        name = type(self.storage).__name__
        function = getattr(self.storage, method, None)
        if function is None:
            raise MissingMethod(f"{name} has no method {method}(), which this call needs", method=method)
        answer = function(*arguments)
        if not inspect.isawaitable(answer):
            raise InvalidArgument(
                f"{name}.{method}() is a plain function; a storage's methods are async",
                hint=f"Write `async def {method}(…)`; blocking work belongs in asyncio.to_thread().",
                method=method,
            )
        return await answer

    def _full_store(self, what: str) -> MissingMethod:
        return MissingMethod(
            f"{type(self.storage).__name__} keeps checkpoints only; {what} needs a full store (memory, SQLite)",
            hint="Use InMemoryCheckpointStorage or SQLiteCheckpointStorage.",
        )

    # The last one, because below it `list` names this method.
    async def list(self, query: Query) -> list[Checkpoint]:
        simple = query.user_id is not None and query.agent_id is None and not query.kinds and not query.oldest_first
        if simple and query.limit is not None:
            return [detached(one) for one in await self._call("list_by_user", query.user_id, query.limit, query.offset)]
        found = [checkpoint async for checkpoint in self._each(query)]
        if query.oldest_first:
            found.reverse()
        return (
            found[query.offset :] if query.limit is None else [*islice(found, query.offset, query.offset + query.limit)]
        )

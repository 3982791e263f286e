"""`TaskList`: durable work for one agent or several, claimed by one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.loop.running import wake
from holdfast.agents.loop.tasks import Task, Tasks, entry, folded, from_state, to_state
from holdfast.durable.saving import Purpose
from holdfast.errors import InvalidArgument, OwnedElsewhere
from holdfast.history.checkpoint import Kind
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Outgoing

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import AgentInfo, InboxMessage

_ENTRIES_MAX: Final = 64  # so many are read again and again before the list is saved without them
_ALL: Final = 1 << 30
_ATTEMPTS: Final = 200
_ATTEMPT_SECONDS: Final = 0.01

_saving: Final[set[tuple[int, str]]] = set()  # lists that are saved by this process now: the store holds them for all


class TaskList:
    """Tasks in the order in which they were added; any process may add, claim and complete.

    A list is an inbox: what is done to it is sent there, and the order of the messages decides, so that of two who
    claim a task at once one gets it, and nobody waits for anybody. Now and then the list is saved as what they came to.
    """

    def __init__(self, manager: CheckpointManager, list_id: str, *, user_id: str | None = None) -> None:
        self.manager = manager
        self.agent_id = list_id
        self.user_id = user_id or manager.user_id or "default"
        self.status = ""
        self._base: Tasks = {}  # of one that was settled: what it is saved as
        self._known: tuple[object, Tasks] = (None, {})
        make_known(manager)

    def __repr__(self) -> str:
        return f"TaskList({self.agent_id!r})"

    # --- what is done to it

    async def add(self, name: str, content: Any = None, *, by: str = "") -> str:
        """Puts a task, with any value that a state may hold, behind the others. Returns its id."""
        task_id = new_id("tsk")
        await self._write(entry("add", task_id, name=name, content=content), by)
        return task_id

    async def claim(self, by: str) -> Task | None:
        """The task that `by` works on: its unfinished one, or else the first open one, which is its own from now on."""
        while True:
            mine = await self.current(by)
            if mine is not None:
                return mine
            task = next((task for task in (await self._tasks()).values() if task.status == "open"), None)
            if task is None:
                return None
            await self._write(entry("claim", task.id, by=by), by)  # another's claim may have come first

    async def current(self, by: str) -> Task | None:
        """The task that `by` has claimed and not completed, if any."""
        tasks = (await self._tasks()).values()
        return next((task for task in tasks if task.claimed_by == by and task.status == "claimed"), None)

    async def progress(self, task_id: str, percentage: float, *, by: str) -> None:
        """Tells how far a claimed task is, from 0 to 100."""
        await self._claimed(task_id, by)
        await self._write(entry("progress", task_id, by=by, percentage=checked(percentage)), by)

    async def complete(self, task_id: str, result: Any = None, *, by: str) -> None:
        """Ends a claimed task."""
        await self._claimed(task_id, by)
        await self._write(entry("complete", task_id, by=by, result=result), by)

    async def release(self, task_id: str, *, by: str = "") -> None:
        """Gives a claimed task back, whoever has it: an agent that will not come again, say. It is open again."""
        await self._write(entry("release", task_id), by)

    # --- what is in it

    async def get(self, task_id: str) -> Task | None:
        return (await self._tasks()).get(task_id)

    async def all(self) -> list[Task]:
        """The tasks as they were added; of completed ones the last hundred."""
        return [*(await self._tasks()).values()]

    # --- as an agent, which it is to the store

    def checkpoint_state(self) -> dict[str, Any]:
        return to_state(self._base)

    def restore_state(self, state: dict[str, Any]) -> None:
        self._base = from_state(state)

    async def settle(self) -> TaskList:
        """Saves the list as its entries left it, and acknowledges them. Returns what was saved. Only within `held`."""
        checkpoint, base, entries = await self._read()
        settled = TaskList(self.manager, self.agent_id, user_id=self.user_id)  # nothing that goes on now changes it
        settled._base = folded(base, [one.content for one in entries])
        if checkpoint is not None:
            self.manager.go_on_from(settled, checkpoint.id)
        if entries or checkpoint is None:
            stays = checkpoint is None or checkpoint.pinned or checkpoint.group_id is not None
            purpose = Purpose(
                kind=Kind.AUTO,
                acknowledge=entries[-1].number if entries else None,
                replaces=() if stays or checkpoint is None else (checkpoint.id,),
            )
            await self.manager.save_each((settled, purpose))
        return settled

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keeps the list from being saved by anybody else. That takes milliseconds, so whoever finds it held waits."""
        async with AsyncExitStack() as stack:
            await self._take(stack)
            yield

    async def _take(self, stack: AsyncExitStack) -> None:
        place = (id(self.manager.store), self.agent_id)
        for attempt in count(1):
            if place not in _saving:
                _saving.add(place)
                try:
                    await stack.enter_async_context(self.manager.hold(self.agent_id, self.user_id))
                except BaseException as error:
                    _saving.discard(place)
                    if attempt >= _ATTEMPTS or not isinstance(error, OwnedElsewhere):
                        raise
                else:
                    stack.callback(_saving.discard, place)
                    return
            await asyncio.sleep(_ATTEMPT_SECONDS)

    # --- parts

    async def _write(self, what: dict[str, Any], sender: str) -> None:
        await self.manager.store.send(self.agent_id, self.user_id, what, sender=sender)
        wake(self.manager.store, self.agent_id)

    def outgoing(self, what: dict[str, Any], sender: str) -> Outgoing:
        """The same, to be sent with a commit."""
        return Outgoing(to=self.agent_id, user_id=self.user_id, content=what, sender=sender)

    async def _claimed(self, task_id: str, by: str) -> None:
        task = await self.get(task_id)
        if task is None or task.status != "claimed" or task.claimed_by != by:
            raise InvalidArgument(
                f"Task {task_id} of {self.agent_id} is not claimed by {by}",
                agent_id=by,
                hint="Only who has claimed a task goes on with it; TaskList.get() shows who has.",
            )

    async def _tasks(self) -> Tasks:
        """The tasks as they are now. What was read is kept until something was written."""
        info = await self.manager.store.agent(self.agent_id)
        mark = None if info is None else (info.tip, info.inbox_acknowledged, info.inbox_last)
        if mark is not None and mark != self._known[0]:
            _, base, entries = await self._read()
            self._known = mark, folded(base, [one.content for one in entries])
            if len(entries) > _ENTRIES_MAX:
                await self._settle_soon()
        return self._known[1] if mark is not None else {}

    async def _read(self) -> tuple[Checkpoint | None, Tasks, list[InboxMessage]]:
        """The list's newest checkpoint, the tasks in it, and what was written since, as of one moment."""
        store = self.manager.store
        before = await store.agent(self.agent_id)
        while True:
            checkpoint = await self.manager.latest(self.agent_id)
            found = None if checkpoint is None else await store.fetch(checkpoint.id)
            entries = await store.inbox(self.agent_id, limit=_ALL)
            after = await store.agent(self.agent_id)
            # It may have been saved by others in between. An entry that only came is one more, and does no harm.
            if _saved_at(before) == _saved_at(after):
                break
            before = after
        return checkpoint, {} if found is None else from_state(found[1].decode()), entries

    async def _settle_soon(self) -> None:
        """Saves the list, unless somebody does so already: it can wait."""
        if (id(self.manager.store), self.agent_id) in _saving:
            return
        with suppress(OwnedElsewhere):
            async with self.held():
                await self.settle()


def make_known(manager: CheckpointManager) -> None:
    """Tells a manager how a list is rebuilt: one may be a member of a group."""
    if not manager.types.knows("TaskList"):
        manager.register(lambda found: TaskList(manager, found.agent_id, user_id=found.user_id), name="TaskList")


def _saved_at(info: AgentInfo | None) -> tuple[str | None, int]:
    return (None, 0) if info is None else (info.tip, info.inbox_acknowledged)


def checked(percentage: Any) -> float:
    """A percentage, or the refusal."""
    if isinstance(percentage, bool) or not isinstance(percentage, int | float) or not 0 <= percentage <= 100:
        raise InvalidArgument(f"Progress is a percentage from 0 to 100, not {percentage!r}")
    return float(percentage)

"""`LoopGroup`: loops whose agents write to each other, run together and brought back together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from holdfast.agents.loop.running import is_running
from holdfast.agents.loop.steps import within
from holdfast.agents.loop.tasklist import TaskList, make_known
from holdfast.durable.saving import Purpose
from holdfast.errors import InvalidArgument
from holdfast.history.checkpoint import Kind
from holdfast.storage.ids import new_id

if TYPE_CHECKING:
    from holdfast.agents.loop.ended import Ended
    from holdfast.agents.loop.loop import AgentLoop
    from holdfast.durable.manager import CheckpointManager


class LoopGroup:
    """Loops of one manager and one process.

    A cut of them is consistent: each agent is between two of its steps, and the cut has their states, their inboxes and
    their lists of tasks, in one commit. When all of them are brought back to it, no message is lost and none comes
    twice, whoever sent it.
    """

    def __init__(self, loops: Sequence[AgentLoop]) -> None:
        if not loops or len({id(loop.manager.store) for loop in loops}) > 1:
            raise InvalidArgument("A group needs loops, and all of one store")
        self.loops = [*loops]
        self.manager = loops[0].manager

    def __repr__(self) -> str:
        return f"LoopGroup({self.loops!r})"

    async def run(self) -> list[Ended]:
        """Runs all of them until each has ended. When one raises, the others are stopped, and then it is raised."""
        running = [asyncio.ensure_future(loop.run()) for loop in self.loops]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            if any(one.done() and not one.cancelled() and one.exception() for one in running):
                self.stop()
            return await asyncio.gather(*running)
        finally:
            for one in running:
                if not one.done() and _cancelled():
                    one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def stop(self) -> None:
        """Ends all of them, each after its current step and a final checkpoint."""
        for loop in self.loops:
            loop.stop()

    async def save_group(self, *, kind: str = Kind.MANUAL, metadata: dict[str, Any] | None = None) -> str:
        """Saves all of them as of one moment while they run. Returns the group's id.

        It waits for the steps that they are at, and lets none begin a new one meanwhile.
        """
        if within.get() in [loop.place for loop in self.loops]:
            raise InvalidArgument(
                "A group can't be saved within a step of one of its loops, for whose end it would wait",
                hint="Save it from outside: from a task of its own, or a handler of another program.",
            )
        group_id = new_id("grp")
        lists = {loop.tasks.agent_id: loop.tasks for loop in self.loops}
        async with AsyncExitStack() as stack:
            for loop in self.loops:
                await stack.enter_async_context(loop.steps.between)
                await loop.find_place()
            settled = []
            for _, tasks in sorted(lists.items()):
                await stack.enter_async_context(tasks.held())
                settled.append(await tasks.settle())
            why = Kind.of(kind)
            wanted = [(loop.agent, await loop.place.of_group(why, group_id, metadata)) for loop in self.loops]
            of_lists = Purpose(kind=why, metadata=metadata, group_id=group_id)
            saved = await self.manager.save_each(*wanted, *((tasks, of_lists) for tasks in settled))
            for loop, checkpoint in zip(self.loops, saved, strict=False):
                loop.place.saved(checkpoint)
        return group_id

    @staticmethod
    async def restore_group(manager: CheckpointManager, group_id: str) -> list[Any]:
        """The agents of a group as they were at the cut, with their inboxes and lists of tasks: give them new loops."""
        for checkpoint_id in await manager.store.group(group_id):
            found = await manager.store.position(checkpoint_id)
            if found is not None and is_running(manager.store, found.agent_id):
                raise InvalidArgument(
                    f"A loop runs agent {found.agent_id} of group {group_id}",
                    agent_id=found.agent_id,
                    group_id=group_id,
                    hint="Stop the group's loops first.",
                )
        make_known(manager)
        return [one for one in await manager.restore_group(group_id) if not isinstance(one, TaskList)]


def _cancelled() -> bool:
    here = asyncio.current_task()
    return here is not None and bool(here.cancelling())

"""`Turn`: what an agent may do while it works on one message or one slice of a task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.agents.loop.tasklist import checked
from holdfast.agents.loop.tasks import Task, entry
from holdfast.errors import InvalidArgument
from holdfast.history import codec
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Outgoing

if TYPE_CHECKING:
    from holdfast.agents.loop.place import Place
    from holdfast.agents.loop.tasklist import TaskList
    from holdfast.drift.protocol import Event
    from holdfast.durable.operation import Operation


class Turn:
    """One step of an agent. What is done through it happens with the commit that ends the step, or not at all.

    `attempt` says for the how manieth time this process tries the step, since it failed the times before. `task` is
    the task that the agent works on now, or None; in `on_message`, too.
    """

    def __init__(self, place: Place, tasks: TaskList, task: Task | None, *, attempt: int) -> None:
        self.agent_id = place.agent_id
        self.attempt = attempt
        self.task = task
        self.events: list[Event] = []
        self.completed: list[str] = []
        self.waits: float | None = None
        self._place = place
        self._tasks = tasks
        self._send: list[Outgoing] = []

    # --- to others

    def send(self, to: str, content: Any) -> None:
        """Sends a message to an agent of the same user."""
        self._out(Outgoing(to=to, user_id=self._place.user_id, content=content, sender=self.agent_id))

    def add_task(self, name: str, content: Any = None) -> str:
        """Adds a task to the agent's list. Returns its id."""
        task_id = new_id("tsk")
        self._tell(entry("add", task_id, name=name, content=content))
        return task_id

    # --- the task

    def progress(self, percentage: float) -> None:
        """Tells how far the task is, from 0 to 100."""
        task = self._current()
        self._tell(entry("progress", task.id, by=self.agent_id, percentage=checked(percentage)))
        self.task = replace(task, progress_percentage=float(percentage))

    def complete(self, result: Any = None) -> None:
        """Ends the task."""
        task = self._current()
        self._tell(entry("complete", task.id, by=self.agent_id, result=result))
        self.completed.append(task.id)
        self.task = None

    def wait(self, seconds: float | None = None) -> None:
        """Leaves the task until a message has come, or for so many seconds at most."""
        self.waits = float("inf") if seconds is None else seconds

    # --- on the way

    @asynccontextmanager
    async def operation(self, name: str, *, metadata: dict[str, Any] | None = None) -> AsyncIterator[Operation]:
        """A critical operation, with a `pre_operation` checkpoint that is gone when it succeeds.

        When it fails, the agent and what it did through this turn are as they were before it, and the exception goes
        on. When its process dies, the agent is asked by `on_interrupted` what became of it.
        """
        sent, task, completed = len(self._send), self.task, len(self.completed)
        begun: Operation | None = None
        await self._place.keep()
        try:
            async with self._place.operation(name, metadata or {}) as begun:
                yield begun
        except BaseException as error:
            if begun is not None:
                await self._place.taken_back(begun, error)
            self._send, self.task, self.completed = self._send[:sent], task, self.completed[:completed]
            raise

    def observe(self, event: Event) -> None:
        """Tells the detector of drift more of what the agent does than the loop sees: the calls of its tools, say."""
        self.events.append(event)

    # --- for the loop

    @property
    def outgoing(self) -> tuple[Outgoing, ...]:
        return tuple(self._send)

    def _current(self) -> Task:
        if self.task is None:
            raise InvalidArgument(
                f"Agent {self.agent_id} has no task now",
                agent_id=self.agent_id,
                hint="turn.task says which task the agent works on; a completed one has ended.",
            )
        return self.task

    def _tell(self, what: dict[str, Any]) -> None:
        self._out(self._tasks.outgoing(what, self.agent_id))

    def _out(self, message: Outgoing) -> None:
        """Encoded now: the agent may go on with what it sends, and what can't be sent is refused here, by its path."""
        self._send.append(replace(message, content=codec.decode(codec.encode(message.content, path="content"))))

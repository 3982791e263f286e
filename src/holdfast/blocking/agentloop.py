"""`AgentLoop`, `Mailbox` and `TaskList` for programs that don't use asyncio."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.agents.loop import loop as asynchronous
from holdfast.agents.loop.ended import Ended
from holdfast.agents.loop.mailbox import Mailbox as AsyncMailbox
from holdfast.agents.loop.signals import SIGNALS, Stoppable
from holdfast.agents.loop.tasklist import TaskList as AsyncTaskList
from holdfast.agents.loop.tasks import Task
from holdfast.agents.loop.turn import Turn as AsyncTurn
from holdfast.blocking.loop import run
from holdfast.blocking.manager import Manager
from holdfast.durable.operation import Operation


def _waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, which returns when it is done."""

    @functools.wraps(method)
    def wait(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(method(self.asynchronous, *args, **kwargs))

    return wait


class Mailbox:
    """What `holdfast.Mailbox` is, without `await`."""

    def __init__(self, manager: Manager, agent_id: str, *, user_id: str | None = None) -> None:
        self.asynchronous = AsyncMailbox(manager.asynchronous, agent_id, user_id=user_id)

    def __repr__(self) -> str:
        return f"blocking.{self.asynchronous!r}"

    send = _waiting(AsyncMailbox.send)
    receive = _waiting(AsyncMailbox.receive)
    acknowledge = _waiting(AsyncMailbox.acknowledge)
    waiting = _waiting(AsyncMailbox.waiting)


class TaskList:
    """What `holdfast.TaskList` is, without `await`."""

    def __init__(self, manager: Manager, list_id: str, *, user_id: str | None = None) -> None:
        self.asynchronous = AsyncTaskList(manager.asynchronous, list_id, user_id=user_id)

    def __repr__(self) -> str:
        return f"blocking.{self.asynchronous!r}"

    add = _waiting(AsyncTaskList.add)
    claim = _waiting(AsyncTaskList.claim)
    current = _waiting(AsyncTaskList.current)
    progress = _waiting(AsyncTaskList.progress)
    complete = _waiting(AsyncTaskList.complete)
    release = _waiting(AsyncTaskList.release)
    get = _waiting(AsyncTaskList.get)
    all = _waiting(AsyncTaskList.all)


class Turn(AsyncTurn):
    """What an agent of a blocking loop is given: its operations are entered with a plain `with`."""

    @contextmanager
    def operation(self, name: str, *, metadata: dict[str, Any] | None = None) -> Iterator[Operation]:  # type: ignore[override]
        held = super().operation(name, metadata=metadata)
        operation = run(held.__aenter__())
        try:
            yield operation
        except BaseException as error:
            run(_left(held.__aexit__(type(error), error, error.__traceback__)))
            raise
        run(_left(held.__aexit__(None, None, None)))


class _Loop(asynchronous.AgentLoop):
    def _turn(self, task: Task | None, attempt: int) -> Turn:
        return Turn(self.place, self.tasks, task, attempt=attempt)


class AgentLoop:
    """What `holdfast.AgentLoop` is, without `await`: it takes the same options, and a `Manager`.

    The agent's methods are called on the thread that calls `run`, which stop signals end if it is the main thread.
    A plain function can't be interrupted: a step that `interrupt` takes back is taken back when it returns.
    """

    def __init__(
        self,
        agent: Any,
        manager: Manager,
        routine_seconds: float = 1800,
        refresh_seconds: float = 7200,
        *,
        tasks: TaskList | None = None,
        **options: Any,
    ) -> None:
        shared = None if tasks is None else tasks.asynchronous
        self.asynchronous = _Loop(
            agent, manager.asynchronous, routine_seconds, refresh_seconds, tasks=shared, **options
        )
        self.mailbox = Mailbox(manager, self.asynchronous.agent_id, user_id=self.asynchronous.user_id)
        self.tasks = tasks or TaskList(manager, self.asynchronous.tasks.agent_id, user_id=self.asynchronous.user_id)

    def __repr__(self) -> str:
        return f"blocking.{self.asynchronous!r}"

    @property
    def agent(self) -> Any:
        """The agent as it is now; a refresh may have built a new object."""
        return self.asynchronous.agent

    def run(self, *, take_over: bool = False) -> Ended:
        """Goes on from where the agent is, until something ends it. Says what that was."""
        with _stopped_by_signals(self.asynchronous):
            return run(self.asynchronous.run(take_over=take_over))

    def stop(self) -> None:
        """Ends the loop after the current step and a final checkpoint. Idempotent; any thread may."""
        self.asynchronous.stop()

    def interrupt(self) -> None:
        """Ends it as `stop` does, but takes the current step back: its message will come again."""
        self.asynchronous.interrupt()

    def wake(self) -> None:
        """Looks for work at once. Any thread may."""
        self.asynchronous.wake()


@contextmanager
def _stopped_by_signals(one: Stoppable) -> Iterator[None]:
    """The event loop runs on a thread of its own here, and signals come to the main one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda told, _: one.signalled(signal.Signals(told).name))
    try:
        yield
    finally:
        for number, what in before.items():
            signal.signal(number, what or signal.SIG_DFL)


async def _left(leaving: Any) -> None:
    await leaving

"""The one daemon thread whose event loop runs everything async for callers that are not."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from holdfast.durable.calls import elsewhere
from holdfast.errors import InvalidArgument

T = TypeVar("T")
P = ParamSpec("P")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the loop's thread and waits for its result, whether or not this thread runs a loop itself.

    While it waits, this thread makes the calls of the user's code (`durable.calls`) that the coroutine wants. What
    interrupts the waiting, such as KeyboardInterrupt, cancels the coroutine and is raised at once.
    """
    thread = _running()
    if threading.current_thread() is thread:
        coroutine.close()
        raise InvalidArgument(
            "The synchronous form was called from within its own event loop, which would wait for itself",
            hint="Use the async CheckpointManager in async handlers and agents.",
        )
    result: T = _Waiting(thread.loop, coroutine).result()
    return result


class _Waiting:
    """A thread that waits for a coroutine, and makes calls for it meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._errands: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()  # None: the task is done
        self._over = False

    def result(self) -> Any:
        context = contextvars.copy_context()
        context.run(elsewhere.set, self._here)
        try:
            self._loop.call_soon_threadsafe(self._start, context)
            while (errand := self._errands.get()) is not None:
                errand()
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel)
            raise
        finally:
            self._over = True
        assert self._task is not None  # noqa: S101 - whoever puts None has set it
        return self._task.result()

    def _start(self, context: contextvars.Context) -> None:
        self._task = self._loop.create_task(self._coroutine, context=context)
        self._task.add_done_callback(lambda _: self._errands.put(None))

    def _cancel(self) -> None:
        if self._task is None:  # the interrupt came before the start
            self._coroutine.close()
        else:
            self._task.cancel()

    async def _here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """On the loop: lets the waiting thread call a function."""
        if self._over:  # a task that outlived the call which began it
            return function(*arguments)
        answer: asyncio.Future[tuple[Any, Exception | None]] = self._loop.create_future()

        def errand() -> None:
            try:
                outcome: tuple[Any, Exception | None] = function(*arguments), None
            except Exception as error:  # noqa: BLE001 - it is raised where the call was wanted
                outcome = None, error
            self._loop.call_soon_threadsafe(_answer, answer, outcome)

        self._errands.put(errand)
        result, error = await answer
        if error is not None:
            raise error
        return result


def _answer(future: asyncio.Future[T], outcome: T) -> None:
    if not future.done():
        future.set_result(outcome)


class _Executor(ThreadPoolExecutor):
    """Threads for what would block the loop. In a program's atexit handlers there are none: the loop does it itself."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(function, *args, **kwargs)
        except RuntimeError:  # the interpreter is shutting down and starts no more threads
            future: Future[T] = Future()
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                future.set_exception(error)
            return future


class _LoopThread(threading.Thread):
    """A daemon: a program that closes nothing still ends."""

    def __init__(self) -> None:
        super().__init__(name="holdfast-blocking", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_Executor(thread_name_prefix="holdfast-blocking"))

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_thread: _LoopThread | None = None
_starting = threading.Lock()
_of_parents: list[_LoopThread | None] = []  # closing a parent's loop would take its sockets out of the shared epoll


def _running() -> _LoopThread:
    global _thread  # noqa: PLW0603 - one for the process
    with _starting:
        if _thread is None:
            thread = _LoopThread()
            thread.start()
            _thread = thread
        return _thread


def _forget_in_child() -> None:
    """After fork() the thread is the parent's alone; the child starts one of its own when it needs it."""
    global _thread, _starting  # noqa: PLW0603 - one for the process
    _of_parents.append(_thread)
    _thread = None
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)

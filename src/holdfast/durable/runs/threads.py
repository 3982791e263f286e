"""Threads for functions of the user's: as many as are wanted, kept for the next, and none that holds the process back.

The threads of asyncio's executor are waited for when a loop or the process ends. A function that hangs would keep a
program from ending, though nobody waits for its answer any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

_IDLE_SECONDS_MAX: Final = 10.0
_THREADS_MAX: Final = 256

_Job = Callable[[], None]
_idle: list[SimpleQueue[_Job]] = []
_waiting: deque[_Job] = deque()  # for a thread, when there are as many as there may be
_threads = 0
_lock = threading.Lock()


async def on_thread(function: Callable[..., T], *args: Any) -> T:
    """What the function returns or raises, called on a thread, in the context of the caller.

    Whoever is cancelled meanwhile waits no longer, and the function goes on until it returns.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def job() -> None:
        try:
            result = context.run(function, *args)
        except StopIteration as error:  # no future can hold one: the caller would wait for ever
            _tell(loop, future, future.set_exception, RuntimeError(f"It raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            _tell(loop, future, future.set_exception, error)
        else:
            _tell(loop, future, future.set_result, result)

    _hand_over(job)
    return await future


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], settle: Callable[[Any], None], value: Any
) -> None:
    def told() -> None:
        if not future.done():
            settle(value)

    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(told)


def _hand_over(job: _Job) -> None:
    global _threads  # noqa: PLW0603 - under the lock
    with _lock:
        jobs = _idle.pop() if _idle else None
        if jobs is None:
            if _threads >= _THREADS_MAX:
                _waiting.append(job)
                return
            _threads += 1
    if jobs is None:
        jobs = SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="holdfast-tool", daemon=True).start()
    jobs.put(job)


def _work(jobs: SimpleQueue[_Job]) -> None:
    while True:
        try:
            jobs.get(timeout=_IDLE_SECONDS_MAX)()
        except Empty:
            if _is_over(jobs):
                return
            continue  # somebody has just taken this thread
        while (job := _next(jobs)) is not None:
            job()


def _next(jobs: SimpleQueue[_Job]) -> _Job | None:
    """A job that waits for a thread; without one, this thread waits for the next."""
    with _lock:
        if _waiting:
            return _waiting.popleft()
        _idle.append(jobs)
        return None


def _is_over(jobs: SimpleQueue[_Job]) -> bool:
    global _threads  # noqa: PLW0603 - under the lock
    with _lock:
        if jobs not in _idle:
            return False
        _idle.remove(jobs)
        _threads -= 1
        return True


def _forget_all() -> None:
    """A forked child has none of its parent's threads."""
    global _lock, _threads
    _lock, _threads = threading.Lock(), 0
    _idle.clear()
    _waiting.clear()


os.register_at_fork(after_in_child=_forget_all)

"""A thread that does jobs in order, for tasks on any event loop of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any


class Job:
    """One piece of work and who waits for it."""

    __slots__ = ("alone", "error", "future", "loop", "result", "work")

    def __init__(
        self, work: Callable[[Any], Any], loop: asyncio.AbstractEventLoop | None, future: Any, *, alone: bool
    ) -> None:
        self.work: Any = work
        self.alone = alone  # must not share a transaction with others
        self.loop = loop
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class Worker:
    """Runs `serve(jobs)` on a thread of its own with whatever has queued up, and tells those who wait.

    Waiting tasks of one loop are woken by one call, however many there are. The thread is a daemon: a program that
    closes nothing still ends.
    """

    def __init__(self, name: str, serve: Callable[[list[Job]], None], *, batch_max: int = 256) -> None:
        self._name = name
        self._serve = serve
        self._batch_max = batch_max
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()

    async def do(self, work: Callable[[Any], Any], *, alone: bool = False) -> Any:
        """Waits for the work's result. A cancelled waiter does not undo the work."""
        return await self.submit(work, alone=alone)

    def submit(self, work: Callable[[Any], Any], *, alone: bool = False) -> asyncio.Future[Any]:
        """The work's result, to be waited for."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._thread is None:
            self._start()
        self._queue.put(Job(work, loop, future, alone=alone))
        return future

    def do_blocking(self, work: Callable[[Any], Any], *, seconds_max: float | None = None) -> Any:
        """The same for a thread that has no event loop."""
        done = threading.Event()
        if self._thread is None:
            self._start()
        job = Job(work, None, done, alone=True)
        self._queue.put(job)
        done.wait(seconds_max)
        if job.error is not None:
            raise job.error
        return job.result

    def stop(self) -> threading.Thread | None:
        """Ends the thread after what is queued, and returns it for whoever may wait. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
        return thread

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                return
            jobs = [job]
            stopping = False
            while len(jobs) < self._batch_max and not stopping:
                try:
                    job = self._queue.get_nowait()
                except Empty:
                    break
                if job is None:
                    stopping = True
                else:
                    jobs.append(job)
            try:
                self._serve(jobs)
            except BaseException as error:  # noqa: BLE001 - it belongs to those who wait, and the thread must live on
                for job in jobs:
                    job.error = job.error or error
            _tell(jobs)
            if stopping:
                return


def _tell(jobs: list[Job]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.loop is None:
            job.future.set()
        else:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, waiting in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, waiting)


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)

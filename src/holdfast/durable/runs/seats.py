"""Seats: the few sandbox workers of a runner, each with a thread of its own, lent to one program at a time."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.durable.runs.guardian import Guardian
from holdfast.errors import Closed, InvalidArgument, MissingExtra
from holdfast.storage.sqlite.worker import Worker

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession

T = TypeVar("T")
_SECONDS_AT_EXIT = 2.0

_guardian = Guardian()
_all: weakref.WeakSet[Seats] = weakref.WeakSet()
_never_dropped: list[Any] = []  # a parent's pools, in a forked child: ending them would end the parent's workers


class Seat:
    """A thread, and the sandbox session that the program which sits here has."""

    def __init__(self, number: int) -> None:
        self.worker = Worker(f"holdfast-python-{number}", _serve)
        self.session: MontySession | None = None
        self.pid: int | None = None  # of the sandbox's process, while there is a session
        self.busy = False

    async def do(self, work: Callable[[], T]) -> T:
        """Runs the work on this seat's thread. Whoever is cancelled meanwhile ends the sandbox's process with it."""
        self.busy = True
        done = self.worker.submit(lambda _: work())
        try:
            result: T = await asyncio.shield(done)
        except asyncio.CancelledError:
            self.kill()
            with suppress(Exception):
                await done
            raise
        finally:
            self.busy = False
        return result

    def open(self, pool: Monty, options: dict[str, Any]) -> MontySession:
        """A fresh session; to be called on this seat's thread."""
        session = pool.checkout(**options)
        session.__enter__()
        self.session, self.pid = session, session.worker_pid
        if self.pid is not None:
            _guardian.watch(self.pid)
        return session

    def leave(self) -> None:
        """Ends the session; to be called on this seat's thread."""
        session, pid = self.session, self.pid
        self.session, self.pid = None, None
        if pid is not None:
            _guardian.forget(pid)
        if session is not None:
            with suppress(Exception):  # its process may be gone
                session.__exit__(None, None, None)

    def kill(self) -> None:
        """Ends the sandbox's process, whatever it is doing: whoever waits for it is told that it crashed."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _serve(jobs: list[Any]) -> None:
    for job in jobs:
        try:
            job.result = job.work(None)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the job
            job.error = error


class Seats:
    """Lends seats in the order in which they were asked for. Who waits for a tool gives its seat back if others do."""

    def __init__(self, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise InvalidArgument(f"workers={count} can't run any program", hint="1 is the least.")
        self.count = count or max(2, os.cpu_count() or 2)
        self._pool: Monty | None = None
        self._lock = threading.Lock()
        self._free: list[Seat] = []
        self._made: list[Seat] = []
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[Seat]]] = deque()
        self._asked: list[Callable[[], object]] = []
        self._closed = False
        _all.add(self)

    # --- lending

    async def take(self) -> Seat:
        """A seat, as soon as one is free."""
        with self._lock:
            self._check_open()
            if (seat := self._one_free()) is not None:
                return seat
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Seat] = loop.create_future()
            self._waiting.append((loop, future))
            asked = list(self._asked)
        for ask in asked:
            ask()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back(future.result())
            raise

    def give_back(self, seat: Seat) -> None:
        """To whoever waits longest."""
        with self._lock:
            while self._waiting:
                loop, future = self._waiting.popleft()
                with suppress(RuntimeError):  # that loop was closed
                    loop.call_soon_threadsafe(self._hand_over, future, seat)
                    return
            self._free.append(seat)

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for a seat."""
        return bool(self._waiting)

    def when_wanted(self, ask: Callable[[], object]) -> Callable[[], None]:
        """Calls `ask`, on whichever thread, when somebody has to wait. Returns what ends that."""
        with self._lock:
            self._asked.append(ask)

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._asked.remove(ask)

        return end

    def _one_free(self) -> Seat | None:
        if self._free:
            return self._free.pop()
        if len(self._made) < self.count:
            seat = Seat(len(self._made) + 1)
            self._made.append(seat)
            return seat
        return None

    def _hand_over(self, future: asyncio.Future[Seat], seat: Seat) -> None:
        if future.done():  # it was cancelled meanwhile
            self.give_back(seat)
        else:
            future.set_result(seat)

    # --- the pool

    def pool(self) -> Monty:
        """The workers; started at first use, on a seat's thread."""
        with self._lock:
            self._check_open()
            if self._pool is None:
                self._pool = _new_pool(self.count)
            return self._pool

    async def close(self) -> None:
        """Ends every worker, for good. Whoever sits in one, or waits for a seat, is told."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
            made, self._made, self._free = self._made, [], []
            waiting, self._waiting = self._waiting, deque()
        for loop, future in waiting:
            with suppress(RuntimeError):  # that loop was closed
                loop.call_soon_threadsafe(_refuse, future)
        for seat in made:
            seat.kill()
        for seat in made:
            if (thread := seat.worker.stop()) is not None:
                thread.join(_SECONDS_AT_EXIT)
        if pool is not None:
            with suppress(Exception):
                pool.__exit__(None, None, None)

    def _check_open(self) -> None:
        # A program whose sandbox was ended must not be given another one by a process that ends.
        if self._closed:
            raise closed()

    def forget_in_child(self) -> None:
        _never_dropped.extend([self._pool, self._made, self._free])
        self._pool, self._made, self._free = None, [], []
        self._lock = threading.Lock()
        self._waiting, self._asked = deque(), []


def closed() -> Closed:
    return Closed("This runner was closed", hint="Make a new PythonRunner; its recover() goes on with the runs.")


def check_installed() -> None:
    if find_spec("pydantic_monty") is None:
        raise MissingExtra(
            "run_python needs pydantic-monty, which is not installed", hint="pip install 'holdfast[python]'"
        )


def _new_pool(count: int) -> Monty:
    check_installed()
    from pydantic_monty import Monty

    pool = Monty(max_processes=count)
    pool.__enter__()
    return pool


def _refuse(future: asyncio.Future[Seat]) -> None:
    if not future.done():
        future.set_exception(closed())


def _close_all() -> None:
    for seats in list(_all):
        with suppress(Exception):
            seats.close_now()
    _guardian.close()


def _forget_all() -> None:
    _guardian.forget_in_child()
    for seats in list(_all):
        seats.forget_in_child()


# Before the interpreter is taken down: a thread that came back from the sandbox later would abort the process.
atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)

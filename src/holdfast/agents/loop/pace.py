"""The pace of a loop: when it goes on, rests, waits after an error, and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.agents.loop.clock import Clock
    from holdfast.agents.loop.ended import Ended

log = logging.getLogger("holdfast")


class Pace:
    """May be told to wake or to end from any thread."""

    def __init__(self, clock: Clock, *, delay_seconds: float, delay_seconds_max: float) -> None:
        self.clock = clock
        self.delay_seconds = delay_seconds
        self.delay_seconds_max = delay_seconds_max
        self.ended: Ended | None = None
        self.failures = 0  # in a row
        self._over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()

    def begin(self) -> None:
        """A run begins. What was told to end before its first run still is; what has ended and runs again is not."""
        if self._over:
            self.ended = None
        self._over, self.failures = False, 0
        self._loop = asyncio.get_running_loop()
        self._woken, self._stopped = asyncio.Event(), asyncio.Event()  # they belong to the event loop that runs now
        if self.ended is not None:
            self._stopped.set()

    def is_over(self) -> None:
        """The run has ended: to end it means nothing any more."""
        self._over = True

    def end(self, ended: Ended) -> None:
        """Ends the run; the first reason counts."""
        if not self._over:
            self.ended = self.ended or ended
            self.soon(self._stopped.set)
            self.wake()

    def wake(self) -> None:
        self.soon(self._woken.set)

    def soon(self, do: Callable[[], None]) -> None:
        """Calls something on the loop's own thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(do)

    def look(self) -> None:
        """From now on, what wakes it is news."""
        self._woken.clear()

    async def rest(self, seconds: float) -> None:
        """So many seconds, or until there is something to do."""
        await self._sleep(seconds, self._woken)

    async def pause(self, failure: Exception) -> None:
        """The delay after an error, twice as long after each in a row."""
        self.failures += 1
        seconds = min(self.delay_seconds * 2 ** min(self.failures - 1, 60), self.delay_seconds_max)
        log.info("Going on in %g seconds, after: %s", seconds, failure)
        await self._sleep(seconds, self._stopped)

    async def _sleep(self, seconds: float, until: asyncio.Event) -> None:
        if until.is_set() or self._stopped.is_set():
            return
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        waiting = asyncio.ensure_future(until.wait())
        try:
            await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
            await asyncio.gather(sleeping, waiting, return_exceptions=True)

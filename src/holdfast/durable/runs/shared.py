"""Work that several wait for: it is done once, and goes on as long as one of them waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A task of its own. Whoever waits for it last takes it along when it is cancelled."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.task = asyncio.ensure_future(work)
        self._waiting = 0

    async def wait(self) -> T:
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self._waiting == 1:
                self.task.cancel()
                await asyncio.wait({self.task})
            raise
        finally:
            self._waiting -= 1

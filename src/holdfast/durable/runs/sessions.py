"""Sessions: one program at a time in each, because it begins with what the one before left."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from holdfast.errors import InvalidArgument

_within: Final[ContextVar[frozenset[tuple[str, str]]]] = ContextVar("holdfast_sessions", default=frozenset())


class Sessions:
    """The sessions of one runner in which programs run now."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, agent_id: str, session: str | None) -> AsyncIterator[None]:
        """Waits until no other program of this session runs. A program without a session waits for nobody."""
        if session is None:
            yield
            return
        name = (agent_id, session)
        if name in _within.get():
            raise InvalidArgument(
                f"Session {session} of agent {agent_id} is that of the program which made this call: it would wait for "
                "itself",
                agent_id=agent_id, session=session, hint="Run it without a session, or in another.",
            )  # fmt: skip
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            token = _within.set(_within.get() | {name})
            try:
                yield
            finally:
                _within.reset(token)

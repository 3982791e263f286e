"""Opening a store again after an I/O error, once for all the loops that use it."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import Poisoned
from holdfast.storage.protocol import Query

if TYPE_CHECKING:
    from holdfast.storage.protocol import Store

_turns: Final[weakref.WeakKeyDictionary[Any, asyncio.Lock]] = weakref.WeakKeyDictionary()


async def reopened(store: Store) -> None:
    """Opens the store again if it still is `Poisoned`: who comes second must not take it from who came first."""
    async with _turns.setdefault(store, asyncio.Lock()):
        if await _works(store):
            return
        reopen = getattr(store, "reopen", None)
        if reopen is None:
            raise Poisoned(f"{store!r} had an I/O error and can't be opened again")
        await reopen()


async def _works(store: Store) -> bool:
    try:
        await store.list(Query(limit=1))
    except Poisoned:
        return False
    return True

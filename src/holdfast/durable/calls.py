"""Calls of the user's code (agents, factories, handlers), on the thread where it belongs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

Elsewhere = Callable[..., Awaitable[Any]]

elsewhere: ContextVar[Elsewhere | None] = ContextVar("holdfast_elsewhere", default=None)
"""Calls a function on another thread: that of the program which waits for this task, in the synchronous form."""


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a plain or async function of the user's, and returns its result."""
    where = elsewhere.get()
    result = function(*arguments) if where is None else await where(function, *arguments)
    return await result if inspect.isawaitable(result) else result

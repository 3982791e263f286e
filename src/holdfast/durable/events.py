"""Events: what a manager tells those who asked, after it is durable and before the call returns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from holdfast.durable.calls import call
from holdfast.errors import InvalidArgument

log = logging.getLogger("holdfast")

EVENTS: Final = ("checkpoint_saved", "checkpoint_restored", "checkpoint_deleted", "drift_detected", "agent_stopped")

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)


class Events:
    """Handlers by event, called in the order in which they were added."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {name: [] for name in EVENTS}

    def on(self, event: str, handler: H | None = None) -> Any:
        """Adds a handler; without one, returns a decorator that does."""
        if event not in self._handlers:
            raise InvalidArgument(f"There is no event {event!r}", hint=f"Events are {', '.join(EVENTS)}.")

        def add(function: H) -> H:
            self._handlers[event].append(function)
            return function

        return add if handler is None else add(handler)

    def wanted(self, event: str) -> bool:
        return bool(self._handlers[event])

    async def tell(self, event: str, *arguments: Any) -> None:
        """Awaits every handler in order. One that fails is logged, nothing more: what happened has happened."""
        for handler in self._handlers[event]:
            try:
                await call(handler, *arguments)
            except Exception:
                log.exception("A handler of %s failed", event)

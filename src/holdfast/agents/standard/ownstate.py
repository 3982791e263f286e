"""A subclass's own state: kept beside what a `StandardAgent` keeps itself, whatever its two methods look like."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

OURS: Final = "standard_agent"
"""The key of a state under which a `StandardAgent` keeps its own part."""


def with_ours(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A `checkpoint_state` whose result has our part too: one that does not call `super()` must lose no field."""

    @functools.wraps(method)
    def checkpoint_state(self: Any) -> Any:
        own = method(self)
        if inspect.isawaitable(own):
            return _awaited(self, own)
        return {**own, OURS: self._ours()} if type(own) is dict else own

    return checkpoint_state


async def _awaited(agent: Any, state: Awaitable[Any]) -> Any:
    own = await state
    return {**own, OURS: agent._ours()} if type(own) is dict else own  # noqa: SLF001 - the same object's


def after_ours(method: Callable[[Any, dict[str, Any]], Any]) -> Callable[[Any, dict[str, Any]], Any]:
    """A `restore_state` that finds the fields restored already."""

    @functools.wraps(method)
    def restore_state(self: Any, state: dict[str, Any]) -> Any:
        self._restore_ours(state.get(OURS) or {})
        return method(self, {key: value for key, value in state.items() if key != OURS})

    return restore_state

"""Which checkpoint a live object came from: the parent of its next one."""

from __future__ import annotations

import weakref
from typing import Any


class Lineage:
    """Remembers an id for each live object, by identity, for as long as the object lives."""

    def __init__(self) -> None:
        self._came_from: dict[int, tuple[Any, str]] = {}  # with whatever keeps the identity from being reused

    def get(self, agent: Any) -> str | None:
        found = self._came_from.get(id(agent))
        return None if found is None else found[1]

    def set(self, agent: Any, checkpoint_id: str | None) -> None:
        key = id(agent)
        if checkpoint_id is None:
            self._came_from.pop(key, None)
            return
        keeper: Any
        try:
            keeper = weakref.ref(agent, lambda _: self._came_from.pop(key, None))
        except TypeError:
            keeper = agent  # __slots__ without __weakref__: it must live on, or another object could take its identity
        self._came_from[key] = (keeper, checkpoint_id)

"""What is known of live objects: a value for each, by identity, for as long as it lives."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByIdentity(Generic[V]):
    """A dict whose keys are any objects at all: equal ones are two, and none is kept alive if that can be helped."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[Any, V]] = {}  # with whatever keeps the identity from being reused

    def get(self, key: Any) -> V | None:
        found = self._values.get(id(key))
        return None if found is None else found[1]

    def set(self, key: Any, value: V) -> None:
        identity = id(key)
        keeper: Any
        try:
            keeper = weakref.ref(key, lambda _: self._values.pop(identity, None))
        except TypeError:
            keeper = key  # __slots__ without __weakref__: it must live on, or another object could take its identity
        self._values[identity] = (keeper, value)

    def setdefault(self, key: Any, value: V) -> V:
        found = self.get(key)
        if found is None:
            self.set(key, value)
            return value
        return found

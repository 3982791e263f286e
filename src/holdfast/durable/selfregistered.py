"""Classes that registered themselves: every manager can rebuild their agents by name."""

from __future__ import annotations

from weakref import WeakValueDictionary

_classes: WeakValueDictionary[str, type] = WeakValueDictionary()


def register_itself(cls: type) -> None:
    """Makes a class known by its name; the last one of a name counts. What a manager was told itself comes first."""
    _classes[cls.__name__] = cls


def registered_itself(name: str) -> type | None:
    return _classes.get(name)

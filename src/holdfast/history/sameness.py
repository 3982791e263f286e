"""Numbers for values: two values get the same number exactly when they are the same in value and in type."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable


class Form(Enum):
    """How a value is taken apart."""

    LEAF = auto()
    SEQUENCE = auto()
    MAPPING = auto()
    SET = auto()
    OBJECT = auto()


_PLAIN_LEAVES = frozenset({str, int, bool, bytes, type(None)})


def form_of(value: Any) -> Form:
    """The form of a value; whatever has no parts that a path could name is a leaf."""
    cls: type = type(value)
    return Form.LEAF if cls in _PLAIN_LEAVES else _form_of_class(cls)


@lru_cache(maxsize=1024)
def _form_of_class(cls: type) -> Form:
    if issubclass(cls, (Enum, str, bytes, bytearray)):
        return Form.LEAF
    if is_dataclass(cls) or hasattr(cls, "model_fields") or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return Form.OBJECT
    if issubclass(cls, (list, tuple, deque)):
        return Form.SEQUENCE
    if issubclass(cls, dict):
        return Form.MAPPING
    return Form.SET if issubclass(cls, (set, frozenset)) else Form.LEAF


def attributes(value: Any) -> dict[str, Any]:
    """What a dataclass instance, a pydantic model or a named tuple consists of."""
    if isinstance(value, tuple):
        return dict(zip(type(value)._fields, value, strict=True))  # type: ignore[attr-defined]
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if hasattr(value, field.name)}
    extra, private = getattr(value, "__pydantic_extra__", None), getattr(value, "__pydantic_private__", None)
    return {**vars(value), **(extra or {}), **(private or {})}


class Numbering:
    """Gives out the numbers, once per value, so that everything after it compares integers.

    NaN is the same as NaN; 1, True and 1.0 are three values, and so are 0.0 and -0.0, a tuple and a list.
    The order of a dict's keys does not count.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        # The value is kept beside its number: an id means nothing once its value is gone.
        self._known: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any) -> int:
        """The number of a value of any size and depth; no recursion, so no depth is too much."""
        if form_of(value) is Form.LEAF:
            return self._intern(_leaf_token(value))
        stack: list[tuple[Any, list[Any] | None]] = [(value, None)]
        open_ids: set[int] = set()
        while stack:
            top, children = stack.pop()
            if id(top) in self._known:
                continue
            if children is not None:
                self._known[id(top)] = (self._intern(self._token(top, children)), top)
                open_ids.discard(id(top))
                continue
            children = _children(top)
            open_ids.add(id(top))
            stack.append((top, children))
            stack.extend((child, None) for child in children if self._is_waiting(child, open_ids))
        return self._known[id(value)][0]

    def _is_waiting(self, child: Any, open_ids: set[int]) -> bool:
        if form_of(child) is Form.LEAF:
            return False
        return id(child) not in self._known and id(child) not in open_ids

    def _token(self, value: Any, children: list[Any]) -> Hashable:
        numbers = [self._child(child) for child in children]
        form = form_of(value)
        if form is Form.SEQUENCE:
            return (type(value), getattr(value, "maxlen", None), *numbers)
        if form is Form.SET:
            return (type(value), *sorted(numbers))
        return (type(value), *sorted(zip(numbers[::2], numbers[1::2], strict=True)))

    def _child(self, child: Any) -> int:
        if form_of(child) is Form.LEAF:
            return self._intern(_leaf_token(child))
        # A child without a number at this point contains its parent: such a cycle is the same only as itself.
        known = self._known.get(id(child))
        return self._intern(("cycle", id(child))) if known is None else known[0]

    def _intern(self, token: Hashable) -> int:
        return self._numbers.setdefault(token, len(self._numbers))


def _children(value: Any) -> list[Any]:
    form = form_of(value)
    if form is Form.MAPPING:
        return [part for item in value.items() for part in item]
    if form is Form.OBJECT:
        return [part for item in attributes(value).items() for part in item]
    return list(value)


def _leaf_token(value: Any) -> Hashable:
    cls = type(value)
    if cls in _PLAIN_LEAVES:
        return (cls, value)
    if isinstance(value, Enum):
        return (cls, value.name, repr(value.value))
    if isinstance(value, (bytearray, memoryview)):
        return (cls, bytes(value))
    # Equal is not enough here: Decimal("1.0") == Decimal("1.00"), 0.0 == -0.0, and one instant in two time zones.
    has_no_text = cls.__repr__ is object.__repr__  # type: ignore[comparison-overlap]
    return (cls, id(value) if has_no_text else repr(value))

"""The place of a value inside a checkpoint, as dotted text and as the parts of its path."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.history.preview import leaf_text
from holdfast.history.sameness import Form, form_of


class Place(NamedTuple):
    """Where a value is: the parts of its path, and the path as text."""

    parts: tuple[Any, ...]
    path: str

    def attribute(self, name: str) -> Place:
        return Place((*self.parts, name), f"{self.path}.{name}")

    def key(self, key: Any) -> Place:
        if type(key) is str and key.isidentifier():
            return self.attribute(key)
        return Place((*self.parts, key), f"{self.path}[{key_text(key)}]")

    def item(self, index: int) -> Place:
        return Place((*self.parts, index), f"{self.path}[{index}]")

    def element(self, element: Any) -> Place:
        return Place((*self.parts, element), f"{self.path}{{{key_text(element)}}}")


def key_text(key: Any) -> str:
    if form_of(key) is Form.LEAF:
        return leaf_text(key)
    try:
        return repr(key)
    except RecursionError:
        return f"<a deep {type(key).__name__}>"

"""The way out when the fast encoding fails: odd keys and texts get a form that it takes, the rest is named by path."""

from __future__ import annotations

from typing import Any

import ormsgpack

from holdfast.history.codec import OPTIONS, OUTER, Level, default
from holdfast.history.kinds import kind_of
from holdfast.history.unkept import cyclic, member_path, short, take_apart, too_deep, unknown

DEPTH_MAX = 100  # of what has to be walked; below that the fast encoding may go 255 deep, which is its own limit


def rescued(value: Any, path: str) -> bytes:
    """The bytes of a value that ormsgpack refused as it is, or `UnknownValueType` with the path of the offender."""
    try:
        return ormsgpack.packb(Walk().converted(value, path, OUTER), default, OPTIONS)
    except RecursionError:
        raise too_deep(path) from None


class Walk:
    """One walk through a value, down to where ormsgpack takes what is left as it is."""

    def __init__(self) -> None:
        self._open: set[int] = set()  # The ids of the values on the way here, each of which holds the next.

    def packable(self, value: Any, path: str, level: Level | None) -> Any:
        """Something that ormsgpack takes and that has the same encoding as the value."""
        if level is None:
            raise too_deep(path)
        try:
            return ormsgpack.Fragment(ormsgpack.packb(value, level.default, OPTIONS))
        except TypeError:
            return self.converted(value, path, level)

    def converted(self, value: Any, path: str, level: Level) -> Any:
        """The same for a value that ormsgpack is known to refuse."""
        if id(value) in self._open:
            raise cyclic(path)
        if len(self._open) >= DEPTH_MAX:
            raise too_deep(path)
        self._open.add(id(value))
        try:
            if type(value) is list:
                return self._items(value, path, level)
            if type(value) is dict and all(map(_is_plain, value)):
                return {key: self.packable(item, member_path(path, key), level) for key, item in value.items()}
            if isinstance(value, memoryview):
                return bytes(value)
            return self._extension(value, path, level)
        finally:
            self._open.discard(id(value))

    def _extension(self, value: Any, path: str, level: Level) -> ormsgpack.Ext:
        kind = kind_of(value)
        if kind is None:
            raise unknown(value, path)
        parts = take_apart(kind, value, path)
        inner = level.inner
        if kind.shape == "items":
            parts = self._items(parts, path, inner)
        elif kind.shape == "unordered":
            parts = [self.packable(part, path + "{…}", inner) for part in parts]
        elif kind.shape == "headed":
            parts = [self.packable(part, path, inner) for part in parts]
        elif kind.shape == "pairs":
            parts = [
                [
                    self.packable(key, f"{path} key {short(key)}", inner),
                    self.packable(item, member_path(path, key), inner),
                ]
                for key, item in parts
            ]
        try:
            return level.ext(kind, parts)
        except TypeError:
            raise too_deep(path) from None

    def _items(self, values: list[Any], path: str, level: Level | None) -> list[Any]:
        return [self.packable(item, f"{path}[{index}]", level) for index, item in enumerate(values)]


def _is_plain(key: object) -> bool:
    if type(key) is not str:
        return False
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True

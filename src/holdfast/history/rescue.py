"""What happens when the fast encoding fails: odd keys and texts are put in forms it takes, the rest is named by path."""

from __future__ import annotations

import re
from typing import Any

import ormsgpack

from holdfast.errors import UnknownValueType
from holdfast.history.codec import OPTIONS, OUTER, Level, default
from holdfast.history.kinds import Kind, UndeclaredAttribute, kind_of
from holdfast.history.registry import family_of

DEPTH_MAX = 100  # of what has to be walked; below that the fast encoding may go 255 deep, which is its own limit
_NAME = re.compile(r"[^\W\d]\w*")


def rescued(value: Any, path: str) -> bytes:
    """The bytes of a value that ormsgpack refused as it is, or `UnknownValueType` with the path of the offender."""
    try:
        return ormsgpack.packb(Walk().converted(value, path, OUTER), default, OPTIONS)
    except RecursionError:
        raise too_deep(path) from None


def member_path(path: str, key: object) -> str:
    """The path of what a dict keeps under this key: `path.name`, or `path['odd key']`."""
    if type(key) is str and _NAME.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{_short(key)}]"


def too_deep(path: str) -> UnknownValueType:
    return UnknownValueType(
        f"{_short_path(path)} is nested deeper than can be kept",
        path=path,
        hint="Lists and dicts may nest 255 deep, and other values 48 deep in each other: flatten it.",
    )


def unknown(value: object, path: str, reason: str = "") -> UnknownValueType:
    """The error for a value that has no exact form."""
    cls = type(value)
    if reason:
        return UnknownValueType(f"{_short_path(path)} {reason}", path=path)
    if family_of(cls) is not None:
        return UnknownValueType(
            f"{_short_path(path)} is {_a(cls.__qualname__)}, which is not registered, so it can't be kept",
            path=path,
            hint=f"Write holdfast.register_type({cls.__qualname__.rpartition('.')[2]}) once, where the class is defined.",
        )
    return UnknownValueType(f"{_short_path(path)} is {_a(cls.__qualname__)}, which can't be kept exactly", path=path)


def take_apart(kind: Kind, value: Any, path: str) -> Any:
    """What a value is made of; an error of its class is told as one about this value."""
    try:
        return kind.apart(value)
    except UndeclaredAttribute as error:
        path = member_path(path, str(error))
        raise unknown(value, path, f"is no field of {type(value).__qualname__}, so it would be lost") from None
    except Exception as error:
        raise unknown(value, path, f"can't be taken apart: {error}") from error


class Walk:
    """One walk through a value, down to what ormsgpack takes as it is; only there and above, never through all of it."""

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
            raise unknown(value, path, "is one of the values that contain it, and a cycle can't be kept")
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
                [self.packable(key, f"{path} key {_short(key)}", inner), self.packable(item, member_path(path, key), inner)]
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


def _short(key: object) -> str:
    try:
        text = repr(key)
    except Exception:  # noqa: BLE001 (a foreign __repr__ must not hide what is wrong)
        text = f"<{type(key).__qualname__}>"
    return text if len(text) <= 60 else text[:57] + "…"  # noqa: PLR2004


def _short_path(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}…{path[-100:]}"  # noqa: PLR2004


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"

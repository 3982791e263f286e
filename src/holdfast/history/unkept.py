"""The errors for what can't be kept: each names the place of the offender and what can be done about it."""

from __future__ import annotations

from typing import Any

from holdfast.errors import UnknownValueType
from holdfast.history.kinds import Kind, UndeclaredAttribute
from holdfast.history.registry import family_of


def member_path(path: str, key: object) -> str:
    """The path of what a dict keeps under this key: `path.name`, or `path['odd key']`."""
    if type(key) is str and key.isidentifier():
        return f"{path}.{key}"
    return f"{path}[{short(key)}]"


def too_deep(path: str) -> UnknownValueType:
    return UnknownValueType(
        f"{_short_path(path)} is nested deeper than can be kept",
        path=path,
        hint="Lists and dicts may nest 255 deep; tuples, sets and objects 48 deep in each other, and within 8 of them"
        " there may be 1 MiB, with lists and dicts 32 deep: flatten it.",
    )


def cyclic(path: str) -> UnknownValueType:
    return UnknownValueType(
        f"{_short_path(path)} is one of the values that contain it, and a cycle can't be kept",
        path=path,
        hint="Keep an id there instead of the value itself.",
    )


def unknown(value: object, path: str) -> UnknownValueType:
    """The error for a value that has no exact form."""
    cls = type(value)
    if family_of(cls) is not None:
        return UnknownValueType(
            f"{_short_path(path)} is {_a(cls.__qualname__)}, which is not registered, so it can't be kept",
            path=path,
            hint=f"Write holdfast.register_type({cls.__name__}) once, where the class is defined.",
        )
    return UnknownValueType(f"{_short_path(path)} is {_a(cls.__qualname__)}, which can't be kept exactly", path=path)


def take_apart(kind: Kind, value: Any, path: str) -> Any:
    """What a value is made of; an error of its class is told as one about this value."""
    try:
        return kind.apart(value)
    except UndeclaredAttribute as error:
        path = member_path(path, str(error))
        raise UnknownValueType(
            f"{_short_path(path)} is no field of {type(value).__qualname__}, so it would be lost",
            path=path,
            hint="Declare it as a field of the class, or delete it before saving.",
        ) from None
    except Exception as error:
        raise UnknownValueType(f"{_short_path(path)} can't be taken apart: {error}", path=path) from error


def short(key: object) -> str:
    """A key as it appears in a path."""
    try:
        text = repr(key)
    except Exception:  # noqa: BLE001 (a foreign __repr__ must not hide what is wrong)
        text = f"<{type(key).__qualname__}>"
    return text if len(text) <= 60 else text[:57] + "…"


def _short_path(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}…{path[-100:]}"


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"

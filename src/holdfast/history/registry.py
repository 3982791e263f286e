"""The closed register of the classes, by name, whose instances may be kept: dataclasses, Enums, models, namedtuples."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from holdfast.errors import DuplicateId, InvalidArgument, UnknownValueType

Family = Literal["dataclass", "enum", "model", "namedtuple"]
_C = TypeVar("_C", bound=type)
_BUILTIN = (str, bytes, bytearray, int, float, complex, tuple, list, dict, set, frozenset, BaseException)


@dataclass(frozen=True, slots=True)
class Registered:
    """One class, the name it is kept under and the family that says how it is taken apart."""

    name: str
    cls: Any
    family: Family


_by_name: dict[str, Registered] = {}
_by_class: dict[type, Registered] = {}


@overload
def register_type(cls: _C, name: str | None = None) -> _C: ...
@overload
def register_type(cls: None = None, name: str | None = None) -> Callable[[_C], _C]: ...
def register_type(cls: _C | None = None, name: str | None = None) -> _C | Callable[[_C], _C]:
    """Let instances of a class be kept, under its `__qualname__` or the given name. Also a decorator.

    A class may have several names: it is written under the newest and read under all of them, so a class can be
    renamed. A name belongs to one class; only the same class, defined again by a reload, may take it over.

    >>> import enum
    >>> @register_type(name="docs.Mood")
    ... class Mood(enum.Enum):
    ...     GOOD = 1
    >>> registered(Mood).name
    'docs.Mood'
    """
    if cls is None:
        return lambda decorated: register_type(decorated, name)
    kept_as = cls.__qualname__ if name is None else name
    if not kept_as:
        raise InvalidArgument(f"{kept_as!r} is no name for a type", hint="A name is a text that is not empty.")
    family = family_of(cls)
    if family is None:
        raise InvalidArgument(
            f"{_described(cls)} is no dataclass, Enum, pydantic model or namedtuple, so it can't be registered",
            hint="Make it a dataclass, or turn it into plain values in checkpoint_state().",
        )
    _check_rebuildable(cls, family)
    entry = Registered(kept_as, cls, family)
    other = _by_name.setdefault(kept_as, entry)  # One step: of two threads, one finds what the other has put there.
    if _origin(other.cls) != _origin(cls):
        raise DuplicateId(
            f"The name {kept_as!r} is taken by {_origin(other.cls)}, so {_origin(cls)} can't have it",
            hint=f"Give it another one: holdfast.register_type({cls.__name__}, name=...).",
        )
    _by_name[kept_as] = _by_class[cls] = entry
    return cls


def registered(cls: type) -> Registered | None:
    """The entry of exactly this class: a subclass of a registered class is not registered by that."""
    return _by_class.get(cls)


def named(name: object, family: Family) -> Any:
    """The class of this family that is registered under this name."""
    entry = _by_name.get(name) if isinstance(name, str) else None
    if entry is None:
        raise UnknownValueType(
            f"A stored value has the type {name!r:.100}, which is not registered here",
            hint=f"Call holdfast.register_type(TheClass, name={name!r:.100}) before it is read.",
        )
    if entry.family != family:
        raise UnknownValueType(
            f"A stored value is of the {family} {name!r:.100}, but that name is registered for a {entry.family}",
            hint="Register the class that wrote it under this name, and the other one under another.",
        )
    return entry.cls


def family_of(cls: object) -> Family | None:
    """The family of a class that can be registered, or None. A model is known by what it offers: no pydantic needed."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, enum.Enum):
        return "enum"
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple) and hasattr(cls, "_make"):
        return "namedtuple"
    if issubclass(cls, _BUILTIN):
        return None  # What such an instance holds besides its fields would be lost.
    if isinstance(getattr(cls, "model_fields", None), dict) and callable(getattr(cls, "model_validate", None)):
        return "model"
    return "dataclass" if dataclasses.is_dataclass(cls) else None


def _check_rebuildable(cls: Any, family: Family) -> None:
    """A class that needs more than its fields to be built again is refused now, not when its data is stored."""
    if family not in {"dataclass", "namedtuple"}:
        return
    names = cls._fields if family == "namedtuple" else [field.name for field in dataclasses.fields(cls) if field.init]
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{_described(cls)} can't be built again from its fields: {error}",
            hint="Its __init__ must accept every init field by name, and need nothing else (an InitVar, say).",
        ) from None


def _origin(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _described(cls: object) -> str:
    return _origin(cls) if isinstance(cls, type) else repr(cls)

"""The names of types as a program sees them: what it passes and gets is plain, whatever the host's classes are."""

from __future__ import annotations

import collections
import collections.abc
import enum
import os
import re
import types
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from holdfast.durable.runs.plain import TEXTUAL
from holdfast.history.registry import family_of

LITERALS_MAX = 20
# What names may need to be imported, and from where.
FROM_TYPING = ("Any", "Collection", "Iterable", "Literal", "Mapping", "Sequence")
MODULES = ("datetime", "decimal")

_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_WORD = re.compile(r"\w+")
_LITERAL = (str, int, bytes, type(None))
FIELDS = "dict[str, Any]"


class TypeNames:
    """Names the types of annotations, and remembers what has to be imported for it."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def imports(self) -> str:
        """The import statements for every name so far."""
        typing_names = [name for name in FROM_TYPING if name in self._used]
        lines = [f"import {name}" for name in MODULES if name in self._used]
        if typing_names:
            lines.append(f"from typing import {', '.join(typing_names)}")
        return "\n".join(lines)

    def of(self, annotation: Any) -> str:
        """The type whose values a program passes for this annotation, or gets for a result that has it."""
        name = self._of(annotation)
        self._used.update(_WORD.findall(_QUOTED.sub("", name)))
        return name

    def fields(self, cls: type[Any]) -> str:
        """The type of the dict that stands for an instance of this dataclass, model or TypedDict."""
        return FIELDS

    def _of(self, annotation: Any) -> str:
        if annotation is None or annotation is type(None):
            return "None"
        if hasattr(annotation, "__supertype__"):
            return self._of(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":
            return self._of(annotation.__value__)
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired):
            return self._of(args[0])
        if origin in (typing.Union, types.UnionType):
            return _union(self._of(one) for one in args)
        if origin is typing.Literal:
            return _literal(args)
        cls = annotation if origin is None else origin
        return self._class(cls, args) if isinstance(cls, type) else "Any"

    def _class(self, cls: type[Any], args: tuple[Any, ...]) -> str:
        if cls in _GENERIC:
            return self._generic(cls, args)
        if issubclass(cls, enum.Enum):
            return _enum(cls, self)
        if family_of(cls) == "model" and "root" in cls.model_fields and getattr(cls, "__pydantic_root_model__", False):
            return self._of(cls.model_fields["root"].annotation)
        if typing.is_typeddict(cls) or family_of(cls) in {"model", "dataclass"} or hasattr(cls, "__attrs_attrs__"):
            return self.fields(cls)
        if issubclass(cls, tuple):
            return self._tuple(cls, args)
        if cls.__module__ in TEXTUAL:
            return "str"
        return next((name for base, name in _PLAIN if issubclass(cls, base)), "Any")

    def _generic(self, cls: type[Any], args: tuple[Any, ...]) -> str:
        name, picks = _GENERIC[cls]
        parts = [self._of(args[pick]) if -len(args) <= pick < len(args) else "Any" for pick in picks]
        if cls is collections.Counter:
            parts.append("int")
        return f"{name}[{', '.join(parts)}]" if name else parts[0]

    def _tuple(self, cls: type[Any], args: tuple[Any, ...]) -> str:
        fields = getattr(cls, "_fields", None)
        if fields is not None:
            hints = hints_of(cls)
            args = tuple(hints.get(field, Any) for field in fields)
        elif cls is not tuple or args == ():
            # Nobody can tell a bare `tuple` from `tuple[()]` any more, and the first is what people write.
            args = (Any, ...)
        parts = ["..." if one is ... else self._of(one) for one in args]
        return f"tuple[{', '.join(parts) or '()'}]"


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """The annotations of a class, as objects; none if one of them names nothing."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 (an annotation may be any expression at all)
        return {}


def _union(names: typing.Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    return "Any" if "Any" in unique else " | ".join(unique)


def _literal(values: tuple[Any, ...]) -> str:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    if not all(type(value) is bool or type(value) in _LITERAL for value in plain):
        return "Any"
    return f"Literal[{', '.join(dict.fromkeys(map(repr, plain)))}]"


def _enum(cls: type[enum.Enum], names: TypeNames) -> str:
    values = [member.value for member in cls]
    if not issubclass(cls, enum.Flag) and 0 < len(values) <= LITERALS_MAX:
        literal = _literal(tuple(values))
        if literal != "Any":
            return literal
    return _union(names.of(type(value)) for value in values) or "Any"


# The name of a generic type (none: that of its one argument) and which of its arguments belong to it.
_GENERIC: dict[Any, tuple[str, tuple[int, ...]]] = {
    list: ("list", (0,)),
    collections.deque: ("list", (0,)),
    set: ("set", (0,)),
    frozenset: ("frozenset", (0,)),
    dict: ("dict", (0, 1)),
    collections.defaultdict: ("dict", (0, 1)),
    collections.OrderedDict: ("dict", (0, 1)),
    collections.Counter: ("dict", (0,)),
    collections.abc.MutableSequence: ("list", (0,)),
    collections.abc.MutableSet: ("set", (0,)),
    collections.abc.Set: ("set", (0,)),
    collections.abc.MutableMapping: ("dict", (0, 1)),
    collections.abc.Sequence: ("Sequence", (0,)),
    collections.abc.Collection: ("Collection", (0,)),
    collections.abc.Iterable: ("Iterable", (0,)),
    collections.abc.Mapping: ("Mapping", (0, 1)),
    # All that an iterator gives is drawn from it before the program gets it.
    collections.abc.Iterator: ("list", (0,)),
    collections.abc.Generator: ("list", (0,)),
    collections.abc.AsyncIterator: ("list", (0,)),
    collections.abc.AsyncIterable: ("list", (0,)),
    collections.abc.AsyncGenerator: ("list", (0,)),
    # Whatever can be awaited has been, too.
    collections.abc.Awaitable: ("", (0,)),
    collections.abc.Coroutine: ("", (2,)),
}
_PLAIN: tuple[tuple[Any, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (complex, "complex"),
    (str, "str"),
    ((bytes, bytearray, memoryview), "bytes"),
    (datetime, "datetime.datetime"),
    (date, "datetime.date"),
    (time, "datetime.time"),
    (timedelta, "datetime.timedelta"),
    (Decimal, "decimal.Decimal"),
    ((UUID, os.PathLike), "str"),
    (range, "list[int]"),
    (dict, "dict[Any, Any]"),
    (list, "list[Any]"),
    (set, "set[Any]"),
    (frozenset, "frozenset[Any]"),
)

"""The exact form of values in plain JSON that people can read: what JSON lacks is an object with one `$` key."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any

from holdfast.errors import Corrupt, HoldfastError
from holdfast.history.kinds import BY_KEY, kind_of
from holdfast.history.unkept import cyclic, member_path, short, take_apart, too_deep, unknown

# Python's json module goes by recursion, and so do we: this leaves room for both.
DEPTH_MAX = 300
_NATURAL_BITS_MAX = 2048  # Longer ints may meet Python's limit on converting digits, so they go in hexadecimal.


def to_json(value: Any, *, path: str = "state") -> Any:
    """A value as plain JSON. What can't be kept is an `UnknownValueType` that names its place below `path`.

    >>> to_json({"at": (1, 2), "raw": b"hi", 3: None})
    {'$dict': [['at', {'$tuple': [1, 2]}], ['raw', {'$bytes': 'aGk='}], [3, None]]}
    """
    try:
        return _Writer().plain(value, path, 0)
    except RecursionError:
        raise too_deep(path) from None


def from_json(plain: Any) -> Any:
    """The value that `to_json` made plain. Anything else is `Corrupt`.

    >>> from_json({"$dict": [["at", {"$tuple": [1, 2]}], [3, None]]})
    {'at': (1, 2), 3: None}
    """
    try:
        return _value(plain, 0)
    except RecursionError:
        raise Corrupt("A JSON value nests deeper than any that is written") from None


class _Writer:
    """One conversion to JSON; it knows the values on the way to where it is, to notice a cycle."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def plain(self, value: Any, path: str, depth: int) -> Any:
        cls = type(value)
        if value is None or cls is bool or cls is str:
            return value
        if cls is int:
            return value if value.bit_length() <= _NATURAL_BITS_MAX else {"$int": hex(value)}
        if cls is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if cls is bytes or cls is bytearray or cls is memoryview:
            return {"$bytes": base64.b64encode(bytes(value)).decode()}
        if id(value) in self._open:
            raise cyclic(path)
        if depth > DEPTH_MAX:
            raise too_deep(path)
        self._open.add(id(value))
        try:
            return self._container(value, path, depth)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, path: str, depth: int) -> Any:
        if type(value) is list:
            return [self.plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if type(value) is dict and not _needs_escape(value):
            return {key: self.plain(item, member_path(path, key), depth + 1) for key, item in value.items()}
        kind = kind_of(value)
        if kind is None:
            raise unknown(value, path)
        parts = take_apart(kind, value, path)
        inner = depth + 2
        if kind.shape == "items":
            parts = [self.plain(item, f"{path}[{index}]", inner) for index, item in enumerate(parts)]
        elif kind.shape == "unordered":
            # The order of a set differs from process to process; that of the texts does not.
            parts = sorted((self.plain(part, path + "{…}", inner) for part in parts), key=json.dumps)
        elif kind.shape == "headed":
            parts = [self.plain(part, path, inner) for part in parts]
        elif kind.shape == "pairs":
            parts = [
                [
                    self.plain(key, f"{path} key {short(key)}", inner + 1),
                    self.plain(item, member_path(path, key), inner + 1),
                ]
                for key, item in parts
            ]
        return {kind.key: parts}


def _needs_escape(value: dict[Any, Any]) -> bool:
    """Whether a dict would not come back from JSON as it is, because of its keys' types or a look-alike of our tags."""
    if any(type(key) is not str for key in value):
        return True
    return len(value) == 1 and next(iter(value)).startswith("$")


def _value(plain: Any, depth: int) -> Any:
    cls = type(plain)
    if plain is None or cls is bool or cls is int or cls is str:
        return plain
    if cls is float and math.isfinite(plain):
        return plain
    if depth > 2 * DEPTH_MAX:
        raise Corrupt("A JSON value nests deeper than any that is written")
    if cls is list:
        return [_value(item, depth + 1) for item in plain]
    if cls is not dict or any(type(key) is not str for key in plain):
        raise Corrupt(f"{short(plain)} is no JSON value")
    if len(plain) == 1:
        ((key, body),) = plain.items()
        if key.startswith("$"):
            return _tagged(key, body, depth)
    return {key: _value(item, depth + 1) for key, item in plain.items()}


def _tagged(key: str, body: Any, depth: int) -> Any:
    kind = BY_KEY.get(key)
    build: Callable[[Any], Any]
    if key in _ONLY_JSON:
        build, is_text = _ONLY_JSON[key], True
    elif kind is not None:
        build, is_text = kind.build, kind.shape == "text"
    else:
        raise Corrupt(f"There is no JSON form {key!r:.60}", hint="A newer Holdfast may have written it: upgrade.")
    if type(body) is not (str if is_text else list):
        raise Corrupt(f"What is under {key} is {short(body)}, not a {'text' if is_text else 'list'}")
    parts: Any = body if is_text else [_value(part, depth + 2) for part in body]
    try:
        return build(parts)
    except HoldfastError:
        raise
    except Exception as error:
        raise Corrupt(f"What is under {key} is damaged: {error}") from error


_ONLY_JSON: dict[str, Callable[[str], Any]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$float": float,
}
TAGS = frozenset(_ONLY_JSON) | frozenset(BY_KEY)

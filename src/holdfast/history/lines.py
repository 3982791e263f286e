"""One line of an export: a JSON object, compact, in ASCII."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from holdfast.errors import InvalidImport


def dumps_line(obj: dict[str, Any]) -> str:
    """The line for an object, without the line feed. Lone surrogates survive, since everything is in ASCII."""
    return json.dumps(obj, separators=(",", ":"), allow_nan=False)


def loads_line(line: str | bytes) -> dict[str, Any]:
    """The object of a line. What is not exactly one JSON object, with each key once, is an `InvalidImport`."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        obj = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidImport("The line nests deeper than any that is written") from None
    except ValueError as error:
        raise InvalidImport(f"The line is no JSON object: {error}") from None
    if not isinstance(obj, dict):
        raise InvalidImport(f"The line is no JSON object but {obj!r:.60}")
    return obj


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    obj = dict(pairs)
    if len(obj) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r:.60} is there twice")
            seen.add(key)
    return obj


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")

"""A tool call in a line: `pay(hotel="Ritz")`, and what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.history.preview import escape, fit, preview

_ARGUMENT_MAX = 40


def is_sleep(name: str) -> bool:
    from holdfast.durable.runs.interpreter import SLEEPS

    return name in SLEEPS


def called(name: str, arguments: Mapping[str, Any], width: int | None) -> str:
    """The call as one would write it; None: nothing of it is shortened."""
    if is_sleep(name):
        return f"sleep({arguments.get('seconds', '?')})"
    if width is None:
        return f"{escape(name)}({', '.join(f'{escape(key)}={whole(value)}' for key, value in arguments.items())})"
    shown = ", ".join(f"{escape(key)}={preview(value, _ARGUMENT_MAX)}" for key, value in arguments.items())
    return fit(f"{escape(name)}({shown})", width)


def raised(error: Any, width: int | None) -> str:
    """An answer that is an error, as it was recorded."""
    told = f"{error.get('type')}: {error.get('message')}" if isinstance(error, Mapping) else str(error)
    return escape(told) if width is None else fit(escape(told), width)


def returned(value: Any, width: int | None) -> str:
    return whole(value) if width is None else preview(value, width)


def whole(value: Any) -> str:
    """A value on one line, nothing shortened."""
    from holdfast.cli.output import json_text
    from holdfast.history.jsonform import to_json

    return json_text(to_json(value))

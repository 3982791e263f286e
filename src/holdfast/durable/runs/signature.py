"""The signature of a tool: its parameters, with annotations that are objects and no longer text."""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from typing import Any


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable, with Any for annotations that name nothing. TypeError or ValueError: it has none."""
    signature = _inspected(function)
    resolve = functools.partial(_resolved, function=definition_of(function))
    return signature.replace(
        parameters=[one.replace(annotation=resolve(one.annotation)) for one in signature.parameters.values()],
        return_annotation=resolve(signature.return_annotation),
    )


def body_of(function: Callable[..., Any]) -> Any:
    """The function that runs when this is called: what is in a partial or a bound method, or an object's __call__."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isroutine(function) or isinstance(function, type):
            return function
        else:
            function = type(function).__call__


def definition_of(function: Callable[..., Any]) -> Any:
    """The function whose signature and docstring a callable shows, below what is wrapped round it."""
    body = inspect.unwrap(body_of(function))
    return vars(body).get("__init__", body) if isinstance(body, type) else body


def _inspected(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except NameError:
        # From 3.14 on, annotations are evaluated when somebody asks for them, and one of these names nothing.
        forward = {"annotation_format": importlib.import_module("annotationlib").Format.FORWARDREF}
        return inspect.signature(function, **forward)


def _resolved(annotation: Any, *, function: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation

    def holder() -> None: ...

    # One by one, so that a name that only type checkers can see does not cost the other annotations their meaning.
    holder.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(holder, getattr(function, "__globals__", {}), _closure(function), True)["it"]  # noqa: FBT003
    except Exception:  # noqa: BLE001 (an annotation may be any expression at all, and fail in any way)
        return Any


def _closure(function: Any) -> dict[str, Any]:
    """What a function's annotations may name of the function that it was defined in."""
    found: dict[str, Any] = {}
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # It is not assigned yet.
    return found

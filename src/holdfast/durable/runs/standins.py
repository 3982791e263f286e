"""Stand-ins: tools of which only the stubs are known, for a replay that calls nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from holdfast.durable.runs.tool import Tool


def standins(preamble: str) -> list[Tool]:
    """A tool for each function that the stubs declare, with its parameters; it can be bound and not called.

    >>> [tool] = standins("async def fetch(url: str, *, retries: int = ...) -> str: ...")
    >>> tool.name, tool.is_async, tool.bind(("a.org",), {"retries": 2})
    ('fetch', True, {'url': 'a.org', 'retries': 2})
    """
    try:
        body = ast.parse(preamble).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # imported from who knows where
        return []
    return [Tool(_function(node)) for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> None:
        """Never called."""

    def plain(*args: Any, **kwargs: Any) -> None:
        """Never called."""

    function: Any = awaited if isinstance(node, ast.AsyncFunctionDef) else plain
    function.__name__ = function.__qualname__ = node.name
    function.__signature__ = inspect.Signature(_parameters(node.args))
    return function  # type: ignore[no-any-return]


def _parameters(args: ast.arguments) -> list[Parameter]:
    plain = [*[(one, Parameter.POSITIONAL_ONLY) for one in args.posonlyargs],
             *[(one, Parameter.POSITIONAL_OR_KEYWORD) for one in args.args]]  # fmt: skip
    without = len(plain) - len(args.defaults)
    found = [_parameter(one, kind, optional=place >= without) for place, (one, kind) in enumerate(plain)]
    if args.vararg is not None:
        found.append(_parameter(args.vararg, Parameter.VAR_POSITIONAL))
    found += [
        _parameter(one, Parameter.KEYWORD_ONLY, optional=default is not None)
        for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg is not None:
        found.append(_parameter(args.kwarg, Parameter.VAR_KEYWORD))
    return found


def _parameter(argument: ast.arg, kind: Any, *, optional: bool = False) -> Parameter:
    return Parameter(argument.arg, kind, default=... if optional else Parameter.empty)

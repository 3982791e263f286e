"""Tools that stand for those which a run was offered: their calls are understood, and never carried out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool


def stand_ins(preamble: str, known: Collection[str]) -> Iterator[Tool]:
    """A tool for each function that the recorded stubs declare and that is not known here. Nothing of them is run."""
    from holdfast.durable.runs.tool import Tool

    for node in ast.parse(preamble).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in known:
            yield Tool(_function(node), name=node.name)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Callable[..., Any]:
    def never(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError(f"{node.name}() is not here")

    async def never_awaited(*_args: Any, **_kwargs: Any) -> None:
        never()

    made: Any = never_awaited if isinstance(node, ast.AsyncFunctionDef) else never
    made.__signature__ = Signature(list(_parameters(node.args)))
    return made  # type: ignore[no-any-return]


def _parameters(args: ast.arguments) -> Iterator[Parameter]:
    positional = [*args.posonlyargs, *args.args]
    without = len(positional) - len(args.defaults)
    for index, one in enumerate(positional):
        kind = Parameter.POSITIONAL_ONLY if index < len(args.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        yield Parameter(one.arg, kind, default=Parameter.empty if index < without else ...)
    if args.vararg is not None:
        yield Parameter(args.vararg.arg, Parameter.VAR_POSITIONAL)
    for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield Parameter(one.arg, Parameter.KEYWORD_ONLY, default=Parameter.empty if default is None else ...)
    if args.kwarg is not None:
        yield Parameter(args.kwarg.arg, Parameter.VAR_KEYWORD)

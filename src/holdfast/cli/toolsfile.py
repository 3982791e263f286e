"""A tools file: the user's Python file whose functions the programs may call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.usermodule import executed, is_own
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool

_SOMEWHERE: Final = "Write a function into it, or a list TOOLS of functions and holdfast.Tool objects."


def tools_of(path: Path) -> list[Tool]:
    """The tools that a file gives: those in its list TOOLS, else its public functions and Tool objects.

    A function that a Tool of the file is made of, or asks when it reconciles, is not a tool of its own.
    """
    from holdfast.durable.runs.tool import Tool, Tools

    module = executed(path, "the tools")
    listed = module.__dict__.get("TOOLS")
    if listed is None:
        found = list(_public(module))
    elif isinstance(listed, list | tuple):
        found = list(listed)
    else:
        raise InvalidArgument(f"TOOLS in {path} is {type(listed).__name__} and no list", hint=_SOMEWHERE)
    if not found:
        raise InvalidArgument(f"{path} has no tools", path=str(path), hint=_SOMEWHERE)
    try:
        return list(Tools.of(Tool.of(one) for one in found))
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error.message}", path=str(path), hint=error.hint) from error


def _public(module: ModuleType) -> Iterator[Tool | Callable[..., Any]]:
    from holdfast.durable.runs.tool import Tool

    everything = list({id(value): value for name, value in vars(module).items() if name[0] != "_"}.values())
    made = [value for value in vars(module).values() if isinstance(value, Tool)]
    parts = [part for tool in made for part in (tool.function, tool.reconcile)]
    for value in everything:
        if isinstance(value, Tool) or (is_own(value, module) and not any(value is part for part in parts)):
            yield value

"""A tools file: the user's Python file whose functions the programs may call."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.sourcefile import source_of
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool

_SOMEWHERE: Final = "Write a function into it, or a list TOOLS of functions and holdfast.Tool objects."


def tools_of(path: Path) -> list[Tool]:
    """The tools that a file gives: those in its list TOOLS, else its public functions and Tool objects.

    A function that a Tool of the file is made of, or asks when it reconciles, is not a tool of its own.
    """
    from holdfast.durable.runs.tool import Tool, Tools

    module = _executed(path, source_of(path, "the tools"))
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


def _executed(path: Path, code: str) -> ModuleType:
    """The file as a module that was just run. It may import its neighbours, as it could if it were started."""
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "_holdfast_tools"
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    sys.modules[name] = module  # dataclasses and annotations are looked up there
    sys.path.insert(0, str(path.absolute().parent))
    try:
        exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user named it
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidArgument(_told(path, error), path=str(path), hint="The tools could not be read.") from error
    return module


def _told(path: Path, error: BaseException) -> str:
    """What went wrong, with the file's line, and with the line of the neighbour in which it went wrong."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: SyntaxError: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if frame.filename == str(path)]
    where = f"{path}, line {own[-1].lineno}" if own else str(path)
    if frames and frames[-1].filename not in (str(path), __file__):
        where += f" (in {frames[-1].filename}, line {frames[-1].lineno})"
    return f"{where}: {''.join(traceback.format_exception_only(error)).splitlines()[0]}"


def _public(module: ModuleType) -> Iterator[Tool | Callable[..., Any]]:
    from holdfast.durable.runs.tool import Tool

    everything = list({id(value): value for name, value in vars(module).items() if name[0] != "_"}.values())
    made = [value for value in vars(module).values() if isinstance(value, Tool)]
    parts = [part for tool in made for part in (tool.function, tool.reconcile)]
    for value in everything:
        if isinstance(value, Tool) or (_is_own(value, module) and not any(value is part for part in parts)):
            yield value


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether it is a function that is defined here, be it under a decorator."""
    is_function = callable(value) and inspect.isfunction(inspect.unwrap(value))
    return is_function and value.__module__ == module.__name__

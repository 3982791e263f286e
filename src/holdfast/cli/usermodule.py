"""A Python file of the user's, run as a module, with one line about what went wrong in it."""

from __future__ import annotations

import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.cli.sourcefile import source_of
from holdfast.errors import InvalidArgument


def executed(path: Path, what: str) -> ModuleType:
    """The file, which has `what`, as a module that was just run. It may import its neighbours, as a script may."""
    code = source_of(path, what)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "_holdfast_user"
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    sys.modules[name] = module  # dataclasses and annotations are looked up there
    sys.path.insert(0, str(path.absolute().parent))
    try:
        exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user named it
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        hint = f"{what.capitalize()} could not be read."
        raise InvalidArgument(_told(path, error), path=str(path), hint=hint) from error
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


def is_own(value: Any, module: ModuleType) -> bool:
    """Whether it is a function that is defined here, be it under a decorator."""
    is_function = callable(value) and inspect.isfunction(inspect.unwrap(value))
    return is_function and value.__module__ == module.__name__

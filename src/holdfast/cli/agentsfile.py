"""An agents file: the user's Python file whose classes and functions do the steps of workflows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.cli.usermodule import executed, is_own
from holdfast.errors import HoldfastError, InvalidArgument

_SOMEWHERE: Final = "Write an async function or a class with run(inputs, context) into it, or a list AGENTS of them."


def agents_of(path: Path) -> dict[str, Any]:
    """The agents that a file gives, by name: those in its list or mapping AGENTS, else what it defines.

    That is its public async functions, its `StandardAgent`s, and its classes that have `run`.
    """
    from holdfast.agents.workflow.adapter import doers, named

    module = executed(path, "the agents")
    given = module.__dict__.get("AGENTS")
    if given is None:
        given = {name: value for name, value in vars(module).items() if name[0] != "_" and _does_steps(value, module)}
    elif not isinstance(given, list | tuple | Mapping):
        raise InvalidArgument(f"AGENTS in {path} is {type(given).__name__}, no list and no mapping", hint=_SOMEWHERE)
    if not given:
        raise InvalidArgument(f"{path} has no agents", path=str(path), hint=_SOMEWHERE)
    try:
        doers(given)
        return dict(named(given))
    except HoldfastError as error:
        raise InvalidArgument(f"{path}: {error.message}", path=str(path), hint=error.hint) from error


def _does_steps(value: Any, module: Any) -> bool:
    from holdfast.agents.standard.agent import StandardAgent

    if inspect.isclass(value):
        return value.__module__ == module.__name__ and (issubclass(value, StandardAgent) or hasattr(value, "run"))
    return inspect.iscoroutinefunction(value) and is_own(value, module)

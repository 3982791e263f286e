"""What a program gets from the command line: tools from a file, folders, variables; and the runner that has them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Invocation
from holdfast.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from holdfast.cli.watching import Watch
    from holdfast.durable.runs.mounts import Mount
    from holdfast.durable.runs.runner import PythonRunner
    from holdfast.durable.runs.tool import Tool

_WRITABLE: Final = ":rw"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """What was asked for, read and found right."""

    tools: Sequence[Tool] = ()
    mounts: dict[str, Mount] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: str | None, mounts: Sequence[str], names: Sequence[str]) -> Sandbox:
        """Reads the tools file, too. Nothing is opened or begun by it."""
        from holdfast.cli.toolsfile import tools_of

        if find_spec("pydantic_monty") is None:
            raise MissingExtra(
                "run_python needs pydantic-monty, which is not installed", hint="pip install 'holdfast[python]'"
            )
        with redirect_stdout(sys.stderr):
            found = tools_of(Path(tools)) if tools is not None else []
        return cls(tools=found, mounts=dict(map(_mount, mounts)), environment=dict(map(_variable, names)))


def sandbox_options(*, tools_needed: bool) -> Callable[[Any], Any]:
    """The options of every command that lets programs go on."""
    options = (
        click.option(
            "--tools", metavar="FILE", required=tools_needed,
            help="A Python file with the tools: its list TOOLS, else its public functions and Tool objects.",
        ),
        click.option(
            "--mount", "mounts", metavar="PATH=FOLDER", multiple=True,
            help="A folder that programs see at PATH, read-only; FOLDER:rw is writable. May be repeated.",
        ),
        click.option(
            "--env", "variables", metavar="NAME[=VALUE]", multiple=True,
            help="An environment variable that programs see. May be repeated.",
        ),
    )  # fmt: skip

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@asynccontextmanager
async def runner(
    invocation: Invocation, sandbox: Sandbox, watch: Watch, *, new_store: bool = False
) -> AsyncIterator[PythonRunner]:
    """A runner on the store, watched; a store that is not there is made if it may be new."""
    from holdfast.cli.opening import creating, existing, sqlite_path, store_name, store_path, writing
    from holdfast.durable.runs.runner import PythonRunner

    path = store_path(store_name(invocation))
    if not new_store:
        existing(store_name(invocation))
    if path.exists():
        sqlite_path(invocation, "keep runs")
    opened = creating(invocation) if new_store else writing(invocation)
    with watch.aside():
        async with (
            opened as manager,
            PythonRunner(
                manager.storage, sandbox.tools, mounts=sandbox.mounts, environment=sandbox.environment,
                on_call=watch,
            ) as made,
        ):  # fmt: skip
            yield made


def _mount(text: str) -> tuple[str, Mount]:
    from holdfast.durable.runs.mounts import Mount

    path, equals, folder = text.partition("=")
    writable = folder.endswith(_WRITABLE)
    folder = folder.removesuffix(_WRITABLE)
    if not equals or not path.startswith("/") or not folder:
        raise InvalidArgument(
            f"--mount {text} names no path and folder", hint="As in --mount /data=./data or --mount /out=./out:rw."
        )
    if not Path(folder).is_dir():
        raise InvalidArgument(f"There is no folder {folder}, which --mount names", hint="Make it first.")
    return path, Mount(folder, writable=writable)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise InvalidArgument(f"--env {text} names no variable", hint="As in --env CITY or --env CITY=Rome.")
    if equals:
        return name, value
    if name not in os.environ:
        raise InvalidArgument(f"The environment has no variable {name}", hint=f"Set it, or give --env {name}=VALUE.")
    return name, os.environ[name]

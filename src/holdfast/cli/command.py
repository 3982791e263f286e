"""What every command has: `--store` and `--json`, before its name or after it, and an example in its help."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import click

T = TypeVar("T")


@dataclass(slots=True)
class Invocation:
    """What was asked for in general: which store, and for whom the answer is."""

    store: str | None = None
    json: bool = False


class Group(click.Group):
    """A group of commands that answers a mistyped one with those that are near."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from difflib import get_close_matches

        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, names, n=2, cutoff=0.5)
        raise Mistyped(
            f"There is no command {name!r}",
            f"Did you mean {' or '.join(near)}?" if near else f"`{ctx.command_path} --help` lists the commands.",
        )


class Mistyped(click.UsageError):
    """A command that there is not, with a hint which was meant."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def shared_options() -> list[click.Option]:
    """The options that may stand before the command's name and after it; the one after it counts."""
    return [
        click.Option(
            ["--store"],
            metavar="PATH|URL",
            expose_value=False,
            callback=_note_store,
            help="The store: a file, a folder, sqlite:///PATH or file:///DIR."
            " Default: HOLDFAST_STORE, else checkpoints.db.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_note_json, help="Answer in JSON, for programs."
        ),
    ]


def command(name: str, *, examples: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a function a command; its first argument is the `Invocation`. `examples` are shell lines."""

    def make(function: Callable[..., Any]) -> click.Command:
        decorate: Callable[[Any], click.Command] = click.command(name, epilog=epilog(examples), **attributes)
        made = decorate(click.pass_obj(function))
        made.params.extend(shared_options())
        return made

    return make


def run(work: Coroutine[Any, Any, T]) -> T:
    """Carries out what a command does; asyncio is imported here, because help and usage errors don't need it."""
    import asyncio

    return asyncio.run(work)


def epilog(examples: str) -> str:
    """Lines to copy, kept as they are by the help's formatter."""
    lines = [line.strip() for line in examples.strip().splitlines()]
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def _note_store(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Invocation).store = value


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click calls it
    if value:
        ctx.ensure_object(Invocation).json = True

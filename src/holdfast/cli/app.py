"""`holdfast`: finds the command, runs it, and turns whatever goes wrong into one line, a hint and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from holdfast.cli.command import Group, Invocation, epilog, shared_options
from holdfast.version import __version__

_HOMES = {
    "run": "run",
    "resume": "resume",
    "runs": "runs",
    "trace": "trace",
    "fork": "fork",
    "workflow": "workflow",
    "log": "log",
    "show": "show",
    "diff": "diff",
    "list": "listing",
    "agents": "agents",
    "verify": "verify",
    "stats": "stats",
    "gc": "gc",
    "pin": "pin",
    "unpin": "pin",
    "export": "export",
    "import": "importing",
    "key": "key",
    "backup": "backup",
    "restore-backup": "backup",
    "drift": "drift",
    "demo": "demo",
}
"""Which module has which command; a module is imported when its command is asked for."""

_EXAMPLES = """
holdfast run book.py --tools tools.py
holdfast log --agent trip-1
holdfast demo"""

_EXIT_CODES = """\b
Exit codes:
  0    all is well
  1    what was asked for is not there or was refused, or a program failed
  2    the command line makes no sense
  3    damage was found
  4    the store can't be opened
  5    reading or writing failed: a full disk, a broken one
  6    a run waits: it is parked, lacks a tool or an answer, or runs elsewhere
  130  stopped by Ctrl-C"""


class Program(Group):
    """The group of commands, imported one by one as they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _HOMES.get(cmd_name)
        if home is None:
            return None
        module = importlib.import_module(f"holdfast.cli.{home}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None  # click would end with code 1, as if something were wrong


class ReaderGone(Exception):
    """Whoever read the output has seen enough, `head` for one."""


@click.pass_context
def _program(ctx: click.Context) -> None:
    """Run programs that can be killed anywhere, and look at what Holdfast keeps of your agents."""
    ctx.ensure_object(Invocation)


program = Program(
    name="holdfast",
    callback=_program,
    help=_program.__doc__,
    epilog=epilog(_EXAMPLES) + "\n\n" + _EXIT_CODES,
    params=[
        *shared_options(),
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False,
            callback=lambda ctx, _, value: _tell_version(ctx) if value else None,
            help="Show the version and exit.",
        ),
    ],
    no_args_is_help=False,
    invoke_without_command=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip


def _tell_version(ctx: click.Context) -> NoReturn:
    click.echo(f"holdfast {__version__}")
    ctx.exit()


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    _let_output_be_encoded()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGone):
        _stop_output()
        return 0
    except OSError as error:
        from holdfast.cli.failures import tell

        _stop_output()
        return tell(error)
    return code


def _run(arguments: list[str]) -> int:
    from holdfast.errors import HoldfastError, InvalidArgument

    try:
        if any("\0" in one for one in arguments):  # no shell hands one over, but a program may
            raise InvalidArgument("An argument has a NUL character, which no name and no path has")
        done = program.main(arguments or ["--help"], prog_name="holdfast", standalone_mode=False)
    except ReaderGone:
        raise
    except (click.ClickException, click.Abort, KeyboardInterrupt, HoldfastError) as error:
        from holdfast.cli.failures import tell

        return tell(error)
    return done if isinstance(done, int) else 0


def _let_output_be_encoded() -> None:
    """A terminal that knows only ASCII still gets everything, escaped."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # somebody put another object there, which knows what it does
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _stop_output() -> None:
    """What is still buffered goes nowhere, so that Python has nothing to complain about when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

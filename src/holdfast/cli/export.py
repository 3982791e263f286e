"""`holdfast export`: an agent's history as JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.durable.transfer import Snapshots


@command(
    "export",
    examples="""
    holdfast export trip-1 | jq -r 'select(.type == "user_message").content'
    holdfast export trip-1 --all -o trip-1.jsonl
    """,
)
@click.argument("agent", metavar="AGENT")
@click.option("--all", "everything", is_flag=True, help="Everything ever recorded, not only what counts now.")
@click.option(
    "--snapshots", type=click.Choice(["kept", "rebuild", "none"]), default="kept", show_default=True,
    help="The interpreter's snapshots: those that are kept, one at every call, or none.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="Write to a file, which is there whole or not at all.")
def export_command(
    invocation: Invocation, *, agent: str, everything: bool, snapshots: Snapshots, output: str | None
) -> None:
    """Write an agent's history as JSON lines, oldest first.

    By default what counts now: what was rewound is left out. The lines are the wire format of the docs, the same
    with --json. `holdfast import` reads them. With `--snapshots rebuild` programs are replayed in the sandbox for the
    snapshots that the store did not keep; no tool is called.
    """
    lines = run(_lines(invocation, agent, everything=everything, snapshots=snapshots))
    with _target(output) as target:
        target.writelines(f"{line}\n" for line in lines)


async def _lines(invocation: Invocation, agent: str, *, everything: bool, snapshots: Snapshots) -> list[str]:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading
    from holdfast.durable.transfer import export_lines

    async with reading(invocation) as manager:
        await known_agent(manager, agent)
        return await export_lines(manager.store, agent, everything=everything, snapshots=snapshots)


@contextmanager
def _target(output: str | None) -> Iterator[IO[str]]:
    if output is None or output == "-":
        yield sys.stdout
        return
    path = Path(output)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)

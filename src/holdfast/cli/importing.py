"""`holdfast import`: a history from JSON lines into a new agent."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.history.records import Record


@command(
    "import",
    examples="""
    holdfast import trip-1.jsonl --agent trip-1-copy --user ada
    holdfast export trip-1 | holdfast --store other.db import - --agent trip-1
    """,
)
@click.argument("file", metavar="FILE|-")
@click.option("--agent", metavar="ID", required=True, help="The new agent; one that exists is refused.")
@click.option("--user", metavar="ID", default="default", show_default=True, help="Whose agent it becomes.")
def import_command(invocation: Invocation, file: str, agent: str, user: str) -> None:
    """Read an exported history into a new agent.

    It comes in one commit, or not at all. The store is made if it is not there. Checkpoints are left out, because
    an export has no states; snapshots are left out, too: runs are replayed from their records.
    """
    from holdfast.durable.transfer import parse_lines

    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    records = parse_lines(data.splitlines())  # before the store is opened: a wrong line must not make one
    run(_import(invocation, records, agent, user))


async def _import(invocation: Invocation, records: list[Record], agent: str, user: str) -> None:
    from holdfast.cli.opening import creating
    from holdfast.cli.output import counted, say, say_json
    from holdfast.durable.transfer import import_lines

    async with creating(invocation) as manager:
        done = await import_lines(manager.store, records, agent_id=agent, user_id=user)
    if invocation.json:
        say_json({"agent_id": agent, "user_id": user, **asdict(done)})
        return
    left_out = [
        counted(count, noun)
        for count, noun in ((done.checkpoints_left_out, "checkpoint record"), (done.snapshots_left_out, "snapshot"))
        if count
    ]
    say(f"{counted(done.records, 'record')} imported" + (f"; left out: {' and '.join(left_out)}" if left_out else ""))

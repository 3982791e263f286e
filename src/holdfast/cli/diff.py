"""`holdfast diff`: what changed between two checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager

_COLOURS = {"+": "green", "-": "red", "~": "yellow", ">": "cyan"}


@command(
    "diff",
    examples="""
    holdfast diff trip-1~1 trip-1@latest
    holdfast diff chk_01ka3f
    """,
)
@click.argument("first", metavar="ID")
@click.argument("second", metavar="[OTHER]", required=False)
def diff_command(invocation: Invocation, first: str, second: str | None) -> None:
    """Show what changed from one checkpoint to another.

    With one ID, what changed since its parent (or, where that was deleted, since the nearest one before it). Long
    values are shortened; --json has them whole.
    """
    run(_diff(invocation, first, second))


async def _diff(invocation: Invocation, first: str, second: str | None) -> None:
    from holdfast.cli.naming import named
    from holdfast.cli.opening import reading
    from holdfast.cli.output import say, say_json, styled

    async with reading(invocation) as manager:
        if second is None:
            new = await named(manager, first)
            old = await _before(manager, new)
        else:
            old, new = await named(manager, first), await named(manager, second)
        difference = await manager.compare(old, new)
    if invocation.json:
        say_json(difference.to_dict())
        return
    for line in str(difference).split("\n"):
        colour = _COLOURS.get(line.strip()[:1]) if line[:1] != " " or line[:4] == "    " else None
        say(styled(line, bold=True) if line.startswith(("---", "+++")) else styled(line, fg=colour))


async def _before(manager: CheckpointManager, checkpoint_id: str) -> str:
    """The nearest ancestor that still has its state."""
    from holdfast.errors import UnknownCheckpoint

    for ancestor in await manager.ancestors(checkpoint_id):
        if not ancestor.deleted:
            return ancestor.id
    raise UnknownCheckpoint(
        f"There is nothing before {checkpoint_id} to compare it with",
        checkpoint_id=checkpoint_id,
        hint="Name two checkpoints: `holdfast diff ID OTHER`.",
    )

"""`holdfast list`: checkpoints one by one, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

_AT_TERMINAL: Final = 50
_KINDS: Final = ("manual", "auto", "routine", "pre_operation", "recovery", "workflow")


@command(
    "list",
    examples="""
    holdfast list --agent trip-1 --kind routine
    holdfast list --json | jq -r '.[].id'
    """,
)
@click.option("--agent", metavar="ID", help="Only this agent.")
@click.option("--user", metavar="ID", help="Only this user's agents.")
@click.option("--kind", type=click.Choice(_KINDS), metavar="KIND", help=f"Only this kind: {', '.join(_KINDS)}.")
@click.option("--limit", type=click.IntRange(0), help="How many; 0 is all. Default: 50 at a terminal, else all.")
def list_command(
    invocation: Invocation, agent: str | None, user: str | None, kind: str | None, limit: int | None
) -> None:
    """List checkpoints, newest first."""
    run(_list(invocation, agent, user, kind, limit))


async def _list(
    invocation: Invocation, agent: str | None, user: str | None, kind: str | None, limit: int | None
) -> None:
    from holdfast.cli.naming import known_agent, short_length
    from holdfast.cli.opening import reading
    from holdfast.cli.output import age, at_terminal, say, say_json, styled, table
    from holdfast.storage.protocol import Query

    if limit is None:
        limit = _AT_TERMINAL if at_terminal() and not invocation.json else 0
    async with reading(invocation) as manager:
        if agent is not None:
            await known_agent(manager, agent)
        query = Query(agent_id=agent, user_id=user, kinds=(kind,) if kind else (), limit=limit + 1 if limit else None)
        found = await manager.store.list(query)
    shown = found[:limit] if limit else found
    if invocation.json:
        say_json([summary(one) for one in shown])
        return
    length = short_length(shown) if at_terminal() else None
    rows = [
        (one.id[:length], one.agent_id, f"#{one.position}", str(one.kind), one.status, age(one.timestamp),
         "pinned" if one.pinned else "")
        for one in shown
    ]  # fmt: skip
    table(rows, ("ID", "AGENT", "POSITION", "KIND", "STATUS", "SAVED", ""))
    if len(found) > len(shown) and at_terminal():
        say(styled(f"… there are older ones: --limit {limit * 2}, or --limit 0 for all", dim=True))


def summary(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint in JSON, without its state: what `list` and `log` give of each."""
    from holdfast.cli.output import moment

    return {
        "id": checkpoint.id,
        "agent_id": checkpoint.agent_id,
        "agent_type": checkpoint.agent_type,
        "user_id": checkpoint.user_id,
        "kind": str(checkpoint.kind),
        "status": checkpoint.status,
        "timestamp": moment(checkpoint.timestamp),
        "position": checkpoint.position,
        "commit_number": checkpoint.commit_number,
        "parent_checkpoint_id": checkpoint.parent_checkpoint_id,
        "pinned": checkpoint.pinned,
        "operation": checkpoint.operation,
        "group_id": checkpoint.group_id,
    }

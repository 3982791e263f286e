"""`holdfast agents`: who is in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.storage.protocol import AgentInfo


@command("agents", examples="holdfast agents --user ada")
@click.option("--user", metavar="ID", help="Only this user's agents.")
def agents_command(invocation: Invocation, user: str | None) -> None:
    """List the agents, the one that moved last first."""
    run(_agents(invocation, user))


async def _agents(invocation: Invocation, user: str | None) -> None:
    from holdfast.cli.opening import reading
    from holdfast.cli.output import say_json, table

    async with reading(invocation) as manager:
        infos = sorted(await manager.store.agents(user), key=lambda info: info.commit_number, reverse=True)
    if invocation.json:
        say_json([_plain(info) for info in infos])
        return
    rows = [
        (info.agent_id, info.user_id, info.agent_type or "-", f"{info.checkpoints:,}", f"#{info.last_seq}", _told(info))
        for info in infos
    ]
    table(rows, ("AGENT", "USER", "TYPE", "CHECKPOINTS", "POSITION", ""))


def _told(info: AgentInfo) -> str:
    told = []
    if info.owner is not None:
        told.append("running" if info.owner_alive else "interrupted")
    if info.forked_from is not None:
        told.append(f"forked from {info.forked_from[0]} at #{info.forked_from[1]}")
    if waiting := info.inbox_last - info.inbox_acknowledged:
        told.append(f"{waiting:,} waiting in its inbox")
    return ", ".join(told)


def _plain(info: AgentInfo) -> dict[str, Any]:
    origin = info.forked_from
    return {
        "agent_id": info.agent_id,
        "user_id": info.user_id,
        "agent_type": info.agent_type,
        "checkpoints": info.checkpoints,
        "position": info.last_seq,
        "commit_number": info.commit_number,
        "newest_checkpoint_id": info.tip,
        "running": info.owner is not None and info.owner_alive,
        "interrupted": info.owner is not None and not info.owner_alive,
        "forked_from": None if origin is None else {"agent_id": origin[0], "position": origin[1]},
        "inbox_waiting": info.inbox_last - info.inbox_acknowledged,
    }

"""`holdfast log`: how an agent came to where it is, with its branches and forks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.cli.graph import Line
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint

_AT_TERMINAL: Final = 50
_COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")


@command(
    "log",
    examples="""
    holdfast log
    holdfast log --agent trip-1 --limit 20
    """,
)
@click.option("--agent", metavar="ID", help="Only this agent, and what it was forked from.")
@click.option("--user", metavar="ID", help="Only this user's agents.")
@click.option(
    "--limit", type=click.IntRange(0), help="How many checkpoints; 0 is all. Default: 50 at a terminal, else all."
)
def log_command(invocation: Invocation, agent: str | None, user: str | None, limit: int | None) -> None:
    """Draw the checkpoints as a graph, newest first.

    Each line has the id, the position in the history, kind, status and age; in brackets the agents whose newest
    checkpoint it is. Marks: `*` a checkpoint, `o` a pinned one, `:` where deleted ones were.
    """
    run(_log(invocation, agent, user, limit))


async def _log(invocation: Invocation, agent: str | None, user: str | None, limit: int | None) -> None:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading
    from holdfast.cli.output import at_terminal, say, say_json, styled
    from holdfast.storage.protocol import Query

    if limit is None:
        limit = _AT_TERMINAL if at_terminal() and not invocation.json else 0
    async with reading(invocation) as manager:
        if agent is not None:
            await known_agent(manager, agent)
        listed = await manager.store.list(Query(agent_id=agent, user_id=user, limit=limit + 1 if limit else None))
        if agent is not None and listed:
            listed += await _shared_past(manager, listed)
        older = bool(limit) and len(listed) > limit
        del listed[limit or len(listed) :]
        if invocation.json:
            say_json(await _plain(manager, listed))
            return
        for line in await lines(manager, listed):
            say(line)
    if not listed:
        say("There are no checkpoints here." if user is None else f"User {user} has no checkpoints here.")
    if older and at_terminal():
        say(styled(f"… there are older ones: --limit {limit * 2}, or --limit 0 for all", dim=True))


async def _shared_past(manager: CheckpointManager, own: list[Checkpoint]) -> list[Checkpoint]:
    """What a fork came from, as far as it is still there."""
    past = await manager.ancestors(own[-1].id)
    return [one for one in past if one.agent_id != own[0].agent_id and not one.deleted]


async def lines(manager: CheckpointManager, listed: list[Checkpoint]) -> list[str]:
    """The drawing of these checkpoints, which come newest first, with an empty line between families."""
    from holdfast.cli.forest import forest
    from holdfast.cli.graph import draw
    from holdfast.cli.naming import short_length
    from holdfast.cli.output import at_terminal

    grown = await forest(manager, listed)
    tips = await _tips(manager)
    length = short_length(listed) if at_terminal() else None
    drawn = []
    for family in grown.families():
        drawn += ["", *(_line(line, tips, length) for line in draw(family))]
    return drawn[1:]


async def _tips(manager: CheckpointManager) -> dict[str | None, list[str]]:
    """Which agents have their newest checkpoint where."""
    tips = defaultdict(list)
    for info in await manager.store.agents():
        tips[info.tip].append(info.agent_id)
    return tips


def _line(line: Line[Any], tips: dict[str | None, list[str]], length: int | None) -> str:
    from holdfast.cli.forest import Gap
    from holdfast.cli.output import age, counted, cut, styled, width
    from holdfast.history.preview import escape

    drawn = styled(line.drawing, fg=_COLOURS[line.column % len(_COLOURS)])
    if line.node is None:
        return drawn
    room = width()
    room = None if room is None else room - len(line.drawing) - 2
    content = line.node.content
    if isinstance(content, Gap):
        text = f"{counted(content.count, 'checkpoint')} deleted, up to #{content.newest.position}"
        return f"{drawn}  {styled(cut(text, room), dim=True)}"
    id_ = escape(content.id[:length])
    agents = ", ".join(escape(name) for name in tips.get(content.id, ()))
    of = f"  ({agents})" if agents else ""
    told = f"  #{content.position}  {content.kind}  {escape(content.status)}  {age(content.timestamp)}"
    told = cut(told + ("  pinned" if content.pinned else ""), None if room is None else room - len(id_) - len(of))
    return f"{drawn}  {styled(id_, fg='yellow')}{styled(of, fg='green', bold=True)}{told}"


async def _plain(manager: CheckpointManager, listed: list[Checkpoint]) -> list[dict[str, Any]]:
    from holdfast.cli.forest import forest
    from holdfast.cli.listing import summary

    grown = await forest(manager, listed)
    tips = await _tips(manager)
    found = sorted(
        (*grown.listed.values(), *grown.deleted.values()),
        key=lambda one: (one.commit_number, one.position), reverse=True,
    )  # fmt: skip
    return [{**summary(one), "deleted": one.deleted, "tip_of": tips.get(one.id, [])} for one in found]

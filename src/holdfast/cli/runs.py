"""`holdfast runs`: the programs that were run, and how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.cli.runfacts import RunFacts
    from holdfast.durable.manager import CheckpointManager

_AT_TERMINAL: Final = 50
_COLUMNS: Final = ("RUN", "AGENT", "BEGUN", "STATE", "CALLS", "SESSION")


@command(
    "runs",
    examples="""
    holdfast runs --pending
    holdfast runs --agent trip-1 --limit 10
    """,
)
@click.option("--agent", metavar="ID", help="Only this agent's.")
@click.option("--pending", is_flag=True, help="Only those that have not come to their end.")
@click.option("--limit", type=click.IntRange(0), help="How many; 0 is all. Default: 50 at a terminal, else all.")
def runs_command(invocation: Invocation, *, agent: str | None, pending: bool, limit: int | None) -> None:
    """List the runs of programs, by agent, the newest first.

    A run is running (a live process has its agent), pending (it was left behind, and `holdfast resume` goes on with
    it), parked (it waits for you), finished or failed.
    """
    run(_runs(invocation, agent, limit, pending=pending))


async def _runs(invocation: Invocation, agent: str | None, limit: int | None, *, pending: bool) -> None:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading, sqlite_path
    from holdfast.cli.output import at_terminal, say, say_json, styled

    if limit is None:
        limit = _AT_TERMINAL if at_terminal() and not invocation.json else 0
    sqlite_path(invocation, "keep runs")
    async with reading(invocation) as manager:
        if agent is not None:
            await known_agent(manager, agent)
        found = await _found(manager, agent, limit + 1 if limit else None, pending=pending)
    shown = found[:limit] if limit else found
    if invocation.json:
        say_json([one.plain() for one in shown])
        return
    if shown:
        _table(shown)
    else:
        say("No run is pending here." if pending else "No program was run here.")
    if len(found) > len(shown) and at_terminal():
        say(styled(f"… there are more: --limit {limit * 2}, or --limit 0 for all", dim=True))


async def _found(manager: CheckpointManager, agent: str | None, limit: int | None, *, pending: bool) -> list[RunFacts]:
    from holdfast.cli.runfacts import facts_of

    store = manager.store
    begun = await store.pending("run", agent_id=agent)
    if not pending:
        return [await facts_of(store, place, begun) for place in await store.runs(agent_id=agent, limit=limit)]
    open_now = {(one.agent_id, one.seq) for one in begun}
    places = [one for one in await store.runs(agent_id=agent) if (one.agent_id, one.start) in open_now]
    return [await facts_of(store, place, begun) for place in places[:limit]]


def _table(found: list[RunFacts]) -> None:
    from holdfast.cli.output import age, table

    rows = [
        (one.place.name, one.place.agent_id, age(one.begun) if one.begun else "-", one.state, f"{one.calls:,}",
         one.place.session or "-" if has_sessions(found) else "")
        for one in found
    ]  # fmt: skip
    table(rows, _COLUMNS if has_sessions(found) else (*_COLUMNS[:-1], ""))


def has_sessions(found: list[RunFacts]) -> bool:
    return any(one.place.session for one in found)

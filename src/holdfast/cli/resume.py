"""`holdfast resume`: goes on with the runs that dead processes left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command import Invocation, command
from holdfast.cli.sandbox import Sandbox, sandbox_options

if TYPE_CHECKING:
    from holdfast.cli.stopping import Stopped
    from holdfast.cli.watching import Watch
    from holdfast.durable.runs.result import RunResult
    from holdfast.durable.runs.runner import PythonRunner
    from holdfast.storage.protocol import Pending


@command(
    "resume",
    examples="""
    holdfast resume --tools tools.py
    holdfast resume book --tools tools.py --again
    """,
)
@click.argument("name", metavar="[RUN]", required=False)
@sandbox_options(tools_needed=True)
@click.option("--agent", metavar="ID", help="Only this agent's runs.")
@click.option("--again", is_flag=True, help="Try parked runs once more, too.")
def resume_command(
    invocation: Invocation, *, name: str | None, tools: str, mounts: tuple[str, ...], variables: tuple[str, ...],
    agent: str | None, again: bool,
) -> int:  # fmt: skip
    """Go on with every run that was left behind, or with one.

    Each is taken up where it was, to its end, and told in a line. A call whose answer was lost gets what its tool
    declares: an error, another try, or a look at what happened. The exit code is 6 if a run has still not come to
    its end, else 1 if one failed.
    """
    from holdfast.cli.opening import existing, store_name
    from holdfast.cli.outcome import code_of
    from holdfast.cli.stopping import command_line, stoppable
    from holdfast.cli.watching import Watch

    existing(store_name(invocation))
    sandbox = Sandbox.of(tools, mounts, variables)
    watch = Watch(named=name is None)
    words = ("resume", name) if name else ("resume",)
    once_more = command_line(invocation, *words, tools=tools, mount=mounts, env=variables, agent=agent, again=again)
    results = stoppable(
        _resume(invocation, sandbox, watch, name=name, agent=agent, again=again),
        lambda: _farewell(watch, once_more),
    )
    _tell(invocation, results)
    return code_of(results)


async def _resume(
    invocation: Invocation, sandbox: Sandbox, watch: Watch, *, name: str | None, agent: str | None, again: bool
) -> list[RunResult]:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading, sqlite_path
    from holdfast.cli.runnames import named_run
    from holdfast.cli.sandbox import runner

    sqlite_path(invocation, "keep runs")
    async with reading(invocation) as manager:  # what is mistyped is told before anything is taken up
        if agent is not None:
            await known_agent(manager, agent)
        place = None if name is None else await named_run(manager.store, name, agent)
    async with runner(invocation, sandbox, watch) as python:
        if place is not None and place.end is not None:
            from holdfast.cli.runnames import first_and_last
            from holdfast.durable.runs.result import RunResult

            _, complete = await first_and_last(python.store, place)
            assert complete is not None  # noqa: S101 - it has an end
            return [RunResult.of(place.agent_id, complete)]
        agent_id = agent if place is None else place.agent_id
        alive = [
            one for one in await python.store.pending("run", agent_id=agent_id)
            if one.owner_alive and name in (None, one.name)
        ]  # fmt: skip
        found = await python.recover(agent_id, tool_call_id=name, again=again)
        return [*found, *await _elsewhere(python, alive)]


async def _elsewhere(python: PythonRunner, alive: list[Pending]) -> list[RunResult]:
    """The runs that a live process had when we came, as far as they have not come to their end meanwhile."""
    from holdfast.durable.runs.result import RunResult

    still = {(one.agent_id, one.name) for one in await python.store.pending("run")}
    return [
        RunResult(
            agent_id=one.agent_id, tool_call_id=one.name, is_error=True, status="elsewhere",
            error="A live process has its agent",
        )
        for one in alive if (one.agent_id, one.name) in still
    ]  # fmt: skip


def _tell(invocation: Invocation, results: list[RunResult]) -> None:
    from holdfast.cli.outcome import plain, state_of
    from holdfast.cli.output import counted, say, say_json, table

    if invocation.json:
        say_json([plain(one) for one in results])
        return
    if not results:
        say("No run is pending here.")
        return
    rows = [
        (one.tool_call_id, one.agent_id, state_of(one),
         counted(one.tool_call_count, "call") if one.status == "complete" else "", _told(one))
        for one in results
    ]  # fmt: skip
    table(rows, ("RUN", "AGENT", "STATE", "CALLS", ""))
    hints = {
        "parked": "`holdfast trace RUN` shows where a run is parked; --again tries once more.",
        "left": "Name a tools file with the tools that are missing.",
    }
    for status, hint in hints.items():
        if any(one.status == status for one in results):
            click.echo(f"hint: {hint}", err=True)


def _told(result: RunResult) -> str:
    from holdfast.history.preview import preview

    if result.is_error:
        return (result.error or "").strip().splitlines()[-1] if result.error else ""
    return "" if result.output is None else preview(result.output, 100)


def _farewell(watch: Watch, again: str) -> Stopped:
    from holdfast.cli.stopping import Stopped

    watch.clear()
    return Stopped("stopped; runs that have not ended can go on", f"`{again}` goes on with them.")

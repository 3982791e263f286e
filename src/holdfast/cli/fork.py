"""`holdfast fork`: what would have happened if one tool call had been answered in another way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command import Invocation, command
from holdfast.cli.sandbox import Sandbox, sandbox_options
from holdfast.errors import Corrupt, InvalidArgument

if TYPE_CHECKING:
    from holdfast.cli.stopping import Stopped
    from holdfast.cli.watching import Watch
    from holdfast.durable.runs.result import RunResult


@command(
    "fork",
    examples="""
    holdfast fork book --at 3 --result '{"free": false}'
    holdfast fork book --at 3 --exception "TimeoutError: no answer" --tools tools.py --live
    """,
)
@click.argument("name", metavar="RUN")
@click.option("--at", type=click.IntRange(1), required=True, metavar="N", help="Which tool call: #N in `trace`.")
@click.option("--result", metavar="JSON", help="What it returns instead.")
@click.option("--exception", metavar="'TYPE: MESSAGE'", help="What it raises instead.")
@click.option("--agent", metavar="NEW", help="The agent that the fork becomes. Default: a new name.")
@click.option("--source-agent", metavar="ID", help="Whose run it is, if several agents have one of this name.")
@sandbox_options(tools_needed=False)
@click.option("--live", is_flag=True, help="Call the real tools from there on; needs --tools.")
def fork_command(  # noqa: PLR0913 - click gives each option
    invocation: Invocation, *, name: str, at: int, result: str | None, exception: str | None, agent: str | None,
    source_agent: str | None, tools: str | None, mounts: tuple[str, ...], variables: tuple[str, ...], live: bool,
) -> int:  # fmt: skip
    """Run a program again with another answer to a call.

    The run itself stays as it is: the fork goes on from there in a history of its own. It calls no real tool. Calls
    are answered as they were in the original, and it stops at the first that has no recorded answer, unless the tools
    file has that tool as read_only. With --live the real tools are called from there on.
    """
    from holdfast.cli.opening import existing, store_name
    from holdfast.cli.outcome import code_of
    from holdfast.cli.stopping import stoppable
    from holdfast.cli.watching import Watch

    if (result is None) == (exception is None):
        raise click.UsageError("A fork needs another answer: either --result or --exception")
    if live and tools is None:
        raise click.UsageError("--live needs the real tools: --tools FILE")
    answer = {"result": _value(result)} if result is not None else {"exception": _exception(exception or "")}
    existing(store_name(invocation))
    sandbox = Sandbox.of(tools, mounts, variables)
    watch = Watch(prints=not invocation.json)
    done = stoppable(
        _fork(invocation, sandbox, watch, name=name, source_agent=source_agent, at=at, answer=answer, agent=agent,
              live=live),
        lambda: _farewell(watch),
    )  # fmt: skip
    _tell(invocation, watch, done, at)
    return code_of([done])


async def _fork(  # noqa: PLR0913 - as it was asked for
    invocation: Invocation, sandbox: Sandbox, watch: Watch, *, name: str, source_agent: str | None, at: int,
    answer: dict[str, Any], agent: str | None, live: bool,
) -> RunResult:  # fmt: skip
    from dataclasses import replace

    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading, sqlite_path
    from holdfast.cli.runnames import first_and_last, named_run
    from holdfast.cli.sandbox import runner
    from holdfast.durable.runs.standins import standins

    sqlite_path(invocation, "keep runs")
    async with reading(invocation) as manager:
        if source_agent is not None:
            await known_agent(manager, source_agent)
        place = await named_run(manager.store, name, source_agent, option="--source-agent")
        start, _ = await first_and_last(manager.store, place)
    if not live:
        known = {tool.name for tool in sandbox.tools}
        unknown = [tool for tool in standins(start.preamble) if tool.name not in known]
        sandbox = replace(sandbox, tools=[*sandbox.tools, *unknown])
    async with runner(invocation, sandbox, watch) as python:
        return await python.fork(
            name, at=at, agent_id=agent, source_agent_id=place.agent_id, tools="live" if live else "recorded",
            **answer,
        )  # fmt: skip


def _tell(invocation: Invocation, watch: Watch, done: RunResult, at: int) -> None:
    from holdfast.cli.outcome import note, plain, print_error, print_output
    from holdfast.cli.output import say_json

    if invocation.json:
        say_json({**plain(done), "at": at})
        return
    watch.passed_on(done.print_output)
    look = f"`holdfast trace {done.tool_call_id} --agent {done.agent_id}` shows it."
    if done.is_error:
        print_error(done)
        stopped = (done.error or "").startswith("The fork stopped before")
        live = "With --tools FILE --live the real tools are called. " if stopped else ""
        note(f"The fork is agent {done.agent_id}", live + look)
    else:
        print_output(done.output)
        note(f"The fork is agent {done.agent_id}, and came to its end", look)


def _value(text: str) -> Any:
    from holdfast.history.jsonform import from_json

    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"--result is no JSON: {error}", hint=f"A text needs quotes of its own: --result '{json.dumps(text)}'."
        ) from None
    except Corrupt as error:
        raise InvalidArgument(f"--result is no value: {error.message}", hint="Keys with $ name exact types.") from None


def _exception(text: str) -> Exception:
    from difflib import get_close_matches

    from holdfast.durable.runs.failures import NAMES, revived

    name, _, message = text.partition(":")
    name = name.strip()
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=2)
        raise InvalidArgument(
            f"Programs know no exception {name or text!r}",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"One of {', '.join(NAMES)}.",
        )
    return revived({"type": name, "message": message.strip()})


def _farewell(watch: Watch) -> Stopped:
    from holdfast.cli.stopping import Stopped

    watch.clear()
    return Stopped("stopped; the fork can go on if it was begun", "`holdfast runs --pending` shows whether it was.")

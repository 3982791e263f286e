"""`holdfast run`: a script that survives the death of its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli.command import Invocation, command
from holdfast.cli.sandbox import Sandbox, sandbox_options

if TYPE_CHECKING:
    from holdfast.cli.stopping import Stopped
    from holdfast.cli.watching import Watch
    from holdfast.durable.runs.result import RunResult
    from holdfast.durable.runs.runner import PythonRunner

_RESTARTED: Final = "RuntimeError: Process was restarted"


@dataclass(kw_only=True)
class _Asked:
    """What is to run, and under which names."""

    program: str
    code: str
    tools: str
    agent_id: str
    stem: str
    given: str | None
    session: str | None
    name: str = ""  # once it is known
    was_finished: bool = False


@command(
    "run",
    examples="""
    holdfast run book.py --tools tools.py
    holdfast run book.py --tools tools.py --agent trip-1 --id second-try
    """,
)
@click.argument("program", metavar="PROGRAM.py")
@sandbox_options(tools_needed=True)
@click.option("--agent", metavar="ID", help="Whose run it is. Default: the program's name without .py.")
@click.option("--id", "name", metavar="RUN", help="The run's name. Default: the program's name without .py.")
@click.option("--session", metavar="NAME", help="Go on from the variables that the session's runs before left.")
def run_command(
    invocation: Invocation, *, program: str, tools: str, mounts: tuple[str, ...], variables: tuple[str, ...],
    agent: str | None, name: str | None, session: str | None,
) -> int:  # fmt: skip
    """Run a Python script so that it can be killed anywhere.

    The script may call the functions of the tools file, and everything that it does is recorded before it has an
    effect. Stop it, kill it, cut the power: the same command again goes on where it was. A run that is finished is
    not run again; its recorded result is shown.

    The script runs in a sandbox, which knows a part of Python and nothing of this machine but its tools.
    """
    from holdfast.cli.sourcefile import source_of
    from holdfast.cli.stopping import command_line, stoppable
    from holdfast.cli.watching import Watch

    path = Path(program)
    stem = path.stem or program
    asked = _Asked(
        program=program, code=source_of(path, "a program"), tools=tools, agent_id=agent or stem, stem=stem, given=name,
        session=session,
    )  # fmt: skip
    sandbox = Sandbox.of(tools, mounts, variables)
    watch = Watch(prints=not invocation.json)
    again = command_line(
        invocation, "run", program, tools=tools, mount=mounts, env=variables, agent=agent, id=name, session=session
    )
    result = stoppable(_run(invocation, asked, sandbox, watch), lambda: _farewell(watch, asked, again))
    return _told(invocation, asked, watch, result)


async def _run(invocation: Invocation, asked: _Asked, sandbox: Sandbox, watch: Watch) -> RunResult:
    from holdfast.cli.opening import store_name, store_path
    from holdfast.cli.outcome import note
    from holdfast.cli.sandbox import runner
    from holdfast.durable.runs.executor import TOO_EARLY

    is_new = not store_path(store_name(invocation)).exists()
    async with runner(invocation, sandbox, watch, new_store=True) as python:
        if is_new:
            note(f"{store_path(store_name(invocation))} is a new store")
        while True:
            result = await _once(python, asked)
            # It was stopped before it did anything: under a name of our choice it can begin anew.
            if not (result.recovered and result.error == TOO_EARLY and asked.given is None):
                return result


async def _once(python: PythonRunner, asked: _Asked) -> RunResult:
    from holdfast.cli.outcome import note
    from holdfast.cli.output import counted
    from holdfast.cli.runfacts import calls_of, log_of, records_of
    from holdfast.cli.runnames import name_for
    from holdfast.durable.runs.result import RunResult
    from holdfast.errors import OwnedElsewhere

    store, agent_id = python.store, asked.agent_id
    asked.name = await name_for(store, agent_id, asked.code, session=asked.session, stem=asked.stem, given=asked.given)
    found = await store.runs(agent_id=agent_id, name=asked.name, limit=1)
    asked.was_finished = bool(found) and found[0].end is not None
    if found and not asked.was_finished and not found[0].owner_alive:
        calls = calls_of(log_of(await records_of(store, found[0])))
        if calls or asked.given is not None:
            note(f"Run {asked.name} goes on after {counted(calls, 'call')}")
        else:
            note(f"Run {asked.name} was stopped before its first call; the program begins anew under another name")
    info = await store.agent(agent_id)
    try:
        return await python.run(
            agent_id, asked.code, asked.name, user_id=None if info is None else info.user_id, session=asked.session
        )
    except OwnedElsewhere as error:
        return RunResult(
            agent_id=agent_id, tool_call_id=asked.name, is_error=True, error=error.message, status="elsewhere"
        )


def _told(invocation: Invocation, asked: _Asked, watch: Watch, result: RunResult) -> int:
    from holdfast.cli.outcome import code_of, note, plain, print_error, print_output
    from holdfast.cli.output import say_json

    if invocation.json:
        say_json({**plain(result), "session": asked.session, "was_finished": asked.was_finished})
        return code_of([result])
    watch.passed_on(result.print_output)
    if result.status != "complete":
        _tell_waiting(asked, result)
    elif result.is_error:
        print_error(result, None if asked.session else asked.program)
        note(f"Run {asked.name} {'had ' if asked.was_finished else ''}ended with this error, which is recorded",
             _anew(asked, result))  # fmt: skip
    else:
        print_output(result.output)
        if asked.was_finished:
            note(f"Run {asked.name} was finished before; this is its recorded result", _anew(asked, result))
    return code_of([result])


def _anew(asked: _Asked, result: RunResult) -> str:
    if result.is_error and not result.tool_call_count and asked.given is None:
        return "It called no tool: mend the program, and the same command runs it."
    if (result.error or "").endswith(_RESTARTED):
        return "A call was cut short: a tool whose calls may be repeated can say Tool(function, on_restart='retry')."
    return "Another --id runs the program from its beginning."


def _tell_waiting(asked: _Asked, result: RunResult) -> None:
    import shlex
    import sys

    from holdfast.history.preview import escape

    hints = {
        "parked": f"`holdfast trace {result.tool_call_id}` shows where; "
        f"`{shlex.join(['holdfast', 'resume', result.tool_call_id, '--tools', asked.tools])} --again` tries once more.",
        "left": "Name a tools file that has it.",
        "elsewhere": f"Wait until it ends; `holdfast runs --agent {result.agent_id}` shows what it does.",
    }
    state = "is parked" if result.status == "parked" else "waits"
    told = f"Run {result.tool_call_id} {state}: {result.error}" if result.status != "elsewhere" else str(result.error)
    click.echo(f"error: {escape(told)}", file=sys.stderr)
    click.echo(f"hint: {escape(hints[result.status])}", file=sys.stderr)


def _farewell(watch: Watch, asked: _Asked, again: str) -> Stopped:
    from holdfast.cli.output import counted
    from holdfast.cli.stopping import Stopped

    watch.clear()
    after = f" after {counted(watch.calls, 'call')}" if watch.calls else ""
    return Stopped(f"stopped{after}; run {asked.name or asked.stem} can go on", f"`{again}` goes on with it.")

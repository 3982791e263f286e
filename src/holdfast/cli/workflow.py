"""`holdfast workflow`: runs a workflow file so that it can be killed anywhere, checks one, and shows its graph."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command import Group, Invocation, command, epilog, run, shared_options

if TYPE_CHECKING:
    from holdfast.agents.workflow.result import WorkflowResult
    from holdfast.agents.workflow.state import Workflow
    from holdfast.cli.stopping import Stopped
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint


@click.group(
    "workflow", cls=Group, epilog=epilog("holdfast workflow run trip.yaml --agents agents.py --input city=Lisbon")
)
def workflow_command() -> None:
    """Run, check and show workflows of YAML files.

    A workflow has steps, which agents in a Python file do. What each step gave is kept when it ends, so that a
    workflow that was stopped or killed, or has failed, goes on where it was.
    """


@dataclass(kw_only=True)
class _Asked:
    """What is to run, and where it goes on."""

    file: str
    agents: dict[str, Any]
    inputs: dict[str, Any]
    answers: dict[str, str]
    user: str | None
    run_id: str | None
    resume: str | None
    allow_changes: bool
    again: str  # the command line that goes on, but for the run's name


@command(
    "run",
    examples="""
    holdfast workflow run trip.yaml --agents agents.py --input city=Lisbon
    holdfast workflow run trip.yaml --agents agents.py --id monday
    holdfast workflow run trip.yaml --agents agents.py --resume monday --answer book=yes
    """,
)
@click.argument("file", metavar="FILE.yaml")
@click.option(
    "--agents", "agents_file", metavar="AGENTS.py", required=True,
    help="A Python file with the agents: its AGENTS, else its public async functions and classes.",
)  # fmt: skip
@click.option(
    "--input", "given", metavar="NAME=TEXT", multiple=True,
    help="An input, a text; NAME:=JSON is any other value. May be repeated.",
)  # fmt: skip
@click.option("--id", "run_id", metavar="RUN", help="The run's name: it is begun, or gone on with if it is there.")
@click.option("--resume", metavar="RUN|ID", help="Go on with a run, or from a checkpoint of one.")
@click.option(
    "--answer", "answered", metavar="STEP=TEXT", multiple=True, help="The answer to a step that waits for it."
)
@click.option("--user", metavar="ID", help="Whose run it is. Default: default.")
@click.option("--allow-changes", is_flag=True, help="Go on with a run although the file has changed since.")
def run_command(  # noqa: PLR0913 - click gives each option by its name
    invocation: Invocation, *, file: str, agents_file: str, given: tuple[str, ...], run_id: str | None,
    resume: str | None, answered: tuple[str, ...], user: str | None, allow_changes: bool,
) -> int:  # fmt: skip
    """Run a workflow so that it can be killed anywhere.

    Stop it, kill it, cut the power: --resume with its run goes on, and no step that is done is done again. The code
    is 1 where a step has failed, and 6 where one waits for an answer.
    """
    import shlex

    from holdfast.agents.workflow.reading import load
    from holdfast.cli.agentsfile import agents_of
    from holdfast.cli.failures import tell
    from holdfast.cli.outcome import WAITS
    from holdfast.cli.stopping import stoppable
    from holdfast.errors import OwnedElsewhere

    if run_id is not None and resume is not None:
        raise click.UsageError("--id and --resume name the run both; give one of them")
    with redirect_stdout(sys.stderr):
        agents = agents_of(Path(agents_file))
    load(file, agents)  # what is wrong with it is told before a store is made
    words = ["holdfast", *_store(invocation), "workflow", "run", file, "--agents", agents_file]
    asked = _Asked(
        file=file, agents=agents, inputs=_inputs(given), answers=dict(_pair(text, "--answer") for text in answered),
        user=user, run_id=run_id, resume=resume, allow_changes=allow_changes, again=shlex.join(words),
    )  # fmt: skip
    try:
        result = stoppable(_run(invocation, asked), lambda: _farewell(asked))
    except OwnedElsewhere as error:
        tell(OwnedElsewhere(error.message, hint="Another process goes on with this run: wait until that ends."))
        return WAITS
    return _told(invocation, asked, result)


async def _run(invocation: Invocation, asked: _Asked) -> WorkflowResult:
    from holdfast.agents.workflow.executor import WorkflowExecutor
    from holdfast.cli.opening import creating, writing
    from holdfast.cli.workflowtext import Progress
    from holdfast.storage.ids import new_id

    opened = creating(invocation) if asked.resume is None else writing(invocation)
    with redirect_stdout(sys.stderr):  # what agents print; stdout is for the answer
        async with opened as manager:
            executor = WorkflowExecutor(asked.agents, manager, progress=Progress())
            checkpoint_id = None
            if asked.resume is not None:
                definition = await executor.check(asked.file)
                checkpoint_id, asked.run_id = await _resumed(manager, definition.name, asked.resume)
            asked.run_id = asked.run_id or new_id("run")
            return await executor.run(
                asked.file, asked.inputs, checkpoint_id, run_id=None if checkpoint_id else asked.run_id,
                user_id=asked.user, answers=asked.answers, allow_changes=asked.allow_changes,
            )  # fmt: skip


async def _resumed(manager: CheckpointManager, workflow: str, name: str) -> tuple[str | None, str]:
    """The checkpoint that is named, if one is, and the run."""
    from holdfast.cli.naming import named
    from holdfast.errors import UnknownRun

    if name.startswith("chk_"):
        position = await manager.store.position(await named(manager, name))
        found = position.agent_id if position is not None else ""
        return (None if position is None else position.id), found.partition("/")[2] or found
    run_id = name.removeprefix(f"{workflow}/")
    if await manager.latest(f"{workflow}/{run_id}") is None:
        runs = [info.agent_id for info in await manager.store.agents() if info.agent_id.startswith(f"{workflow}/")]
        hint = f"There is {', '.join(runs[-5:])}." if runs else "`holdfast list --kind workflow` lists what there is."
        raise UnknownRun(f"Workflow {workflow} has no run {run_id}", agent_id=f"{workflow}/{run_id}", hint=hint)
    return None, run_id


def _told(invocation: Invocation, asked: _Asked, result: WorkflowResult) -> int:
    from holdfast.cli.failures import tell
    from holdfast.cli.outcome import WAITS, note
    from holdfast.cli.output import say_json
    from holdfast.cli.workflowtext import plain_result, say_result
    from holdfast.errors import HoldfastError

    if invocation.json:
        say_json(plain_result(result))
    else:
        say_result(result)
    if result.ok:
        return 0
    again = f"{asked.again} --resume {result.run_id}"
    if result.waiting:
        told = f"Run {result.run_id} waits for an answer to step {', '.join(result.waiting)}"
        note(told, f"{again} --answer {next(iter(result.waiting))}=TEXT")
        return WAITS
    failed = ", ".join(name for name, status in result.steps.items() if status == "failed")
    told = f"Run {result.run_id} has ended early: step {failed} failed"
    return tell(HoldfastError(told, hint=f"{again} tries again."))


def _farewell(asked: _Asked) -> Stopped:
    from holdfast.cli.stopping import Stopped

    return Stopped(f"stopped; run {asked.run_id} can go on", f"{asked.again} --resume {asked.run_id}")


def _store(invocation: Invocation) -> list[str]:
    return [] if invocation.store is None else ["--store", invocation.store]


def _inputs(given: tuple[str, ...]) -> dict[str, Any]:
    import json

    inputs: dict[str, Any] = {}
    for text in given:
        name, value = _pair(text, "--input")
        if name.endswith(":"):
            name = name[:-1]
            try:
                inputs[name] = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise click.UsageError(f"--input {text} has no JSON after its sign: {error}") from error
        else:
            inputs[name] = value
    return inputs


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip(":"):
        raise click.UsageError(f"{option} {text} has no name and value; write {option} name=value")
    return name, value


@command(
    "check",
    examples="""
    holdfast workflow check trip.yaml
    holdfast workflow check trip.yaml --agents agents.py
    """,
)
@click.argument("file", metavar="FILE.yaml")
@click.option("--agents", "agents_file", metavar="AGENTS.py", help="A Python file with the agents: are they all there?")
def check_command(invocation: Invocation, *, file: str, agents_file: str | None) -> int:
    """Tell everything that is wrong with a workflow file, by line. Nothing runs.

    Of a file that is in order, it says which inputs it needs, and which variables of the environment. The code is 1
    where something is wrong.
    """
    from holdfast.agents.workflow.reading import load
    from holdfast.cli.agentsfile import agents_of
    from holdfast.cli.output import say_json
    from holdfast.cli.workflowtext import needed, plain_problems, say_needed, say_problems
    from holdfast.errors import InvalidWorkflow

    agents = None
    if agents_file is not None:
        with redirect_stdout(sys.stderr):
            agents = agents_of(Path(agents_file))
    try:
        definition = load(file, agents)
    except InvalidWorkflow as error:
        if invocation.json:
            say_json({"ok": False, "problems": plain_problems(error)})
        else:
            say_problems(file, error)
        return 1
    if invocation.json:
        say_json({"ok": True, "problems": [], **needed(definition)})
    else:
        say_needed(definition)
    return 0


@command(
    "show",
    examples="""
    holdfast workflow show trip.yaml
    holdfast workflow show trip.yaml --run monday
    """,
)
@click.argument("file", metavar="FILE.yaml")
@click.option("--run", "run_name", metavar="RUN|ID", help="With how far this run is, or was at this checkpoint.")
def show_command(invocation: Invocation, *, file: str, run_name: str | None) -> None:
    """Show a workflow as a graph in text.

    It says what runs after what; steps with the same number can run at the same time. With a run, it says how far
    each step of it is.
    """
    from holdfast.agents.workflow.reading import load
    from holdfast.cli.output import say_json
    from holdfast.cli.workflowtext import plain_graph, say_graph

    definition = load(file)
    state = None if run_name is None else run(_state(invocation, definition.name, run_name))
    if invocation.json:
        say_json(plain_graph(definition, state))
    else:
        say_graph(definition, state)


async def _state(invocation: Invocation, workflow: str, name: str) -> tuple[Workflow, Checkpoint]:
    from holdfast.agents.workflow.state import Workflow
    from holdfast.cli.opening import reading
    from holdfast.errors import WrongAgent

    async with reading(invocation) as manager:
        checkpoint_id, run_id = await _resumed(manager, workflow, name)
        newest = None if checkpoint_id is not None else await manager.latest(f"{workflow}/{run_id}")
        checkpoint = await manager.load(checkpoint_id or (newest.id if newest is not None else ""))
    if checkpoint.agent_type != Workflow.__name__ or checkpoint.agent_id.partition("/")[0] != workflow:
        raise WrongAgent(
            f"{name} is of {checkpoint.agent_id}, and not of a run of {workflow}", agent_id=checkpoint.agent_id,
            checkpoint_id=checkpoint.id, hint="`holdfast list --kind workflow` lists those of workflows.",
        )  # fmt: skip
    found = Workflow(checkpoint.agent_id, checkpoint.user_id)
    found.restore_state(checkpoint.state or {})
    return found, checkpoint


for _each in (run_command, check_command, show_command):
    workflow_command.add_command(_each)
workflow_command.params.extend(shared_options())

"""What `holdfast workflow` says: a file's problems, its graph, the progress of a run, and its result."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.workflow.graph import levels
from holdfast.agents.workflow.references import ENVIRONMENT, INPUT
from holdfast.agents.workflow.state import StepState, StepStatus
from holdfast.cli.output import age, counted, cut, say, styled, table, width
from holdfast.history.jsonform import to_json
from holdfast.history.preview import escape, fit, preview

if TYPE_CHECKING:
    from holdfast.agents.workflow.definition import Definition, Step
    from holdfast.agents.workflow.result import StepProgress, WorkflowResult
    from holdfast.agents.workflow.state import Workflow
    from holdfast.errors import InvalidWorkflow
    from holdfast.history.checkpoint import Checkpoint

_COLOURS: Final = {
    StepStatus.DONE: "green", StepStatus.FAILED: "red", StepStatus.RETRYING: "yellow", StepStatus.WAITING: "cyan",
}  # fmt: skip
_WIDTH: Final = 100


class Progress:
    """A line on stderr for each step that begins or ends, at a terminal."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._begun: dict[str, float] = {}

    def __call__(self, told: StepProgress) -> None:
        if not self._shows:
            return
        now = time.monotonic()
        more = ""
        if told.status is StepStatus.RUNNING:
            self._begun[told.step] = now
            more = f"attempt {told.attempt}" if told.attempt > 1 else ""
        elif told.step in self._begun:
            more = f"{now - self._begun.pop(told.step):.1f} s"
        if told.error is not None and told.status is not StepStatus.RUNNING:
            more += f"  {told.error}"
        line = f"{told.status:<8}  {told.step}  {more}".rstrip()
        print(fit(escape(line), (width() or 80) - 1), file=sys.stderr, flush=True)  # noqa: T201 - at a terminal only


# --- a file's problems, and what it needs


def plain_problems(error: InvalidWorkflow) -> list[dict[str, Any]]:
    return [{"line": one.line, "column": one.column, "key": one.key, "message": one.message} for one in error.problems]


def say_problems(file: str, error: InvalidWorkflow) -> None:
    """`FILE:LINE:COLUMN: key: what is wrong`, as editors and compilers write it."""
    for one in error.problems:
        key = f"{one.key}: " if one.key else ""
        say(escape(f"{file}:{one.line}:{one.column}: {key}{one.message}"))


def needed(definition: Definition) -> dict[str, Any]:
    """What a run of the workflow must be given."""
    references = [one for step in definition.steps.values() for one in step.references]
    return {
        "workflow": definition.name,
        "steps": len(definition.steps),
        "agents": sorted({step.agent for step in definition.steps.values()}),
        "inputs": sorted({str(one.path[0]) for one in references if one.source == INPUT}),
        "environment": sorted({str(one.path[0]) for one in references if one.source == ENVIRONMENT}),
    }


def say_needed(definition: Definition) -> None:
    told = needed(definition)
    say(f"{escape(definition.source)} is in order: workflow {definition.name}, {counted(told['steps'], 'step')}")
    for what in ("agents", "inputs", "environment"):
        if told[what]:
            say(f"{styled(f'{what:<11}', dim=True)}  {', '.join(told[what])}")


# --- the graph


def plain_graph(definition: Definition, found: tuple[Workflow, Checkpoint] | None) -> dict[str, Any]:
    rows = levels({name: step.needs for name, step in definition.steps.items()})
    steps = [
        {
            "name": name,
            "agent": step.agent,
            "level": number,
            "needs": list(step.needs),
            "checkpoint": step.checkpoint,
            "max_attempts": step.max_attempts,
            "delay_seconds": step.delay_seconds,
            "timeout_seconds": step.timeout_seconds,
            "when": None if step.when is None else step.when.text,
            "on_error": step.on_error,
            **({} if found is None else _plain_state(found[0].steps.get(name) or StepState())),
        }
        for number, row in enumerate(rows, start=1)
        for name, step in ((name, definition.steps[name]) for name in row)
    ]
    where = {} if found is None else {"run": found[0].run_id, "status": found[1].status, "checkpoint_id": found[1].id}
    return {"workflow": definition.name, **where, "steps": steps}


def _plain_state(state: StepState) -> dict[str, Any]:
    asked = None if state.suspended is None or state.status is not StepStatus.WAITING else state.suspended["prompt"]
    return {"status": str(state.status), "attempt": state.attempt, "error": state.error, "waits_for": asked}


def say_graph(definition: Definition, found: tuple[Workflow, Checkpoint] | None) -> None:
    say(styled(f"{definition.name}: {counted(len(definition.steps), 'step')}", bold=True))
    if found is not None:
        workflow, checkpoint = found
        say(f"run {workflow.run_id}  {checkpoint.status}  {checkpoint.id}  {age(checkpoint.timestamp)}")
    say()
    rows = []
    for number, row in enumerate(levels({name: step.needs for name, step in definition.steps.items()}), start=1):
        for place, name in enumerate(row):
            step = definition.steps[name]
            state = () if found is None else _told_state(found[0].steps.get(name) or StepState())
            after = ", ".join(step.needs) or "-"
            rows.append((str(number) if place == 0 else "", name, *state, step.agent, after, _told_options(step)))
    table(rows, ("", "STEP", *(() if found is None else ("STATUS",)), "AGENT", "AFTER", ""))


def _told_state(state: StepState) -> tuple[str]:
    again = f", attempt {state.attempt}" if state.attempt > 1 else ""
    cut_off = " (begun, not ended)" if state.status is StepStatus.RUNNING else ""
    return (f"{state.status}{again}{cut_off}",)


def _told_options(step: Step) -> str:
    told = [] if step.when is None else [f"when {step.when.text}"]
    if step.max_attempts > 1:
        told.append(f"up to {step.max_attempts} attempts")
    if step.timeout_seconds is not None:
        told.append(f"at most {step.timeout_seconds:g} s")
    if step.on_error == "continue":
        told.append("may fail")
    if not step.checkpoint:
        told.append("no checkpoint")
    return "; ".join(told)


# --- a result


def plain_result(result: WorkflowResult) -> dict[str, Any]:
    return {
        "workflow": result.workflow,
        "run": result.run_id,
        "agent_id": result.agent_id,
        "status": str(result.status),
        "outputs": {name: to_json(value) for name, value in result.outputs.items()},
        "errors": result.errors,
        "skipped": list(result.skipped),
        "waiting": result.waiting,
        "steps": {name: str(status) for name, status in result.steps.items()},
        "checkpoint_id": result.checkpoint_id,
        "checkpoint_ids": list(result.checkpoint_ids),
    }


def say_result(result: WorkflowResult) -> None:
    say(f"{styled(escape(result.agent_id), bold=True)}  {result.status}  {styled(result.checkpoint_id, fg='yellow')}")
    longest = max(map(len, result.steps), default=0)
    for name, status in result.steps.items():
        label = styled(f"{status:<8}", fg=_COLOURS.get(status))
        told = result.errors.get(name) or result.waiting.get(name) or _output(result, name)
        room = width()
        line = cut(escape(told), None if room is None else room - longest - 14)
        say(f"  {label}  {name.ljust(longest)}  {line}".rstrip())


def _output(result: WorkflowResult, name: str) -> str:
    return preview(result.outputs[name], _WIDTH) if result.outputs.get(name) is not None else ""

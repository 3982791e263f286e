"""Reading a workflow file: from YAML to a definition, with everything that is wrong told at once."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from holdfast.agents.workflow.checking import Placed, problems
from holdfast.agents.workflow.conditions import Condition, condition
from holdfast.agents.workflow.definition import ON_ERROR, STOP, Definition, Step
from holdfast.agents.workflow.document import BYTES_MAX, Node, read
from holdfast.agents.workflow.problems import invalid, near
from holdfast.agents.workflow.references import ENVIRONMENT, INPUT, NAME, references
from holdfast.agents.workflow.values import Values, shown

WORKFLOW_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_STEP_NAME: Final = re.compile(rf"(?=.{{1,100}}\Z){NAME}")
_TOP: Final = ("workflow", "steps")
_WORKFLOW: Final = ("name", "checkpoint")
_STEP: Final = (
    "name", "agent", "checkpoint", "inputs", "needs", "retry", "timeout_seconds", "when", "on_error",
)  # fmt: skip
_RETRY: Final = ("max_attempts", "delay_seconds")
_STEPS_MAX: Final = 1_000


def load(path: str | os.PathLike[str], agents: Collection[str] | None = None) -> Definition:
    """The workflow of a file. With `agents`, a step whose agent is none of these is a problem, too."""
    with Path(path).open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    return definition(data, str(path), agents)


def definition(data: bytes, source: str, agents: Collection[str] | None = None) -> Definition:
    """The workflow that these bytes define, or an `InvalidWorkflow` with all that is wrong with them."""
    reading = _Reading(source, agents)
    found = reading.workflow(read(data, source))
    if reading.problems:
        raise invalid(source, reading.problems)
    return found


class _Reading(Values):
    """One walk through a file's nodes, which goes on after a problem to find the others."""

    def __init__(self, source: str, agents: Collection[str] | None) -> None:
        super().__init__()
        self.source = source
        self.agents = agents

    def workflow(self, root: Node) -> Definition:
        top = self.mapping(root, "", _TOP)
        head = self.mapping(top["workflow"], "workflow", _WORKFLOW) if "workflow" in top else {}
        checkpoint = self.truth(head.get("checkpoint"), "workflow.checkpoint", default=True)
        name = self.name(head.get("name"), root)
        steps: list[Placed] = []
        if "steps" in top:
            listed = self.listed(top["steps"], "steps")
            for place, node in enumerate(listed[:_STEPS_MAX]):
                key, previous = f"steps[{place}]", steps[-1].step.name if steps else None
                step = self.step(node, key, previous, checkpoint=checkpoint)
                if step is not None:
                    steps.append(Placed(step, node, key))
            if len(listed) > _STEPS_MAX:
                self.problem(top["steps"], "steps", f"a workflow has at most {_STEPS_MAX:,} steps")
            elif not steps and not self.problems:
                self.problem(top["steps"], "steps", "there are no steps")
        elif isinstance(root.value, dict):
            self.problem(root, "steps", "a workflow needs a list of steps")
        self.problems.extend(problems(steps))
        return Definition(name=name, source=self.source, steps={placed.step.name: placed.step for placed in steps})

    def name(self, node: Node | None, root: Node) -> str:
        if node is None:
            name = Path(self.source).stem
            if not WORKFLOW_NAME.fullmatch(name):
                self.problem(root, "workflow.name", f"{name!r} is no name for a workflow; give it one")
            return name
        name = self.text(node, "workflow.name")
        if name and not WORKFLOW_NAME.fullmatch(name):
            self.problem(node, "workflow.name", "a name is made of letters, digits, `_`, `-` and `.`")
        return name

    def step(self, node: Node, key: str, previous: str | None, *, checkpoint: bool) -> Step | None:
        parts = self.mapping(node, key, _STEP)
        if "agent" not in parts and isinstance(node.value, dict):
            self.problem(node, f"{key}.agent", "a step needs this")
        named = parts.get("name", parts.get("agent"))
        if named is None:
            return None
        name = self.text(named, f"{key}.name")
        if name and (not _STEP_NAME.fullmatch(name) or name in (INPUT, ENVIRONMENT)):
            told = "is taken by references" if name in (INPUT, ENVIRONMENT) else "must be letters, digits, `_` and `-`"
            self.problem(named, f"{key}.name", f"{name!r} {told}")
        max_attempts, delay_seconds = self.retry(parts.get("retry"), f"{key}.retry")
        timeout = parts.get("timeout_seconds")
        return Step(
            name=name,
            agent=self.agent(parts.get("agent"), f"{key}.agent"),
            line=node.line,
            inputs=self.inputs(parts.get("inputs"), f"{key}.inputs"),
            needs=self.needs(parts.get("needs"), f"{key}.needs", previous),
            checkpoint=self.truth(parts.get("checkpoint"), f"{key}.checkpoint", default=checkpoint),
            max_attempts=max_attempts,
            delay_seconds=delay_seconds,
            timeout_seconds=None
            if timeout is None
            else self.seconds(timeout, f"{key}.timeout_seconds", above_zero=True),
            when=self.when(parts.get("when"), f"{key}.when"),
            on_error=self.on_error(parts.get("on_error"), f"{key}.on_error"),
        )

    def agent(self, node: Node | None, key: str) -> str:
        if node is None:
            return ""
        name = self.text(node, key)
        if name and self.agents is not None and name not in self.agents:
            self.problem(node, key, f"there is no agent {name!r}{near(name, self.agents)}")
        return name

    def inputs(self, node: Node | None, key: str) -> dict[str, Any]:
        if node is None:
            return {}
        inner = self.mapping(node, key, None)
        for name, value in inner.items():
            self.check_references(value, f"{key}.{name}")
        return {name: value.plain() for name, value in inner.items()}

    def check_references(self, node: Node, key: str) -> None:
        if isinstance(node.value, dict):
            for name, inner in node.value.items():
                self.check_references(inner, f"{key}.{name}")
        elif isinstance(node.value, list):
            for place, inner in enumerate(node.value):
                self.check_references(inner, f"{key}[{place}]")
        else:
            self.understood(node, key, lambda: list(references(node.value)))

    def needs(self, node: Node | None, key: str, previous: str | None) -> tuple[str, ...]:
        if node is None:
            return () if previous is None else (previous,)
        if isinstance(node.value, str):
            return (node.value,)
        return tuple(self.text(inner, f"{key}[{place}]") for place, inner in enumerate(self.listed(node, key)))

    def retry(self, node: Node | None, key: str) -> tuple[int, float]:
        parts = {} if node is None else self.mapping(node, key, _RETRY)
        attempts, delay = parts.get("max_attempts"), parts.get("delay_seconds")
        max_attempts = 1 if attempts is None else attempts.value
        if attempts is not None and (type(max_attempts) is not int or max_attempts < 1):
            self.problem(attempts, f"{key}.max_attempts", f"must be a whole number from 1 on, not {shown(attempts)}")
        return max_attempts, 0.0 if delay is None else self.seconds(delay, f"{key}.delay_seconds")

    def when(self, node: Node | None, key: str) -> Condition | None:
        if node is None:
            return None
        if isinstance(node.value, bool):
            return condition("true" if node.value else "false")
        text = self.text(node, key)
        return self.understood(node, key, lambda: condition(text)) if text else None

    def on_error(self, node: Node | None, key: str) -> str:
        if node is None:
            return STOP
        if node.value not in ON_ERROR:
            self.problem(node, key, f"must be {' or '.join(ON_ERROR)}, not {shown(node)}")
        return str(node.value)

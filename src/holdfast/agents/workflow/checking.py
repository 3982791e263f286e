"""What concerns several steps of a file: names that are used twice or not there, cycles, and what comes too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.agents.workflow import graph
from holdfast.agents.workflow.definition import Step
from holdfast.agents.workflow.document import Node
from holdfast.agents.workflow.problems import Problem, near
from holdfast.agents.workflow.references import Reference, references


class Placed(NamedTuple):
    """A step, and where the file has it."""

    step: Step
    node: Node
    key: str  # steps[2]

    def problem(self, part: str, message: str) -> Problem:
        """A problem with one key of the step, or with all of it where it has no such key."""
        at = self.node.value.get(part, self.node)
        return Problem(line=at.line, column=at.column, key=f"{self.key}.{part}", message=message)


def problems(steps: Sequence[Placed]) -> Iterator[Problem]:
    """Everything that is wrong between the steps."""
    first: dict[str, Placed] = {}
    for placed in steps:
        name = placed.step.name
        if name in first:
            yield placed.problem("name", f"there is a step {name!r} already, in line {first[name].step.line}")
        first.setdefault(name, placed)
    needs = {name: placed.step.needs for name, placed in first.items()}
    for placed in steps:
        for needed in placed.step.needs:
            if needed not in first:
                yield placed.problem("needs", f"there is no step {needed!r}{near(needed, first)}")
    if found := graph.cycle(needs):
        yield first[found[0]].problem("needs", f"a cycle: {' needs '.join([*found, found[0]])}")
        return
    for placed in first.values():
        yield from _too_late(placed, needs)


def _too_late(placed: Placed, needs: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Every step that a reference names exists, and is settled when this one begins."""
    name = placed.step.name
    settled = graph.before(name, needs)
    for reference in _named(placed.step):
        if not reference.is_step or reference.source in settled:
            continue
        if reference.source not in needs:
            told = f"there is no step {reference.source!r}{near(reference.source, needs)}"
        elif reference.source == name:
            told = "a step can't use what it gives itself"
        else:
            told = f"{name} does not need {reference.source}; add it to needs"
        at = _holding(placed.node, reference.text)
        yield Problem(line=at.line, column=at.column, key=placed.key, message=f"${{{reference.text}}}: {told}")


def _named(step: Step) -> Iterator[Reference]:
    """The references of a step, without those that can't be read, which were told already."""
    yield from _readable(step.inputs)
    if step.when is not None:
        yield from step.when.references


def _readable(value: Any) -> Iterator[Reference]:
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _readable(inner)
    else:
        with suppress(ValueError):
            yield from references(value)


def _holding(node: Node, text: str) -> Node:
    """The innermost node in which a reference is written."""
    inner = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    for one in inner:
        found = _holding(one, text)
        if isinstance(found.value, str) and text in found.value:
            return found
    return node

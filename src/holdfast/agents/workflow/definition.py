"""A workflow as its file defines it: steps, what each needs, and a digest of each by which a change is noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

from holdfast.agents.workflow.conditions import Condition
from holdfast.agents.workflow.references import ENVIRONMENT, Reference, references

STOP, CONTINUE = "stop", "continue"
ON_ERROR: Final = (STOP, CONTINUE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step: what an agent is asked to do, after which others, and what happens when it fails."""

    name: str
    agent: str
    line: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    checkpoint: bool = True
    max_attempts: int = 1
    delay_seconds: float = 0.0
    timeout_seconds: float | None = None
    when: Condition | None = None
    on_error: str = STOP

    @property
    def references(self) -> tuple[Reference, ...]:
        """Everything that its inputs and its condition name."""
        named = tuple(references(self.inputs))
        return named if self.when is None else (*named, *self.when.references)

    @property
    def digest(self) -> str:
        """A hash of all that the file says of this step, wherever it stands."""
        said = [
            self.name, self.agent, self.inputs, self.needs, self.checkpoint, self.max_attempts, self.delay_seconds,
            self.timeout_seconds, None if self.when is None else self.when.text, self.on_error,
        ]  # fmt: skip
        text = json.dumps(said, sort_keys=True, ensure_ascii=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A workflow that was found to be in order."""

    name: str
    source: str  # the file, as it was named
    steps: Mapping[str, Step]  # in the file's order

    @cached_property
    def digests(self) -> dict[str, str]:
        return {name: step.digest for name, step in self.steps.items()}

    def environment(self) -> set[str]:
        """The variables of the environment that its steps name."""
        return {
            str(reference.path[0])
            for step in self.steps.values()
            for reference in step.references
            if reference.source == ENVIRONMENT
        }


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Which steps are not as they were, by what happened to each: changed, added or removed."""
    found = {name: "changed" if name in now else "removed" for name in before if now.get(name) != before[name]}
    return found | {name: "added" for name in now if name not in before}

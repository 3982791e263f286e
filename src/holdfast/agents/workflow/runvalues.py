"""What references name while a workflow runs: its inputs, the steps that are settled, and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from holdfast.agents.workflow.state import Workflow
from holdfast.errors import InvalidArgument


class RunValues:
    """The values of one run. The environment is read when it is asked for, and never kept."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    def inputs(self) -> Mapping[str, Any]:
        return self._workflow.inputs

    def step(self, name: str, part: str) -> Any:
        state = self._workflow.steps[name]
        return str(state.status) if part == "status" else getattr(state, part)

    def environment(self, name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise InvalidArgument(f"${{env:{name}}}: the environment has no {name}")
        return value

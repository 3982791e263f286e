"""A folder of workflow files, and agents that note what they were asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent

from holdfast import CheckpointManager, WorkflowExecutor


class Notes:
    """Agents by name: `echo` gives its inputs back, `fail` fails as often as it is told to, `hang` never ends."""

    def __init__(self, failures=0):
        self.failures = failures
        self.contexts = []
        self.naps = []
        self.progress = []
        self.hanging = asyncio.Event()

    @property
    def done(self):
        return [context.step for context in self.contexts]

    async def echo(self, inputs, context):
        self.contexts.append(context)
        return inputs

    async def fail(self, inputs, context):
        self.contexts.append(context)
        if self.failures:
            self.failures -= 1
            raise ConnectionError(f"no answer to {inputs}")
        return "at last"

    async def hang(self, inputs, context):
        self.contexts.append(context)
        self.hanging.set()
        await asyncio.Event().wait()

    async def sleep(self, seconds):
        self.naps.append(seconds)

    def executor(self, manager=None, **agents):
        named = {"echo": self.echo, "fail": self.fail, "hang": self.hang, **agents}
        return WorkflowExecutor(named, manager or CheckpointManager(), progress=self.progress.append, sleep=self.sleep)


def written(folder: Path, text: str, name: str = "trip.yaml") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


async def states(manager, agent_id):
    """What the checkpoints of a run say, oldest first: status, and what began and ended."""
    listed = reversed(await manager.list_by_agent(agent_id))
    return [(one.status, one.metadata.get("began", []), one.metadata.get("ended", [])) for one in listed]

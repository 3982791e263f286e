"""Agents and a clock for the tests of the loop."""

from __future__ import annotations

import asyncio

from holdfast import CheckpointManager, InMemoryCheckpointStorage

HOUR = 3600.0
DAY = 24 * HOUR


class Clock:
    """A clock that only moves when somebody sleeps, or is told to; at some of its moments something happens."""

    def __init__(self):
        self.time = 0.0
        self.plans = []

    def now(self):
        return self.time

    def at(self, moment, do):
        """Calls this (plain or async) when the clock gets there."""
        self.plans.append((moment, len(self.plans), do))
        self.plans.sort()

    async def sleep(self, seconds):
        until = self.time + seconds
        while self.plans and self.plans[0][0] <= until:
            moment, _, do = self.plans.pop(0)
            self.time = max(self.time, moment)
            done = do()
            if asyncio.iscoroutine(done):
                await asyncio.shield(asyncio.ensure_future(done))  # a sleep may be cut short, a plan is carried out
            for _ in range(10):  # whom this woke comes first
                await asyncio.sleep(0)
        self.time = max(self.time, until)


class Counter:
    """Counts what it hears, writes down what it works on, and does as a message or task tells it."""

    def __init__(self, agent_id="ada", user_id="u"):
        self.agent_id, self.user_id, self.status = agent_id, user_id, "RUNNING"
        self.heard = []
        self.context = []  # what a refresh drops
        self.attempts = []

    def checkpoint_state(self):
        return {"heard": list(self.heard), "context": list(self.context)}

    def restore_state(self, state):
        self.heard, self.context = list(state["heard"]), list(state["context"])

    def refresh(self):
        self.context.clear()

    async def on_message(self, message, turn):
        self.attempts.append(turn.attempt)
        self.heard.append(message.content)
        self.context.append(message.content)
        do = getattr(self, f"do_{message.content}", None) if isinstance(message.content, str) else None
        if do is not None:
            return await do(turn)
        return None

    async def on_task(self, task, turn):
        self.context.append(task.name)
        if task.progress_percentage >= 75:
            self.heard.append(task.content)
            turn.complete(result=f"did {task.name}")
        else:
            turn.progress(task.progress_percentage + 25)


class Kinds:
    """What checkpoints a manager has saved, by kind, whether they are still there or not."""

    def __init__(self, manager):
        self.saved = []
        manager.on("checkpoint_saved", self.saved.append)

    def __call__(self, agent_id="ada"):
        kinds = [str(one.kind) for one in self.saved if one.agent_id == agent_id]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}

    def why(self, agent_id="ada", kind=None):
        found = [one for one in self.saved if one.agent_id == agent_id and kind in (None, one.kind)]
        return [one.metadata["loop"]["why"] for one in found]


def new_manager(*types):
    manager = CheckpointManager(InMemoryCheckpointStorage())
    for one in types or (Counter,):
        manager.register(one)
    return manager


async def until(true):
    """Lets the others go on until this is so."""
    while not await true():  # noqa: ASYNC110 - what it waits for has no event
        await asyncio.sleep(0)

"""Agents and programs for the tests of the orchestrator."""

from __future__ import annotations

import asyncio

from holdfast import AgentStatus, CheckpointManager, InputField, Orchestrator, StandardAgent
from tests.unit.agents.standard.samples import Approved, Booking

__all__ = ["Approved", "Booking", "Gate", "Killed", "Paying", "Weather", "gated", "started"]


class Weather(StandardAgent):
    """No field, one answer."""

    triggers = ("weather",)

    async def on_running(self, msg):
        return self.make_result(status=AgentStatus.COMPLETED, raw_message="sunny")


class Killed(BaseException):
    """Stands for the death of the process: nothing that Holdfast does may catch it."""


class Gate:
    """Where handlers wait, so that a test can look at them in the middle; what they did is written down."""

    def __init__(self):
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.effects = []

    async def passed(self, agent, msg):
        self.effects.append((agent.user_id, msg.content, msg.id, msg.attempt))
        self.reached.set()
        await self.open.wait()


class Paying(StandardAgent):
    """Asks for an amount, then pays it, which takes as long as the gate is shut."""

    gate: Gate
    amount = InputField("How much?", validator=int)

    async def on_running(self, msg):
        await self.gate.passed(self, msg)
        return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"paid {self.amount}")


def gated():
    """A gate, and a class whose agents wait there."""
    gate = Gate()
    return gate, type("Paying", (Paying,), {"gate": gate})


def started(storage, *classes, **options):
    """An orchestrator as a process that has just been started makes it."""
    return Orchestrator(classes or [Booking, Weather], CheckpointManager(storage), **options)

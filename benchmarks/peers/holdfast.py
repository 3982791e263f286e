"""Holdfast itself, as one way among the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from benchmarks import heap
from benchmarks.keeping import manager_at
from benchmarks.peers.peer import TALKER, Peer
from benchmarks.peers.program import NAME, Program
from benchmarks.talker import Talker
from benchmarks.words import Message
from holdfast import PythonRunner, RunResult, SQLiteCheckpointStorage, Tool


class Holdfast(Peer):
    """A manager on SQLite; the agents stay in memory, as they do in a program."""

    goes_back: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._agents: dict[str, Talker] = {}
        self._ids: list[str] = []

    async def open(self, path: Path) -> None:
        self.path = path
        self.manager = await self._open.enter_async_context(manager_at(path / "checkpoints.db"))

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        agent = self._agents.setdefault(talker, Talker(talker))
        agent.messages += messages[len(agent.messages) :]
        self._ids.append(await self.manager.save(agent))

    async def newest(self, talker: str = TALKER) -> list[Message]:
        checkpoint = await self.manager.latest(talker)
        return [] if checkpoint is None else (await self.manager.load(checkpoint.id)).state["messages"]

    async def at(self, count: int) -> list[Message]:
        return (await self.manager.load(self._ids[count - 1])).state["messages"]

    async def latest_50(self) -> int:
        return len(await self.manager.list_by_agent(TALKER, limit=50))


class Sandboxed(Program):
    """A program of `run_python`, with so much on its heap: what is stored are its calls, and snapshots of it."""

    interrupted = "the program is told"
    kilobytes: ClassVar[float] = 60

    def run(self, calls: int) -> None:
        code = (
            heap.holding(self.kilobytes)
            + heap.calling(calls)
            + "\ntry:\n    last()\nexcept RuntimeError:\n    arrived()"
        )
        asyncio.run(self._with_runner(lambda runner: runner.run(NAME, code, NAME)))

    def go_on(self, calls: int) -> None:
        asyncio.run(self._with_runner(lambda runner: runner.recover(NAME)))

    async def _with_runner(self, work: Callable[[PythonRunner], Awaitable[RunResult | list[RunResult]]]) -> None:
        note, last = self.note, self.last

        def arrived() -> None:
            last()

        storage = SQLiteCheckpointStorage(self.path / "checkpoints.db")
        async with PythonRunner(storage, tools=[Tool(note, name="note"), Tool(last, name="last"), arrived]) as runner:
            done = await work(runner)
        for result in done if isinstance(done, list) else [done]:
            if result.is_error:
                raise RuntimeError(result.error)


class LargeSandboxed(Sandboxed):
    """The same with more on its heap."""

    kilobytes: ClassVar[float] = 1100

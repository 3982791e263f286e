"""Holdfast itself, as one way among the others."""

from __future__ import annotations

from pathlib import Path

from benchmarks.keeping import manager_at
from benchmarks.peers.peer import TALKER, Peer
from benchmarks.talker import Talker
from benchmarks.words import Message


class Holdfast(Peer):
    """A manager on SQLite; the agents stay in memory, as they do in a program."""

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
        return [] if checkpoint is None else checkpoint.state["messages"]

    async def at(self, count: int) -> list[Message] | None:
        return (await self.manager.load(self._ids[count - 1])).state["messages"]

    async def latest_50(self) -> int | None:
        return len(await self.manager.list_by_agent(TALKER, limit=50))

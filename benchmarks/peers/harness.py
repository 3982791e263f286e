"""Pydantic AI's StepPersistence on SQLite: a snapshot of the messages after each of them.

Its store is used as the capability uses it. It takes a path, and connects for each operation, or a connection of the
caller's, which is quicker; both are as durable here (WAL, synchronous=FULL).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.peer import TALKER, Peer
from benchmarks.peers.program import NAME, Program
from benchmarks.words import Message


def connected(path: Path) -> sqlite3.Connection:
    """A connection as its documents ask for."""
    connection = sqlite3.connect(path / "peer.db", check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


class Snapshots(Peer):
    """With a connection that stays open. Its threads share it, so one save at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, list[Any]] = {}

    async def open(self, path: Path) -> None:
        self.path = path
        self.store = self._store(path)

    def _store(self, path: Path) -> Any:
        from pydantic_ai_harness.step_persistence import SqliteStepStore

        connection = connected(path)
        self._open.callback(connection.close)
        return SqliteStepStore(connection=connection)

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord

        if talker not in self._made:
            self._made[talker] = []
            await self.store.register_run(RunRecord(run_id=talker))
        made = self._made[talker]
        made += [_theirs(message) for message in messages[len(made) :]]
        await self.store.save_snapshot(
            ContinuableSnapshot(run_id=talker, step_index=len(messages), messages=list(made))
        )

    async def newest(self, talker: str = TALKER) -> list[Message]:
        found = await self.store.latest_snapshot(run_id=talker)
        return [_ours(message) for message in found.messages]


class SnapshotsByPath(Snapshots):
    """With the path of a database: the shortest way in its documents."""

    def _store(self, path: Path) -> Any:
        from pydantic_ai_harness.step_persistence import SqliteStepStore

        connected(path).close()  # in WAL mode from the start: many first connections at once can't agree on it
        return SqliteStepStore(database=path / "peer.db")


def _theirs(message: Message) -> Any:
    """What the model said is a response, everything else a request. What is more than a text goes along as JSON."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    text = message["content"] if _is_plain(message) else json.dumps(message)
    if message["role"] == "assistant":
        return ModelResponse(parts=[TextPart(content=text)])
    return ModelRequest(parts=[UserPromptPart(content=text)])


def _ours(message: Any) -> Message:
    text = message.parts[0].content
    if text.startswith("{"):
        return json.loads(text)
    return {"role": "assistant" if message.kind == "response" else "user", "content": text}


def _is_plain(message: Message) -> bool:
    text = message.get("content")
    return (
        message.keys() == {"role", "content"}
        and message["role"] in ("user", "assistant")
        and isinstance(text, str)
        and not text.startswith("{")
    )


class Conversation(Program):
    """An agent with StepPersistence and a scripted model that asks for each call. After a restart the newest snapshot
    of its messages goes to the model again.
    """

    persistent: ClassVar[bool] = True

    @classmethod
    def without(cls) -> type[Program] | None:
        return Forgetful

    def run(self, calls: int) -> None:
        asyncio.run(self._ask(calls, "Begin.", None))

    def go_on(self, calls: int) -> None:
        asyncio.run(self._continue(calls))

    async def _continue(self, calls: int) -> None:
        from pydantic_ai_harness.step_persistence import SqliteStepStore

        connection = connected(self.path)
        snapshot = await SqliteStepStore(connection=connection).latest_snapshot(run_id=NAME)
        connection.close()
        await self._ask(calls, None, snapshot.messages if snapshot else None)

    async def _ask(self, calls: int, prompt: str | None, history: Any) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.usage import UsageLimits
        from pydantic_ai_harness.step_persistence import SqliteStepStore, StepPersistence

        def answer(messages: list[Any], _: Any) -> Any:
            done = len(messages) // 2  # a request and a response for each call
            if done > calls:
                return ModelResponse(parts=[TextPart("Done.")])
            call = ToolCallPart("note", {"number": done}) if done < calls else ToolCallPart("last", {})
            return ModelResponse(parts=[call])

        connection = connected(self.path)
        keeping = StepPersistence(
            store=SqliteStepStore(connection=connection), run_id=NAME if history is None else f"{NAME}, on"
        )
        agent = Agent(FunctionModel(answer), capabilities=[keeping] if self.persistent else [])
        agent.tool_plain(self.note, name="note")
        agent.tool_plain(self.last, name="last")
        await agent.run(prompt, message_history=history, usage_limits=UsageLimits(request_limit=None))
        connection.close()


class Forgetful(Conversation):
    """The same agent without StepPersistence: what is left is what the other costs."""

    persistent: ClassVar[bool] = False

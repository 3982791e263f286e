"""LangGraph's ways of keeping a conversation in SQLite, one checkpoint for each message, as its documents describe.

They share the file: WAL is what the savers set; synchronous=FULL is set here, whatever the default of the machine's
SQLite is, so that all are equally durable.
"""

from __future__ import annotations

import operator
import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

from benchmarks.peers.peer import TALKER, Peer
from benchmarks.peers.program import NAME, Program
from benchmarks.words import Message


class Saver(Peer):
    """The saver alone: a checkpoint with all messages so far."""

    goes_back: ClassVar[bool] = True
    lists: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.configs: dict[str, Any] = {}
        self.saved: list[Any] = []

    async def open(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.path = path
        self.saver = self._open.enter_context(SqliteSaver.from_conn_string(str(path / "peer.db")))
        self.saver.setup()
        self.synchronous = self.saver.conn.execute("PRAGMA synchronous").fetchone()[0]
        self.saver.conn.execute("PRAGMA synchronous=FULL")

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        config = self.configs.get(talker) or _thread(talker)
        self.configs[talker] = self.saver.put(config, _checkpoint(messages), _metadata(messages), {})
        self.saved.append(self.configs[talker])

    async def newest(self, talker: str = TALKER) -> list[Message]:
        return self.saver.get(_thread(talker))["channel_values"]["messages"]  # type: ignore[no-any-return, index, unused-ignore]

    async def at(self, count: int) -> list[Message]:
        return self.saver.get(self.saved[count - 1])["channel_values"]["messages"]  # type: ignore[no-any-return, index, unused-ignore]

    async def latest_50(self) -> int:
        return len(list(self.saver.list(_thread(TALKER), limit=50)))


class AsyncSaver(Saver):
    """The same through aiosqlite."""

    async def open(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self.path = path
        self.saver = await self._open.enter_async_context(AsyncSqliteSaver.from_conn_string(str(path / "peer.db")))
        await self.saver.setup()
        async with self.saver.conn.execute("PRAGMA synchronous") as cursor:
            self.synchronous = (await cursor.fetchone())[0]
        await self.saver.conn.execute("PRAGMA synchronous=FULL")

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        config = self.configs.get(talker) or _thread(talker)
        self.configs[talker] = await self.saver.aput(config, _checkpoint(messages), _metadata(messages), {})
        self.saved.append(self.configs[talker])

    async def newest(self, talker: str = TALKER) -> list[Message]:
        return await self._messages(_thread(talker))

    async def at(self, count: int) -> list[Message]:
        return await self._messages(self.saved[count - 1])

    async def latest_50(self) -> int:
        return len([found async for found in self.saver.alist(_thread(TALKER), limit=50)])

    async def _messages(self, config: Any) -> list[Message]:
        found = await self.saver.aget(config)
        return found["channel_values"]["messages"]  # type: ignore[no-any-return, index, unused-ignore]


class _Whole(TypedDict):
    messages: Annotated[list[Message], operator.add]


class Graph(Saver):
    """A graph's state with a reducer: `update_state` makes one checkpoint for each message."""

    def state(self) -> Any:
        return _Whole

    async def open(self, path: Path) -> None:
        from langgraph.graph import END, START, StateGraph

        await super().open(path)
        builder = StateGraph(self.state())
        builder.add_node("say", lambda _: {})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        self.graph = builder.compile(checkpointer=self.saver)

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        # Wrapped, because a dict that looks like a message would come back as an object of LangChain's.
        thread: Any = {"configurable": {"thread_id": talker}}
        self.saved.append(self.graph.update_state(thread, {"messages": [{"said": messages[-1]}]}, as_node="say"))

    async def newest(self, talker: str = TALKER) -> list[Message]:
        return self._messages({"configurable": {"thread_id": talker}})

    async def at(self, count: int) -> list[Message]:
        return self._messages(self.saved[count - 1])

    async def latest_50(self) -> int:
        thread: Any = {"configurable": {"thread_id": TALKER}}
        return len(list(islice(self.graph.get_state_history(thread, limit=50), 50)))

    def _messages(self, config: Any) -> list[Message]:
        return [wrapped["said"] for wrapped in self.graph.get_state(config).values["messages"]]


class DeltaGraph(Graph):
    """The same with a channel that stores what was added, and the whole every 100 updates (its default)."""

    def state(self) -> Any:
        from langgraph.channels.delta import DeltaChannel

        annotated: Any = Annotated[list[Message], DeltaChannel(_extended)]
        return TypedDict("Delta", {"messages": annotated})  # type: ignore[operator]


def _extended(messages: list[Message] | None, writes: list[list[Message]]) -> list[Message]:
    return [*(messages or []), *(message for write in writes for message in write)]


def _thread(talker: str) -> Any:
    return {"configurable": {"thread_id": talker, "checkpoint_ns": ""}}


def _checkpoint(messages: list[Message]) -> Any:
    from langgraph.checkpoint.base import empty_checkpoint

    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": len(messages)}
    return checkpoint


def _metadata(messages: list[Message]) -> Any:
    return {"source": "loop", "step": len(messages), "parents": {}}


class Tasks(Program):
    """An entrypoint that calls tasks (the functional API), durability="sync". After a restart it runs from its
    beginning, and is given stored results.
    """

    def run(self, calls: int) -> None:
        self._invoke(calls, {})

    def go_on(self, calls: int) -> None:
        self._invoke(calls, None)

    def stored(self) -> int | None:
        with closing(sqlite3.connect(self.path / "peer.db")) as database:
            [count] = database.execute("SELECT count(*) FROM writes WHERE channel = '__return__'").fetchone()
        return count

    def _invoke(self, calls: int, given: Any) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.func import entrypoint, task

        with SqliteSaver.from_conn_string(str(self.path / "peer.db")) as saver:
            saver.setup()
            saver.conn.execute("PRAGMA synchronous=FULL")
            note, last = task(self.note, name="note"), task(self.last, name="last")

            @entrypoint(checkpointer=saver)
            def program(_: dict[str, Any]) -> int:
                told = [note(number).result() for number in range(calls)]
                last().result()
                return len(told)

            program.invoke(given, {"configurable": {"thread_id": NAME}}, durability="sync")

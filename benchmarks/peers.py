"""LangGraph's ways of keeping a conversation in SQLite, one checkpoint for each message, as its documents describe.

They share the file: WAL is what the savers set; synchronous=FULL is set here, whatever the default of the machine's
SQLite is, so that all are equally durable.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.words import Message

_THREAD: Any = {"configurable": {"thread_id": "talker", "checkpoint_ns": ""}}


class Peer(ABC):
    """A store of one conversation, kept another way."""

    synchronous = 2  # what its connection had before FULL (2) was set

    def __init__(self) -> None:
        self._open = AsyncExitStack()

    @abstractmethod
    async def open(self, path: Path) -> None: ...

    @abstractmethod
    async def save(self, messages: list[Message]) -> None:
        """Saves after the last of these messages."""

    @abstractmethod
    async def newest(self) -> list[Message]:
        """The messages of its newest checkpoint."""

    async def close(self) -> None:
        await self._open.aclose()


def installed() -> str | None:
    """The version of LangGraph, if it is here."""
    try:
        version("langgraph-checkpoint-sqlite")
        return version("langgraph")
    except PackageNotFoundError:
        return None


def peers() -> dict[str, Callable[[], Peer]]:
    """Every way that the installed LangGraph has, by name."""
    if installed() is None:
        return {}
    found: dict[str, Callable[[], Peer]] = {
        "LangGraph SqliteSaver": Saver,
        "LangGraph AsyncSqliteSaver": AsyncSaver,
        "LangGraph graph + SQLite": Graph,
    }
    if find_spec("langgraph.channels.delta") is not None:
        found["LangGraph graph + SQLite + DeltaChannel (beta)"] = DeltaGraph
    return found


async def keep_with(peer: Peer, path: Path, messages: list[Message]) -> None:
    """Saves a whole conversation and closes."""
    await peer.open(path)
    for count in range(1, len(messages) + 1):
        await peer.save(messages[:count])
    await peer.close()


class Saver(Peer):
    """The saver alone: a checkpoint with all messages so far."""

    async def open(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.saver = self._open.enter_context(SqliteSaver.from_conn_string(str(path / "peer.db")))
        self.saver.setup()
        self.synchronous = self.saver.conn.execute("PRAGMA synchronous").fetchone()[0]
        self.saver.conn.execute("PRAGMA synchronous=FULL")
        self.config = _THREAD

    async def save(self, messages: list[Message]) -> None:
        self.config = self.saver.put(self.config, _checkpoint(messages), _metadata(messages), {})

    async def newest(self) -> list[Message]:
        return self.saver.get(_THREAD)["channel_values"]["messages"]  # type: ignore[no-any-return, index, unused-ignore]


class AsyncSaver(Peer):
    """The same through aiosqlite."""

    async def open(self, path: Path) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self.saver = await self._open.enter_async_context(AsyncSqliteSaver.from_conn_string(str(path / "peer.db")))
        await self.saver.setup()
        async with self.saver.conn.execute("PRAGMA synchronous") as cursor:
            self.synchronous = (await cursor.fetchone())[0]
        await self.saver.conn.execute("PRAGMA synchronous=FULL")
        self.config = _THREAD

    async def save(self, messages: list[Message]) -> None:
        self.config = await self.saver.aput(self.config, _checkpoint(messages), _metadata(messages), {})

    async def newest(self) -> list[Message]:
        found = await self.saver.aget(_THREAD)
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
        self.thread: Any = {"configurable": {"thread_id": "talker"}}

    async def save(self, messages: list[Message]) -> None:
        # Wrapped, because a dict that looks like a message would come back as an object of LangChain's.
        self.graph.update_state(self.thread, {"messages": [{"said": messages[-1]}]}, as_node="say")

    async def newest(self) -> list[Message]:
        return [wrapped["said"] for wrapped in self.graph.get_state(self.thread).values["messages"]]


class DeltaGraph(Graph):
    """The same with a channel that stores what was added, and the whole every 100 updates (its default)."""

    def state(self) -> Any:
        from langgraph.channels.delta import DeltaChannel

        annotated: Any = Annotated[list[Message], DeltaChannel(_extended)]
        return TypedDict("Delta", {"messages": annotated})  # type: ignore[operator]


def _extended(messages: list[Message] | None, writes: list[list[Message]]) -> list[Message]:
    return [*(messages or []), *(message for write in writes for message in write)]


def _checkpoint(messages: list[Message]) -> Any:
    from langgraph.checkpoint.base import empty_checkpoint

    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": len(messages)}
    return checkpoint


def _metadata(messages: list[Message]) -> Any:
    return {"source": "loop", "step": len(messages), "parents": {}}

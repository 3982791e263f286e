"""LangGraph's ways of keeping a conversation in SQLite, one checkpoint for each message, as its documents describe.

They share the file: WAL is what the savers set; synchronous=FULL is set here, whatever the default of the machine's
SQLite is, so that all are equally durable.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.pairs import Pairs
from benchmarks.words import Message

_THREAD = {"configurable": {"thread_id": "talker", "checkpoint_ns": ""}}


@dataclass(kw_only=True)
class Kept:
    """What a peer did: which messages its newest checkpoint has, how its connection was set."""

    newest: list[Message] = field(default_factory=list)
    synchronous: int = 2  # before this benchmark set it to FULL (2)


Peer = Callable[[Path, list[Message], Pairs], Kept]


def installed() -> str | None:
    """The version of LangGraph, if it is here."""
    try:
        version("langgraph-checkpoint-sqlite")
        return version("langgraph")
    except PackageNotFoundError:
        return None


def peers() -> Iterator[tuple[str, Peer]]:
    """Every way that the installed LangGraph has, by name."""
    if installed() is None:
        return
    yield "LangGraph SqliteSaver", saver
    yield "LangGraph AsyncSqliteSaver", lambda *given: asyncio.run(async_saver(*given))
    yield "LangGraph graph + SQLite", graph
    if find_spec("langgraph.channels.delta") is not None:
        yield "LangGraph graph + SQLite + DeltaChannel (beta)", delta_graph


def saver(path: Path, messages: list[Message], pairs: Pairs) -> Kept:
    """The saver alone: a checkpoint with all messages so far."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    kept = Kept()
    with SqliteSaver.from_conn_string(str(path / "peer.db")) as saver:
        saver.setup()
        kept.synchronous = _made_full(saver.conn)
        config: Any = _THREAD
        for count in range(1, len(messages) + 1):
            with pairs.save():
                config = saver.put(config, _checkpoint(messages[:count], count), _metadata(count), {})
        kept.newest = saver.get(_THREAD)["channel_values"]["messages"]
    return kept


async def async_saver(path: Path, messages: list[Message], pairs: Pairs) -> Kept:
    """The same through aiosqlite."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    kept = Kept()
    async with AsyncSqliteSaver.from_conn_string(str(path / "peer.db")) as saver:
        await saver.setup()
        async with saver.conn.execute("PRAGMA synchronous") as cursor:
            kept.synchronous = (await cursor.fetchone())[0]
        await saver.conn.execute("PRAGMA synchronous=FULL")
        config: Any = _THREAD
        for count in range(1, len(messages) + 1):
            with pairs.save():
                config = await saver.aput(config, _checkpoint(messages[:count], count), _metadata(count), {})
        kept.newest = (await saver.aget(_THREAD))["channel_values"]["messages"]
    return kept


class _Whole(TypedDict):
    messages: Annotated[list[Message], operator.add]


def graph(path: Path, messages: list[Message], pairs: Pairs) -> Kept:
    """A graph's state with a reducer: `update_state` makes one checkpoint for each message."""
    return _through_graph(_Whole, path, messages, pairs)


def delta_graph(path: Path, messages: list[Message], pairs: Pairs) -> Kept:
    """The same with a channel that stores what was added, and the whole every 100 updates (its default)."""
    from langgraph.channels.delta import DeltaChannel

    annotated: Any = Annotated[list[Message], DeltaChannel(_extended)]
    return _through_graph(TypedDict("Delta", {"messages": annotated}), path, messages, pairs)  # type: ignore[operator]


def _extended(messages: list[Message] | None, writes: list[list[Message]]) -> list[Message]:
    return [*(messages or []), *(message for write in writes for message in write)]


def _through_graph(state: Any, path: Path, messages: list[Message], pairs: Pairs) -> Kept:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    kept = Kept()
    with SqliteSaver.from_conn_string(str(path / "peer.db")) as saver:
        saver.setup()
        kept.synchronous = _made_full(saver.conn)
        builder = StateGraph(state)
        builder.add_node("say", lambda _: {})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        compiled = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "talker"}}
        for message in messages:
            with pairs.save():
                # Wrapped, because a dict that looks like a message would come back as an object of LangChain's.
                compiled.update_state(config, {"messages": [{"said": message}]}, as_node="say")
        kept.newest = [wrapped["said"] for wrapped in compiled.get_state(config).values["messages"]]
    return kept


def _made_full(connection: Any) -> int:
    before: int = connection.execute("PRAGMA synchronous").fetchone()[0]
    connection.execute("PRAGMA synchronous=FULL")
    return before


def _checkpoint(messages: list[Message], number: int) -> Any:
    from langgraph.checkpoint.base import empty_checkpoint

    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": number}
    return checkpoint


def _metadata(number: int) -> Any:
    return {"source": "loop", "step": number, "parents": {}}

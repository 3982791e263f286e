"""A store, a model that says what a script tells it through the real client, and agents that talk to it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.model.agent import ModelAgent
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.openai_server import Fails, Says, Server, answered, serving


class Killed(BaseException):
    """What stands for the death of the process in these tests: nothing catches it, and the rest stays as it was."""


class Slept:
    """A clock that nobody waits for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointStorage]:
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    yield store
    await store.close()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Starts a server that gives one answer after the other; which one, the request says."""
    with ExitStack() as stack:

        def start(*answers: Says | Fails, script: Any = None) -> Server:
            server = stack.enter_context(serving(script or (lambda request: answers[answered(request)])))
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            return server

        yield start


@pytest.fixture
async def agent_with(store: SQLiteCheckpointStorage) -> AsyncIterator[Callable[..., ModelAgent]]:
    """Makes agents on the store; each is like a process of its own."""
    made: list[ModelAgent] = []

    def make(*tools: Any, **options: Any) -> ModelAgent:
        options = {"storage": store, "agent_id": "a", "run_python": False, "sleep": Slept(), **options}
        agent = ModelAgent(options.pop("model", "openai-chat:gpt-5"), tools, **options)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        if agent._own_runner is not None:
            await agent._own_runner._executor.seats.close()


def types(records: list[Any]) -> list[str]:
    return [record.type for record in records]


def results(request: dict[str, Any]) -> list[tuple[str, str]]:
    """The results of tool calls that a request tells the model of, in its order."""
    return [(one["tool_call_id"], one["content"]) for one in request["messages"] if one["role"] == "tool"]


def errors(request: dict[str, Any]) -> list[str]:
    """The same for calls that failed: what the model is told of them."""
    return [json.loads(content)["error"] for _, content in results(request)]


async def until(condition: Callable[[], Any]) -> None:
    """Lets others run until something is so; it may be asked with an await."""
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        await asyncio.sleep(0.002)

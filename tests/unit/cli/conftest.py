"""A store to look at, and the command line run in this process as its user would."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import CheckpointManager, FileCheckpointStorage, PythonRunner, SQLiteCheckpointStorage, Tool
from holdfast.cli.app import main
from holdfast.durable.runs.journal import Journal
from holdfast.history.records import AssistantMessage, RlmStart, RlmToolCall, UserMessage


class Trip:
    """A small agent."""

    def __init__(self, agent_id: str, user_id: str) -> None:
        self.agent_id, self.user_id, self.status = agent_id, user_id, "RUNNING"
        self.messages: list[dict[str, Any]] = []
        self.guests = 2

    def checkpoint_state(self) -> dict[str, Any]:
        return {"guests": self.guests, "messages": self.messages}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.guests, self.messages = state["guests"], state["messages"]


@dataclass
class Ran:
    code: int
    out: str
    err: str


class Clock:
    """Noon, and a minute later each time it is asked."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(minutes=1)
        return self.moment


@pytest.fixture
def holdfast(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_STORE", "HOLDFAST_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """The checkpoints of `checkpoints.db`, which this makes, oldest first.

    trip-1 has 1 2 3 (4 5 deleted) 6, where 6 is pinned, and a branch 7 8 from 2; trip-2 is a fork (9) of 8; bob has 10.
    """
    return asyncio.run(_fill(CheckpointManager(SQLiteCheckpointStorage(tmp_path / "checkpoints.db"), now=Clock())))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two agents of two users in files."""
    asyncio.run(_fill_folder(tmp_path / "files"))
    return tmp_path / "files"


TOOLS = """\
from pathlib import Path

def find(city: str) -> list[str]:
    \"\"\"Finds hotels.\"\"\"
    return [f"{city} Ritz", f"{city} Plaza"]

async def pay(hotel: str) -> str:
    with Path("paid.txt").open("a") as file:
        file.write(hotel + "\\n")
    return "paid " + hotel

def refuse() -> None:
    raise ValueError("full")
"""
BOOK = """\
print("looking")
for hotel in find("Rome"):
    print(await pay(hotel))
try:
    refuse()
except ValueError as error:
    print("refused:", error)
"booked"
"""


@pytest.fixture
def programs(holdfast: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Writes files into the working directory; `book.py` and `tools.py` are there. What they import is forgotten."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = set(sys.modules)

    def forget() -> None:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]

    def write(**texts: str) -> None:
        forget()
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)

    write(book=BOOK, tools=TOOLS)
    yield write
    forget()


@pytest.fixture
def left_behind(holdfast: object, tmp_path: Path) -> Callable[..., None]:
    """Begins a program whose process dies in the tool `dies`, as far as a process can die here."""

    def begin(code: str, agent_id: str = "trip", name: str = "trip", **options: Any) -> None:
        with suppress(Died):
            asyncio.run(_begun(tmp_path / "checkpoints.db", agent_id, code, name, options))

    return begin


class Died(BaseException):
    """What stands for the death of the process."""


async def _begun(path: Path, agent_id: str, code: str, name: str, options: dict[str, Any]) -> None:
    def find(city: str) -> list[str]:
        return [city]

    async def pay(hotel: str) -> str:
        raise Died

    def refuse() -> None: ...

    tools = [find, Tool(pay, on_restart="retry") if options.pop("retried", False) else pay, refuse]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "release", lambda self: asyncio.sleep(0))  # the dead let go of nothing
        async with PythonRunner(SQLiteCheckpointStorage(path), tools) as runner:
            await runner.run(agent_id, code, name, **options)


def timeless(text: str) -> str:
    """The text without times, chance, and the snapshots that are kept when there is time for them."""
    text = re.sub(r", snapshot$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
    return re.sub(r"(?<=agent book-)[0-9a-z]{6}\b", "<id>", text)


async def _fill(manager: CheckpointManager) -> list[str]:
    made: list[str] = []
    async with manager:
        manager.register(Trip)
        trip = Trip("trip-1", "ada")
        for number in range(6):
            trip.messages.append({"role": "user", "content": f"message {number}"})
            made.append(await manager.save(trip, kind="auto", pinned=number == 5))
        again = await manager.restore(made[1])
        again.guests, again.status = 5, "WAITING_FOR_INPUT"
        made += [await manager.save(again), await manager.save(again, kind="routine")]
        for checkpoint_id in made[3:5]:
            await manager.delete(checkpoint_id)
        await manager.fork(made[7], "trip-2")
        made.append((await manager.list_by_agent("trip-2"))[0].id)
        await manager.append("trip-2", *_talk(), user_id="ada")
        made.append(await manager.save(Trip("bob's", "bob")))
    return made


def _talk() -> list[Any]:
    call = {"id": "call_1", "name": "run_python", "arguments": {"code": "book()"}}
    return [
        UserMessage(content="Book it.\x1b[31m"),
        AssistantMessage(content="", tool_calls=[call]),
        RlmStart(tool_call_id="call_1", code="book()"),
        RlmToolCall(
            tool_call_id="call_1", call_id=1, snapshot=b"bytes", print_output="", tool_call_count=1, tool_name="book",
            tool_args={},
        ),
    ]  # fmt: skip


async def _fill_folder(path: Path) -> None:
    async with CheckpointManager(FileCheckpointStorage(path), now=Clock()) as manager:
        for agent_id, user_id in (("one", "ada"), ("two", "bob")):
            trip = Trip(agent_id, user_id)
            await manager.save(trip)
            trip.guests = 3
            await manager.save(trip)


def plain(text: str, ids: list[str]) -> str:
    """The text with ids as chk_01, chk_02 …, as wide as they were, and without what differs each time."""
    for number, checkpoint_id in enumerate(ids, start=1):
        text = text.replace(checkpoint_id, f"chk_{number:02}".ljust(len(checkpoint_id), "."))
    return re.sub(r"[0-9a-f]{64}", "<digest>", text)

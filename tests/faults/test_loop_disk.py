"""A disk that fails or is full while a loop runs: it goes on when the disk does, and nothing counts twice."""

from __future__ import annotations

import apsw
import pytest

from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from holdfast.durable.manager import CheckpointManager
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.vfs import FaultyVFS
from tests.unit.agents.loop.samples import Clock, Counter

pytestmark = [pytest.mark.faults, pytest.mark.slow]

WORDS = [f"word {n}" for n in range(4)]


class Deploying(Counter):
    async def on_message(self, message, turn):
        async with turn.operation("deploy"):
            self.heard.append(message.content)
        turn.send("bob", message.content)

    def on_interrupted(self, checkpoint, turn):
        assert checkpoint.operation == "deploy"


async def lived(path, vfs, fault):
    """A loop whose disk fails and is mended a minute later; what it heard, and what bob was sent."""
    store = SQLiteCheckpointStorage(path, vfs=vfs.name)
    clock = Clock()
    async with CheckpointManager(store) as manager:
        manager.register(Deploying)
        loop = AgentLoop(Deploying(), manager, clock=clock, idle_seconds=20, routine_seconds=100)
        await loop.tasks.add("count", content="task")
        for word in WORDS[:2]:
            await loop.mailbox.send(word, sender="eve")
        broken = []

        async def send_the_rest():
            for word in WORDS[2:]:
                await loop.mailbox.send(word, sender="eve")
            fault()

        def mend():
            vfs.mend()
            broken.append(vfs.failed)

        clock.at(3.5, send_the_rest)
        clock.at(60, mend)
        clock.at(200, loop.stop)
        ended = await loop.run()
        sent = [message.content for message in await Mailbox(manager, "bob").receive()]
        assert (await manager.load(ended.checkpoint_id)).state["heard"] == loop.agent.heard
        assert (await manager.verify()).ok
        assert await manager.interrupted_operations() == []
        return loop.agent.heard, sent


# What fails while SQLite closes its file has no caller to tell, so apsw hands it to the interpreter.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stays", [False, True])
async def test_an_io_error_anywhere_is_survived_and_every_message_counts_once(tmp_path, stays):
    vfs = FaultyVFS()
    failures = 0
    for n in range(1, 70, 9):
        before = vfs.failed
        heard, sent = await lived(tmp_path / f"{n}.db", vfs, lambda n=n: vfs.break_after(n, stays=stays))
        assert [word for word in heard if word != "task"] == WORDS
        assert heard.count("task") == 1
        assert sent == WORDS
        failures += vfs.failed > before
    assert failures > 4


async def test_a_full_disk_is_survived(tmp_path):
    vfs = FaultyVFS(lambda: apsw.FullError("database or disk is full"))
    ask = vfs.ask
    vfs.ask = lambda what: ask(what) if what == "write" else None  # only what makes a file grow fails on a full disk
    for n in range(1, 20, 5):
        heard, sent = await lived(tmp_path / f"{n}.db", vfs, lambda n=n: vfs.break_after(n, stays=True))
        assert [word for word in heard if word != "task"] == WORDS
        assert sent == WORDS
    assert vfs.failed

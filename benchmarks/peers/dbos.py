"""DBOS on SQLite: a conversation is a workflow, and each message is what one of its steps returned.

Its own engine leaves SQLite's rollback journal in place, as durable and slower than a log; `LoggedSteps` hands it an
engine in WAL mode (`system_database_engine` is its documented way), otherwise set up like its own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.disk import bytes_in
from benchmarks.peers.peer import TALKER, Peer
from benchmarks.peers.program import NAME, Program
from benchmarks.words import Message


def configuration(path: Path, **more: Any) -> Any:
    """Nothing that takes time beside the steps: no exporters, errors only. One version, so that it recovers."""
    return {
        "name": "bench", "application_version": "1", "enable_otlp": False, "log_level": "ERROR",
        "system_database_url": f"sqlite:///{path / 'peer.db'}", **more,
    }  # fmt: skip


def logged(path: Path) -> Any:
    """An engine like DBOS's own, with a write-ahead log."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"sqlite:///{path / 'peer.db'}")

    @sqlalchemy.event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")

    return engine


class Steps(Peer):
    """A step's result is kept once; a state is what the workflow makes of the results when it is run again."""

    keeps_states: ClassVar[bool] = False
    lists: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._opened = 0  # a workflow has ended when its store was closed, so each opening has its own

    async def open(self, path: Path) -> None:
        from dbos import DBOS

        self.path = path
        self._said: dict[str, asyncio.Queue[Message | None]] = {}
        self._kept: dict[str, asyncio.Event] = {}
        self._workflows: list[Any] = []
        self._opened += 1
        DBOS(config=configuration(path, **self._more(path)))

        async def say(talker: str) -> Message | None:
            return await self._said[talker].get()

        step = DBOS.step()(say)

        async def talk(talker: str) -> None:
            while await step(talker) is not None:
                self._kept[talker].set()

        self._talk = DBOS.workflow()(talk)
        DBOS.launch()
        self._open.callback(DBOS.destroy, destroy_registry=True)

    def _more(self, path: Path) -> dict[str, Any]:
        """What is added to its configuration."""
        return {}

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        from dbos import DBOS, SetWorkflowID

        if talker not in self._said:
            self._said[talker], self._kept[talker] = asyncio.Queue(), asyncio.Event()
            with SetWorkflowID(_workflow_id(talker, self._opened)):
                self._workflows.append(await DBOS.start_workflow_async(self._talk, talker))
        self._kept[talker].clear()
        self._said[talker].put_nowait(messages[-1])
        await self._kept[talker].wait()

    async def newest(self, talker: str = TALKER) -> list[Message]:
        from dbos import DBOS

        steps = [
            step
            for opened in range(1, self._opened + 1)
            for step in await DBOS.list_workflow_steps_async(_workflow_id(talker, opened))
        ]
        return [step["output"] for step in steps if step["output"] is not None]

    async def latest_50(self) -> int:
        from dbos import DBOS

        steps = await DBOS.list_workflow_steps_async(
            _workflow_id(TALKER, 1), load_output=False
        )  # oldest first, so all of them
        return len(steps[-50:])

    async def settled(self) -> int:
        """While its workflows wait for what is said next: they can't be taken up again once they have ended."""
        import sqlite3

        database = sqlite3.connect(self.path / "peer.db")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        return bytes_in(self.path)

    async def close(self) -> None:
        for said in self._said.values():
            said.put_nowait(None)
        for workflow in self._workflows:
            await workflow.get_result()
        await super().close()


def _workflow_id(talker: str, opened: int) -> str:
    return f"{talker}-{opened}"


class LoggedSteps(Steps):
    """The same in WAL mode."""

    def _more(self, path: Path) -> dict[str, Any]:
        engine = logged(path)
        self._open.callback(engine.dispose)  # what is handed in stays ours to close
        return {"system_database_engine": engine}


class Workflow(Program):
    """A workflow of steps, in WAL mode. After a restart it runs from its beginning, and is given stored results."""

    def run(self, calls: int) -> None:
        from dbos import DBOS, SetWorkflowID

        workflow = self._launch(calls)
        with SetWorkflowID(NAME):
            workflow()
        DBOS.destroy(destroy_registry=True)
        self._engine.dispose()

    def go_on(self, calls: int) -> None:
        from dbos import DBOS

        self._launch(calls)  # which takes up what was left
        DBOS.retrieve_workflow(NAME).get_result()
        DBOS.destroy(destroy_registry=True)
        self._engine.dispose()

    def _launch(self, calls: int) -> Any:
        from dbos import DBOS

        self._engine = logged(self.path)
        DBOS(config=configuration(self.path, system_database_engine=self._engine))

        @DBOS.step()
        def note(number: int) -> dict[str, Any]:
            return self.note(number)

        @DBOS.step()
        def last() -> None:
            self.last()

        def program() -> int:
            told = [note(number) for number in range(calls)]
            last()
            return len(told)

        workflow = DBOS.workflow(name=NAME)(program)
        DBOS.launch()
        return workflow

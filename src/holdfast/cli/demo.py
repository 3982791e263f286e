"""`holdfast demo`: an agent is killed, goes on, is compared, rewound and forked, before your eyes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from holdfast.cli.command import Invocation, command, run
from holdfast.errors import DuplicateId, StorageFailed

if TYPE_CHECKING:
    from asyncio import StreamReader
    from asyncio.subprocess import Process

    from holdfast.durable.manager import CheckpointManager

_KILLED_IN_STEP: Final = 7
_LONG_TALK: Final = 250
_DIFF_LINES_MAX: Final = 12


@command("demo", examples="holdfast demo --keep demo && holdfast --store demo/trip.db log")
@click.option("--keep", metavar="DIR", help="Keep the store in this folder, to look at it afterwards.")
def demo_command(invocation: Invocation, keep: str | None) -> None:
    """Show in a few seconds what Holdfast does.

    An agent books a trip, is killed, goes on, is compared, rewound and forked.

    Nothing is canned but the agent's words: the processes, the kill and every number are real. No network is used.
    """
    import tempfile

    if keep is not None:
        folder = Path(keep)
        if (folder / "trip.db").exists():
            raise DuplicateId(f"{folder / 'trip.db'} is there already", hint="Name another folder with --keep.")
        folder.mkdir(parents=True, exist_ok=True)
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        told = run(_Demo(Path(directory) / "trip.db", kept=keep is not None, quiet=invocation.json).play())
    if invocation.json:
        from holdfast.cli.output import say_json

        say_json({**told, "store": str(Path(keep) / "trip.db") if keep else None})


class _Demo:
    """The acts of the demo, each of which sees for itself what the one before left in the store."""

    def __init__(self, path: Path, *, kept: bool, quiet: bool) -> None:
        self.path = path
        self.kept = kept
        self.quiet = quiet
        self.told: dict[str, Any] = {}

    async def play(self) -> dict[str, Any]:
        import time

        from holdfast.cli.demo_agent import opened

        started = time.monotonic()
        await self._killed()
        async with opened(self.path) as manager:
            await self._verified(manager)
            await self._went_on(manager)
            await self._compared(manager)
            await self._branched(manager)
            await self._drawn(manager)
        await self._weighed()
        self._say(f"All of it took {time.monotonic() - started:.1f} s.{self._look()}")
        return self.told

    def _look(self) -> str:
        return (
            f" Look around: holdfast --store {self.path} log" if self.kept else " `holdfast demo --keep DIR` keeps it."
        )

    async def _killed(self) -> None:
        """A child process works; it is killed in the middle of a step, with no chance to say goodbye."""
        import signal

        self._act("1. An agent books a trip in a process of its own, and saves every step.")
        saved: list[str] = []
        async with _working(self.path) as (child, told):
            step = ""
            async for raw in told:
                what, number, name = raw.decode().split()
                if what == "saved":
                    saved.append(name)
                    self._say(f"   step {number:>2}  {step:<14}  saved as {name}")
                elif int(number) == _KILLED_IN_STEP:
                    child.kill()
                    self._say(f"   step {number:>2}  {name:<14}  {self._bad('kill -9 while it works')}")
                step = name
            code = await child.wait()
        if code != -signal.SIGKILL:
            raise StorageFailed("The agent's process ended before it could be killed", hint="Its own words are above.")
        self.told["killed"] = {"signal": "SIGKILL", "in_step": _KILLED_IN_STEP, "saved": saved}

    async def _verified(self, manager: CheckpointManager) -> None:
        from holdfast.cli.output import counted

        report = await manager.verify()
        self._act("2. The process is gone. Is what it saved whole?")
        self._say(f"   verify: {counted(report.checkpoints, 'checkpoint')}, {_damage(len(report.damaged))}")
        self.told["verified"] = {"checkpoints": report.checkpoints, "damaged": len(report.damaged)}

    async def _went_on(self, manager: CheckpointManager) -> None:
        from holdfast.cli.demo_agent import AGENT_ID, TripAgent

        [newest] = await manager.list_by_agent(AGENT_ID, limit=1)
        agent: TripAgent = await manager.restore(newest.id)
        self._act("3. Another process restores the agent, which goes on from the exact step.")
        self._say(f"   restored: {agent.step} steps done, {len(agent.messages)} messages, {agent.spent} euros spent")
        resumed = agent.step + 1
        while agent.status == "RUNNING":
            name = agent.next_step
            agent.take_step()
            await manager.save(agent, kind="auto", pinned=agent.status == "COMPLETED")
            self._say(f"   step {agent.step:>2}  {name}")
        calls = [call["id"] for message in agent.messages for call in message.get("tool_calls", ())]
        twice = len(calls) - len(set(calls))
        self._say(f"   {agent.status}: {len(calls)} tool calls in the conversation, {twice} of them twice")
        self.told["went_on"] = {"from_step": resumed, "status": agent.status, "tool_calls": len(calls), "twice": twice}

    async def _compared(self, manager: CheckpointManager) -> None:
        """What changed between two moments."""
        from holdfast.cli.demo_agent import AGENT_ID

        found = await manager.list_by_agent(AGENT_ID)
        difference = await manager.compare(found[5].id, found[3].id)
        self._act("4. What changed between step 5 and step 7?")
        for line in str(difference).split("\n")[2:][:_DIFF_LINES_MAX]:
            if line:
                self._say(f"   {line}")
        self.told["compared"] = difference.changed_fields

    async def _branched(self, manager: CheckpointManager) -> None:
        """An older moment goes on in another way, twice: as the same agent and as another one."""
        from holdfast.cli.demo_agent import AGENT_ID, TripAgent

        found = await manager.list_by_agent(AGENT_ID)
        first_way = await manager.load(found[3].id)
        agent: TripAgent = await manager.restore(found[5].id)
        agent.take_step(hotel="Solar dos Mouros", found="booked as S-511", costs=1078)
        await manager.save(agent)
        agent.take_step()
        await manager.save(agent)
        self._act("5. Back to step 5, and on with another hotel. Nothing of the first way is lost.")
        before = (first_way.state or {})["spent"]
        self._say(f"   after step {agent.step}: {agent.spent} euros spent this way, {before} the first way")
        fork: TripAgent = await manager.fork(found[8].id, "porto-trip")
        fork.messages.append({"role": "user", "content": "The same for Porto."})
        await manager.save(fork)
        self._act("6. A fork: another agent shares the first two steps. `holdfast log` draws it:")

    async def _drawn(self, manager: CheckpointManager) -> None:
        from holdfast.cli.log import lines

        for line in await lines(manager, await manager.store.list(_everything())):
            self._say(f"   {line}")
        self.told["agents"] = [info.agent_id for info in await manager.store.agents()]

    async def _weighed(self) -> None:
        """A long conversation, saved every turn, against full copies in JSON."""
        import json

        from holdfast.cli.demo_agent import TripAgent, opened
        from holdfast.cli.output import size

        path, copies = self.path.with_name("long.db"), 0
        async with opened(path) as manager:
            agent = TripAgent("long-talk", "ada")
            for turn in range(_LONG_TALK):
                role = ("user", "assistant")[turn % 2]
                agent.messages.append({"role": role, "content": f"Turn {turn}: {_words(turn)}"})
                await manager.save(agent, kind="auto")
                copies += len(json.dumps(agent.checkpoint_state()))
            ids = [one.id for one in await manager.list_by_agent("long-talk", limit=None)]  # type: ignore[arg-type]
        store = path.stat().st_size
        self._act(f"7. A conversation of {_LONG_TALK} turns, saved after every turn.")
        self._say(
            f"   {len(ids)} checkpoints in {size(store)}; as full copies in JSON, {size(copies)}"
            f" ({copies / store:.0f} times)"
        )
        self.told["sizes"] = {"checkpoints": len(ids), "store_bytes": store, "json_bytes": copies}

    def _bad(self, text: str) -> str:
        from holdfast.cli.output import styled

        return styled(text, fg="red", bold=True)

    def _act(self, sentence: str) -> None:
        from holdfast.cli.output import styled

        self._say(styled(sentence, bold=True))

    def _say(self, line: str) -> None:
        from holdfast.cli.output import say

        if not self.quiet:
            say(line)
            sys.stdout.flush()


@asynccontextmanager
async def _working(path: Path) -> AsyncIterator[tuple[Process, StreamReader]]:
    """The agent's process and what it tells. In a session of its own, so that Ctrl-C is ours to deal with."""
    import asyncio
    import subprocess

    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast.cli.demo_agent", str(path), stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield child, cast("StreamReader", child.stdout)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def _everything() -> Any:
    from holdfast.storage.protocol import Query

    return Query(limit=None)


def _damage(count: int) -> str:
    return f"{count} damaged" if count else "nothing damaged"


def _words(turn: int) -> str:
    """Some words that are different each turn, and the same each time."""
    words = ("museum", "tram", "castle", "river", "view", "ticket", "evening", "market", "garden", "bridge", "tower")
    return " ".join(words[(turn * 7 + i * (turn % 5 + 1)) % len(words)] for i in range(24))

"""Loops that are killed with SIGKILL, over and over, while others send to them: what `test_loop_kills` starts.

    python -m tests.faults.loop_kills FOLDER SEED KILLS [MUTANT]

Two agents run in one process: the first hears what two processes send to it, hands it on to the second and makes a task
of it for itself. Now and then they are cut, and what comes after a kill begins at the last cut. It prints one JSON
object: how many processes were killed, how many messages there were, how many of them and of the tasks were lost or
counted twice, and every claim that did not hold. With a mutant, the loops do what `mutants` says under this name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

from holdfast.agents.loop.group import LoopGroup
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from holdfast.durable.manager import CheckpointManager
from holdfast.storage.sqlite.store import SQLiteCheckpointStorage
from tests.faults.mortals import forked, waited
from tests.faults.mutants import broken_by

SENDERS = ("eve", "mia")
KILLS_A_STORE = 25  # what was sent meanwhile is still to be done by the last process


class Relay:
    """Dies anywhere in its work, and sometimes fails, saves itself, or does something critical."""

    manager: CheckpointManager
    chance = random.Random()

    def __init__(self, agent_id, user_id="u"):
        self.agent_id, self.user_id, self.status = agent_id, user_id, ""
        self.heard, self.worked, self.critical = [], [], []

    def checkpoint_state(self):
        return {"heard": list(self.heard), "worked": list(self.worked), "critical": list(self.critical)}

    def restore_state(self, state):
        self.heard, self.worked, self.critical = [list(state[name]) for name in ("heard", "worked", "critical")]

    async def on_message(self, message, turn):
        self.heard.append(message.content)
        await self.dawdle()
        if self.agent_id == "a":
            turn.send("b", message.content)
            turn.add_task("work", message.content)
        if self.chance.random() < 0.1:
            await self.manager.save(self)
        await self.dawdle()
        if message.content[1] % 5 == 0:
            async with turn.operation("critical"):
                self.critical.append(message.content)
                await self.dawdle()

    async def on_task(self, task, turn):
        await self.dawdle()
        if task.progress_percentage:
            self.worked.append(task.content)
            turn.complete()
        else:
            turn.progress(50)

    async def on_interrupted(self, checkpoint, turn):
        assert checkpoint.operation == "critical"

    async def dawdle(self):
        await asyncio.sleep(self.chance.random() ** 4 * 0.01)
        if self.chance.random() < 0.02:
            raise ConnectionError("by chance")


def opened(folder: Path) -> CheckpointManager:
    manager = CheckpointManager(SQLiteCheckpointStorage(folder / "store.db"))
    manager.register(Relay)
    Relay.manager = manager
    return manager


async def loops(folder: Path, *, last: bool) -> None:
    manager, chance, cut = opened(folder), random.Random(), folder / "cut"
    agents = [Relay("a"), Relay("b")]
    if cut.exists() and chance.random() < 0.3:
        agents = await LoopGroup.restore_group(manager, cut.read_text())
    group = LoopGroup(
        [
            AgentLoop(
                agent, manager, routine_seconds=0.1, refresh_seconds=0.25, idle_seconds=0.005, delay_seconds=0.001,
                delay_seconds_max=0.01, on_drift="notify",
            )
            for agent in agents
        ]
    )  # fmt: skip
    running = asyncio.ensure_future(group.run())
    while not (last and await done(folder, group)):
        await asyncio.wait([running], timeout=chance.random() * 0.1)
        if running.done():
            await running
        written = folder / "cut.new"
        written.write_text(await group.save_group())
        written.rename(cut)
    os.kill(os.getpid(), signal.SIGTERM)
    assert [one.detail for one in await running] == ["SIGTERM", "SIGTERM"]
    await manager.close()


async def done(folder: Path, group: LoopGroup) -> bool:
    if not all((folder / name).exists() for name in SENDERS):
        return False
    tasks = await group.loops[0].tasks.all()
    waiting = [await loop.mailbox.waiting() for loop in group.loops]
    return not any(waiting) and all(task.status == "completed" for task in tasks)


async def send(folder: Path, name: str) -> None:
    manager, number = opened(folder), 0
    mailbox = Mailbox(manager, "a", user_id="u")
    while not (folder / "enough").exists():
        await mailbox.send([name, number], sender=name)
        number += 1
        await asyncio.sleep(random.random() * 0.03)
    (folder / name).write_text(str(number))
    await manager.close()


async def claims(folder: Path, counts: Counter[str]) -> list[str]:
    """Counts the messages and what became of them; every claim that does not hold."""
    manager, broken = opened(folder), []
    a, b = [await manager.restore((await manager.latest(name)).id) for name in ("a", "b")]
    sent = {name: [[name, number] for number in range(int((folder / name).read_text()))] for name in SENDERS}
    all_sent = sorted(one for each in sent.values() for one in each)
    for agent in (a, b):
        heard = {name: [one for one in agent.heard if one[0] == name] for name in SENDERS}
        if heard != sent:
            broken.append(f"{agent.agent_id} heard otherwise than was sent")
        if sorted(agent.heard) != all_sent:
            broken.append(f"{agent.agent_id} heard {len(agent.heard)} of {len(all_sent)} messages")
        if sorted(agent.critical) != [one for one in all_sent if one[1] % 5 == 0]:
            broken.append(f"{agent.agent_id} did not do each critical thing once")
    counts.update({"messages": len(all_sent), "heard": len(a.heard) + len(b.heard), "tasks": len(a.worked)})
    for each in (a.heard, b.heard, a.worked):
        there = Counter(map(tuple, each))
        counts["lost"] += sum(tuple(one) not in there for one in all_sent)
        counts["twice"] += sum(number - 1 for number in there.values())
    if sorted(a.worked) != all_sent:
        broken.append(f"{len(a.worked)} of {len(all_sent)} tasks were worked on")
    if pending := await manager.store.pending("operation"):
        broken.append(f"operations are pending: {pending}")
    report = await manager.verify()
    if not report.ok:
        broken.append(str(report.damaged))
    await manager.close()
    return broken


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    broken_by("".join(sys.argv[4:]))
    chance, killed = random.Random(seed), 0
    broken: list[str] = []
    counts: Counter[str] = Counter()
    while killed < kills and not broken:
        here = folder / f"{seed}-{killed}"
        here.mkdir()
        of_store = min(KILLS_A_STORE, kills - killed)
        broken += one_store(here, chance, of_store, counts)
        killed += of_store
    sys.stdout.write(json.dumps({"killed": killed, "counts": counts, "broken": broken}) + "\n")


def one_store(folder: Path, chance: random.Random, kills: int, counts: Counter[str]) -> list[str]:
    """So many kills on one store, and then everything that was sent is done; what is broken."""
    broken: list[str] = []
    senders = [forked(send(folder, name)) for name in SENDERS]
    for _ in range(kills):
        pid = forked(loops(folder, last=False))
        ended = waited(pid, 0.02 + chance.random() * 0.3)
        if ended is not None:
            broken.append(f"a process of loops ended with {ended}")
            break
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    (folder / "enough").touch()
    broken += [f"a sender ended with {code}" for pid in senders if (code := waited(pid, 20)) != 0]
    last = forked(loops(folder, last=True))
    code = waited(last, 240)
    if code is None:
        os.kill(last, signal.SIGKILL)
        os.waitpid(last, 0)
    if code != 0:
        return [*broken, f"the last process of loops ended with {code}"]
    return [*broken, *asyncio.run(claims(folder, counts))]


if __name__ == "__main__":
    main()

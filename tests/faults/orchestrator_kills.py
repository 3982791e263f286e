"""An orchestrator of 20 users that is killed with SIGKILL, over and over: what `test_orchestrator_kills` starts.

    python -m tests.faults.orchestrator_kills FOLDER SEED KILLS [MUTANT]

Each user sends messages without an end; each is counted by its user's agent, and each attempt leaves a line in a
ledger, which outlives every process. It prints one JSON object: how many processes were killed, how many messages were
handled, how many of them again, lost or twice, and every claim that did not hold. With a mutant, the children do what
`mutants` says under this name.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from holdfast.agents.orchestrator.orchestrator import Orchestrator
from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.fields import InputField
from holdfast.agents.standard.status import AgentStatus
from holdfast.durable.manager import CheckpointManager
from holdfast.history.records import UserMessage
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.mortals import forked, lived
from tests.faults.mutants import broken_by

USERS = 20
LAPS = 4  # messages that one agent works on before it is finished and the next one begins


class Ledger:
    """What really happened: a line for each effect, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **line: object) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


class Counting(StandardAgent):
    """Asks for a name, then counts its messages; each has an effect, somewhere in the middle of being handled."""

    ledger: Ledger
    asked: Ledger
    chance: random.Random
    name = InputField("Who?")

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.counted: list[str] = []

    def checkpoint_state(self):
        return {"counted": self.counted}

    def restore_state(self, state):
        self.counted = state["counted"]

    async def on_waiting_for_input(self, msg):
        await asyncio.sleep(self.chance.random() * 0.004)
        self.asked.add(user=self.user_id, name=self.user_id, id=msg.id, text=msg.content, attempt=msg.attempt)
        await asyncio.sleep(self.chance.random() * 0.004)
        return await super().on_waiting_for_input(msg)

    async def on_running(self, msg):
        await asyncio.sleep(self.chance.random() * 0.004)
        self.ledger.add(user=self.user_id, name=self.name, id=msg.id, text=msg.content, attempt=msg.attempt)
        await asyncio.sleep(self.chance.random() * 0.004)
        self.counted.append(msg.id)
        status = AgentStatus.COMPLETED if len(self.counted) == LAPS else AgentStatus.RUNNING
        return self.make_result(status=status, raw_message=f"{len(self.counted)}")


async def child(folder: Path, *, seconds: float | None) -> None:
    """Serves every user until it is killed; with a time, until then, and to a clean end."""
    Counting.ledger, Counting.asked = Ledger(folder / "ledger"), Ledger(folder / "asked")
    Counting.chance = random.Random()
    answered = Ledger(folder / "answered")
    manager = CheckpointManager(SQLiteCheckpointStorage(folder / "store.db"))
    orchestrator = Orchestrator([Counting], manager)
    os.write(1, b".")  # from here on it may be killed
    until = None if seconds is None else time.monotonic() + seconds

    async def user(number: int) -> None:
        name = f"user-{number}"
        for turn in itertools.count():
            if until is not None and time.monotonic() > until:
                return
            active = await orchestrator.active_agents(name)
            text = f"{name} says {os.getpid()}-{turn}" if active and not active[0].missing_fields else name
            result = await orchestrator.handle_message(name, text)
            answered.add(user=name, id=result.message_id, status=result.status)

    await orchestrator.recover()
    await asyncio.gather(*(user(number) for number in range(USERS)))
    await orchestrator.close()
    await manager.close()


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    broken_by("".join(sys.argv[4:]))
    broken: list[str] = []
    killed = 0
    for _ in range(kills):
        ended = lived(child(folder, seconds=None), chance.random() * 0.25)
        if ended is not None:
            broken.append(f"a child ended by itself with {ended}")
            break
        killed += 1
    _, status = os.waitpid(forked(child(folder, seconds=0.3), stdout=os.open(os.devnull, os.O_WRONLY)), 0)
    if status:
        broken.append(f"the last child ended with {os.waitstatus_to_exitcode(status)}")
    told = asyncio.run(claims(folder))
    broken += told.pop("broken")
    sys.stdout.write(json.dumps({"killed": killed, **told, "broken": broken}) + "\n")


async def claims(folder: Path) -> dict:
    """What does not hold of what the ledger, the senders and the store say."""
    effects, asked = by_message(folder / "ledger"), by_message(folder / "asked")
    broken = [told for seen in (effects, asked) for item in seen.items() for told in of_effects(*item)]
    manager = CheckpointManager(store := SQLiteCheckpointStorage(folder / "store.db"))
    counted: Counter[str] = Counter()
    active: Counter[str] = Counter()
    for info in await store.agents():
        agent = await manager.restore(info.tip)
        counted.update(agent.counted)
        active[info.user_id] += not agent.finished
        sent = sum(isinstance(record, UserMessage) for record in await store.read(info.agent_id))
        broken += of_agent(agent, sent, effects)
        if info.owner is not None:
            broken.append(f"agent {info.agent_id} was left held")
    twice = [f"{one} was handled {times} times to its end" for one, times in counted.items() if times > 1]
    lost = [f"{one} had an effect and was lost" for one in effects.keys() | asked.keys() if one not in counted]
    broken += twice + lost
    broken += [f"{one} was counted without its effect" for one in counted if one not in effects]
    broken += [f"{user} has {number} agents at once" for user, number in active.items() if number > 1]
    for line in Ledger(folder / "answered").lines():
        if line["status"] == "ERROR" or (line["id"] in effects and line["id"] not in counted):
            broken.append(f"the answer to {line['id']} was {line['status']}, and it is not counted")
    broken += [str(damage) for damage in (await store.verify()).damaged]
    await manager.close()
    again = sum(lines[-1]["attempt"] > 1 for seen in (effects, asked) for lines in seen.values())
    return {
        "handled": len(counted), "again": again, "twice": len(twice), "lost": len(lost), "users": len(active),
        "broken": broken[:20],
    }  # fmt: skip


def by_message(path: Path) -> dict[str, list[dict]]:
    """The lines of a ledger by the message that they are about."""
    effects: dict[str, list[dict]] = {}
    for line in Ledger(path).lines():
        effects.setdefault(line["id"], []).append(line)
    return effects


def of_effects(message_id: str, lines: list[dict]) -> Iterator[str]:
    attempts = [line["attempt"] for line in lines]
    if attempts != sorted(set(attempts)):
        yield f"{message_id} was attempted as {attempts}"
    if len({(line["user"], line["text"]) for line in lines}) > 1:
        yield f"{message_id} was of several users: {lines}"
    if any(line["user"] != line["name"] or not line["text"].startswith(line["user"]) for line in lines):
        yield f"{message_id} reached another user's agent: {lines}"


def of_agent(agent: Counting, sent: int, effects: dict[str, list[dict]]) -> Iterator[str]:
    if agent.handling is not None:
        yield f"agent {agent.agent_id} was left with a message"
    if sent != len(agent.counted) + 1:  # the first one only starts it
        yield f"agent {agent.agent_id} was sent {sent} messages and counted {len(agent.counted)}"
    if agent.counted and agent.name != agent.user_id:
        yield f"agent {agent.agent_id} of {agent.user_id} has the name {agent.name}"
    wrong = [one for one in agent.counted if one in effects and effects[one][0]["user"] != agent.user_id]
    if wrong:
        yield f"agent {agent.agent_id} of {agent.user_id} counted messages of others: {wrong}"


if __name__ == "__main__":
    main()

"""What users of a store have been told, held against what is there after a fault."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.durable.runs.log import RunLog
from holdfast.history.fold import live_path
from holdfast.history.records import UserMessage
from holdfast.storage import keys
from holdfast.storage.protocol import Report
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.programs import Call, Effects


@dataclass(slots=True)
class Promises:
    """Everything that was acknowledged so far."""

    saved: dict[str, int] = field(default_factory=dict)  # by checkpoint: the step in its state
    going: set[str] = field(default_factory=set)  # checkpoints whose deletion has begun
    gone: set[str] = field(default_factory=set)  # and was acknowledged
    messages: dict[str, list[str]] = field(default_factory=dict)  # by agent: what it was told, in order
    mail: dict[str, dict[int, Any]] = field(default_factory=dict)  # by agent: what waits in its inbox, by number
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # begun, acknowledged or not, with their members
    erased: set[str] = field(default_factory=set)
    effects: dict[Call, str] = field(default_factory=dict)  # calls that were made, and what they returned
    settled: set[Call] = field(default_factory=set)  # those whose result must be durable, as another call was made
    ended: dict[tuple[str, str], Any] = field(default_factory=dict)  # runs that were given back, and their values
    keys: int = 1
    count: int = 0
    recovered: int = 0  # how often runs were taken up to see whether these hold

    def add(self, what: tuple[Any, ...]) -> None:
        self.count += 1
        kind, *told = what
        getattr(self, f"_{kind}")(*told)

    def _saved(self, id_: str, step: int) -> None:
        self.saved[id_] = step

    def _deleting(self, *ids: str) -> None:
        self.going |= {*ids}

    def _deleted(self, *ids: str) -> None:
        self.gone |= {*ids}

    def _grouping(self, group_id: str, *ids: str) -> None:
        self.groups[group_id] = ids

    def _said(self, agent: str, message: str) -> None:
        self.messages.setdefault(agent, []).append(message)

    def _mailed(self, agent: str, number: int, content: Any) -> None:
        self.mail.setdefault(agent, {})[number] = content

    def _erasing(self, agent: str, *ids: str) -> None:
        self.messages.pop(agent, None)
        self.mail.pop(agent, None)
        self._deleting(*ids)

    def _erased(self, agent: str, *ids: str) -> None:
        self.erased.add(agent)
        self._deleted(*ids)

    def _made(self, call: Call, receipt: str) -> None:
        self.effects[call] = receipt

    def _settled(self, *calls: Call) -> None:
        self.settled |= {*calls}

    def _ended(self, agent: str, run: str, value: Any) -> None:
        self.ended[agent, run] = value
        self.settled |= {call for call, receipt in self.effects.items() if receipt in value}

    def _rotated(self, number: int) -> None:
        self.keys = number

    async def broken(self, store: SQLiteCheckpointStorage, report: Report) -> list[str]:
        """Every promise that is not kept."""
        whole = set(report.whole)
        broken = [f"checkpoint {id_} is lost" for id_ in self.saved if id_ not in whole | self.going]
        broken += [f"checkpoint {id_} came back" for id_ in self.gone & whole]
        for id_ in [id_ for id_ in self.saved if id_ in whole][-2:]:
            found = await store.fetch(id_)
            if found is None or found[1].decode()["step"] != self.saved[id_]:
                broken.append(f"checkpoint {id_} has another state")
        for agent, messages in self.messages.items():
            said = [record.content for record in await store.read(agent) if isinstance(record, UserMessage)]
            if said[: len(messages)] != messages:
                broken.append(f"{agent} was told {messages}, and remembers {said}")
        for agent, mail in self.mail.items():
            waiting = {one.number: one.content for one in await store.inbox(agent)}
            broken += [f"mail {n} of {agent} is {waiting.get(n)}" for n in mail if waiting.get(n) != mail[n]]
        for group_id, ids in self.groups.items():
            members = {id_ for id_ in ids if id_ in whole}
            if members not in (set(), {*ids}) or members != {*await store.group(group_id)}:
                broken.append(f"of the group {group_id} there is {members}")
        for agent in self.erased:
            broken += [f"{agent} came back" for _ in await store.read(agent)]
        ring = await asyncio.to_thread(keys.read_ring, keys.key_path(store.path))
        if ring is None or ring.current < self.keys:
            broken.append(f"key {self.keys} is lost")
        return broken + await self._broken_runs(store)

    async def _broken_runs(self, store: SQLiteCheckpointStorage) -> list[str]:
        broken = []
        logs = await logs_of(store)
        for call in self.effects:
            log = logs.get(call[:2])
            if log is None or call[2] not in log.calls:
                broken.append(f"{call} was made without its record")
        for call in self.settled:
            log = logs.get(call[:2])
            if log is None or call[2] not in log.results or log.results[call[2]].tool_result != self.effects[call]:
                broken.append(f"the result of {call} is lost")
        for name, value in self.ended.items():
            log = logs.get(name)
            if log is None or log.complete is None or log.complete.output != value:
                broken.append(f"the end of {name} is lost")
        return broken

    async def broken_by_recovery(self, store: SQLiteCheckpointStorage) -> list[str]:
        """What is not as it must be when the runs that were left are taken up again, to their ends."""
        self.recovered += 1
        recorded = {name: set(log.results) for name, log in (await logs_of(store)).items()}
        world = Effects()
        world.made.update(self.effects)
        async with world.runner(store) as runner:
            broken = [f"{one.tool_call_id}: {one.error}" for one in await runner.recover() if one.status != "complete"]
            broken += [f"{call} was made twice" for call in world.twice]
            logs = await logs_of(store)
        for call in world.made.keys() - self.effects.keys():
            if call[2] in recorded.get(call[:2], ()):
                broken.append(f"{call} was made although its result was recorded")
        for name, log in logs.items():
            if log.complete is None or (log.complete.is_error and log.complete.error != TOO_EARLY):
                broken.append(f"{name} came to no good end: {log.complete}")
            elif not log.complete.is_error:
                receipts = {receipt for call, receipt in world.made.items() if call[:2] == name}
                told = [one for one in log.complete.output if not one.startswith("lost: Process was restarted")]
                broken += [f"{name} was told {one}, which nobody said" for one in told if one not in receipts]
        return broken


async def logs_of(store: SQLiteCheckpointStorage) -> dict[tuple[str, str], RunLog]:
    """What is recorded of each run."""
    found = {}
    for place in await store.runs():
        history = await store.read(place.agent_id, after=place.start - 1, snapshots=False)
        found[place.agent_id, place.name] = RunLog.of(live_path(history))
    return found

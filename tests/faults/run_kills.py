"""Programs that are killed with SIGKILL, over and over, until they are done: what `test_run_kills` starts.

    python -m tests.faults.run_kills FOLDER SEED KILLS [MUTANT]

It prints one JSON object: how many processes were killed, how many runs came to their end, what became of their calls,
and every claim that did not hold, with which it ends at once. It forks its children before anything of Holdfast runs in
it, so that a child begins within milliseconds. With a mutant, they do what `mutants` says under this name.
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
from typing import Any

import pydantic_monty  # noqa: F401 - so that the children need not

from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.durable.runs.failures import RESTARTED
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.outcomes import DidNotHappen, Happened
from holdfast.durable.runs.result import RunResult
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.tool import Tool
from holdfast.history.fold import live_path
from holdfast.history.records import Record, RlmComplete, RlmRestart, RlmToolCall, RlmToolResult
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.mortals import lived
from tests.faults.mutants import broken_by

RUNS = 3  # of each store
Call = tuple[str, str, int]  # agent, run, number of the call


class Ledger:
    """What really happened: a line for each effect, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, tool: str, value: object) -> str:
        """An effect; returns a receipt that nothing else has."""
        call = current_call()
        receipt = f"{tool}-{os.getpid()}-{time.monotonic_ns()}"
        place = [call.agent_id, call.tool_call_id, call.call_id]
        self.write(call=place, key=call.idempotency_key, tool=tool, value=value, receipt=receipt)
        return receipt

    def write(self, **line: object) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


def tools_of(ledger: Ledger, chance: random.Random) -> list[Tool]:
    def dawdle() -> None:
        time.sleep(chance.random() * 0.004)

    def charge(order: int) -> str:
        dawdle()
        receipt = ledger.add("charge", order)
        dawdle()
        return receipt

    async def ship(order: int) -> str:
        await asyncio.sleep(chance.random() * 0.004)
        receipt = ledger.add("ship", order)
        await asyncio.sleep(chance.random() * 0.004)
        return receipt

    def note(text: str) -> str:
        dawdle()
        return ledger.add("note", text)

    def shipped(call):
        found = [line for line in ledger.lines() if line["key"] == call.idempotency_key]
        return Happened(found[0]["receipt"]) if found else DidNotHappen()

    def refuse(order: int) -> str:
        raise ValueError(f"no order {order}")

    return [
        Tool(charge),
        Tool(ship, on_restart="reconcile", reconcile=shipped),
        Tool(note, on_restart="retry"),
        Tool(refuse),
    ]


def shape(seed: int) -> tuple[int, int, int]:
    """How many orders a program has, how much each of them ships, and how large its heap is."""
    chance = random.Random(seed)
    return chance.randint(2, 6), chance.randint(2, 4), chance.choice([0, 1000, 200_000])


def program(seed: int) -> str:
    """A program of a realistic kind; which one, the seed says."""
    orders, wide, blob = shape(seed)
    return f"""
import asyncio, time, random
told = []
big = [str(n) for n in range({blob})]
async def careful(order):
    try:
        return ["ship", order, await ship(order)]
    except RuntimeError as error:
        return ["ship", order, "lost: " + str(error)]
class Order:
    def __init__(self, number):
        self.number = number
        self.at = time.time()
def paying(order):
    try:
        receipt = charge(order.number)
    except RuntimeError as error:
        receipt = "lost: " + str(error)
    finally:
        print("paid", order.number)
    return ["charge", order.number, receipt]
for number in range({orders}):
    order = Order(number)
    told.append(paying(order))
    told += await asyncio.gather(*[careful(number * 100 + n) for n in range({wide})])
    try:
        refuse(number)
    except ValueError as error:
        told.append(["refuse", number, str(error)])
    except RuntimeError as error:
        told.append(["refuse", number, "lost: " + str(error)])
    told.append(["note", number, note("order " + str(number) + " " + str(random.random()))])
    if order.at > time.time():
        told.append(["clock", number, "went back"])
told
"""


def asked_by(seed: int) -> list[tuple[str, int]]:
    """What the program calls, in its order: tools, and what each call is about."""
    orders, wide, _ = shape(seed)
    each = [
        [("charge", n), *(("ship", n * 100 + k) for k in range(wide)), ("refuse", n), ("note", n)]
        for n in range(orders)
    ]
    return [call for calls in each for call in calls]


async def child(folder: Path, seed: int) -> None:
    store = SQLiteCheckpointStorage(folder / "store.db")
    tools = tools_of(Ledger(folder / "ledger"), random.Random())
    # Whoever is killed every few milliseconds is not to blame for it: no run is to be parked here.
    runner = PythonRunner(store, tools, type_check=False, workers=2, limits=Limits(crashes_max=10_000))
    os.write(1, b".")  # from here on it may be killed
    recovered = {(one.agent_id, one.tool_call_id): one for one in await runner.recover()}
    assert all(result.status == "complete" for result in recovered.values()), recovered
    ends = Ledger(folder / "ends")
    await asyncio.gather(*(completed(runner, f"agent-{n}", program(seed + n), recovered, ends) for n in range(RUNS)))
    await runner.close()


async def completed(
    runner: PythonRunner, agent_id: str, code: str, recovered: dict[tuple[str, str], RunResult], ends: Ledger
) -> None:
    """Runs the program; under another name when a restart came before its first call."""
    for number in itertools.count(1):
        result = recovered.get((agent_id, f"call_{number}"))
        if result is None:
            result = await runner.run(agent_id, code, f"call_{number}")
        ends.write(agent=agent_id, run=f"call_{number}", output=result.output, error=result.error)
        if result.error != TOO_EARLY:
            return


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    mutant = "".join(sys.argv[4:])
    broken_by(mutant)
    life_seconds = 0.5 if mutant else 0.12  # a mutant is found in any store that was killed a few times
    chance = random.Random(seed)
    told: Counter[str] = Counter({"killed": 0, "runs": 0})
    broken: list[str] = []
    store_number = 0
    while told["killed"] < kills and not broken:
        store_number += 1
        here = folder / f"{seed}-{store_number}"
        here.mkdir(parents=True)
        broken += until_done(here, seed * 1000 + store_number * 10, chance, told, life_seconds)
    sys.stdout.write(json.dumps({"broken": broken, "counts": told}) + "\n")


def until_done(folder: Path, seed: int, chance: random.Random, told: Counter[str], life_seconds: float) -> list[str]:
    """Kills until every run of a store has come to its end; what is broken then."""
    for lives in range(500):
        seconds = chance.random() ** 2 * life_seconds * (1 + lives / 10)  # they all come to an end, in the end
        ended = lived(child(folder, seed), seconds)
        if ended is None:
            told["killed"] += 1
        elif ended:
            return [f"a child of {folder.name} ended with {ended}"]
        else:
            return asyncio.run(claims(folder, seed, kills=lives, told=told))
    return [f"{folder.name} did not come to its end"]


async def claims(folder: Path, seed: int, *, kills: int, told: Counter[str]) -> list[str]:
    """Every claim that does not hold for what the ledger, the history and the programs say."""
    effects: dict[Call, list[dict[str, Any]]] = {}
    for line in Ledger(folder / "ledger").lines():
        effects.setdefault(tuple(line["call"]), []).append(line)
    keys = {(call, line["key"]) for call, lines in effects.items() for line in lines}
    broken = [] if len(dict(keys)) == len({key for _, key in keys}) == len(keys) else [f"keys and calls: {keys}"]
    store = SQLiteCheckpointStorage(folder / "store.db")
    ends: dict[tuple[str, str], RlmComplete | None] = {}
    recorded: set[Call] = set()
    for place in await store.runs():
        records = [
            one
            for one in live_path(await store.read(place.agent_id, after=place.start - 1, snapshots=False))
            if getattr(one, "tool_call_id", None) == place.name
        ]
        run = Run(place.agent_id, place.name, records, effects)
        recorded |= run.calls
        ends[place.agent_id, place.name] = run.log.complete
        found = run.broken(asked_by(seed + int(place.agent_id.split("-")[1])), kills=kills)
        broken += [f"{folder.name}/{place.agent_id}/{place.name}: {one}" for one in found]
        told.update(run.counts)
    for line in Ledger(folder / "ends").lines():
        end = ends.get((line["agent"], line["run"]))
        if end is None or [end.output, end.error] != [line["output"], line["error"]]:
            told["results lost"] += 1
            broken.append(f"{folder.name}: the end of {line['agent']}/{line['run']} was told, and is {end}")
    broken += [f"{folder.name}: {call} was made without its record" for call in effects.keys() - recorded]
    report = await store.verify()
    if not report.ok:
        broken.append(f"{folder.name}: {report.damaged}")
    await store.close()
    return broken


class Run:
    """One run as its records tell of it, beside what really happened."""

    def __init__(self, agent_id: str, name: str, records: list[Record], effects: dict[Call, list[dict]]) -> None:
        self.records = records
        self.log = RunLog.of(records)
        self.calls: set[Call] = {(agent_id, name, id_) for id_ in self.log.calls}
        self.counts: Counter[str] = Counter()
        self._made = {call[2]: effects.get(call, []) for call in self.calls}

    def broken(self, asked: list[tuple[str, int]], *, kills: int) -> Iterator[str]:
        """Each claim that does not hold."""
        end = self.log.complete
        if end is not None and end.error == TOO_EARLY and not self.log.calls:
            return
        if end is None or end.is_error:
            yield f"it came to no good end: {end}"
            return
        self.counts.update(runs=1, calls=len(self.log.calls))
        restarts = [one.seq for one in self.records if isinstance(one, RlmRestart)]
        if len(restarts) > kills:
            yield f"{len(restarts)} restarts after {kills} kills"
        calls = {about(call): id_ for id_, call in self.log.calls.items()}
        if [(tool, value) for tool, value, _ in end.output] != asked or sorted(calls) != sorted(asked):
            yield f"it called {sorted(calls)} and says {end.output}, not what it is to call"
            return
        for tool, value, told in end.output:
            yield from self._of_call(calls[tool, value], told)
        yield from self._of_order(restarts)

    def _of_call(self, id_: int, told: str) -> Iterator[str]:
        """What a call was answered, and how often it happened, beside what the program was told of it."""
        results = [one for one in self.records if isinstance(one, RlmToolResult) and one.call_id == id_]
        what = " ".join(map(str, about(self.log.calls[id_])))
        if len(results) != 1:
            yield f"{what} has {len(results)} results"
            return
        tool, given, made = results[0].tool_name, results[0].tool_result, self._made[id_]
        gave_up = results[0].tool_is_error and given == RESTARTED
        self.counts.update({"in doubt": gave_up, "made again": len(made) > 1 and tool == "note"})
        if told != ("lost: " + RESTARTED["message"] if gave_up else given["message"] if tool == "refuse" else given):
            yield f"the program was told {told} of {what}, whose result is {given}"
        if gave_up and tool not in ("charge", "refuse"):
            self.counts["results lost"] += 1
            yield f"{what} was given up, which its tool does not want"
        if tool == "refuse":
            return
        if len(made) > 1 and tool != "note":
            self.counts["calls made twice"] += 1
            yield f"{what} happened {len(made)} times"
        if not gave_up and given not in [one["receipt"] for one in made]:
            self.counts["results lost"] += 1
            yield f"{what} has the result {given}, which is not one of its own effects: {made}"

    def _of_order(self, restarts: list[int]) -> Iterator[str]:
        """A result is on record before the next call is; only a restart cuts a call short, and not two in a row."""
        results = {one.call_id: one for one in self.records if isinstance(one, RlmToolResult)}
        cut_short = []
        for place, call in enumerate(self.log.order):
            if (result := results.get(call.call_id)) is None:
                continue
            later = [one for one in self.log.order[place + 1 :] if one.batch is None or one.batch != call.batch]
            if later and later[0].seq < result.seq:
                self.counts["results lost"] += 1
                yield f"{about(later[0])} was called before the result of {about(call)} was on record"
            if result.tool_is_error and result.tool_result == RESTARTED:
                cut_short += [seq for seq in restarts if call.seq < seq < result.seq][:1] or [0]
        if 0 in cut_short or len(set(cut_short)) < len(cut_short):
            yield f"the restarts {restarts} cut calls short at {cut_short}"


def about(call: RlmToolCall) -> tuple[str, int]:
    """The tool, and the order that the call is about."""
    [value] = call.tool_args.values()
    return call.tool_name, int(value.split()[1]) if isinstance(value, str) else value


if __name__ == "__main__":
    main()

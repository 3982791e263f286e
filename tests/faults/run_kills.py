"""Programs that are killed with SIGKILL, over and over, until they are done: what `test_run_kills` starts.

    python -m tests.faults.run_kills FOLDER SEED KILLS

It prints one JSON object: how many processes were killed, how many runs came to their end, and every claim that did
not hold. It forks its children before anything of Holdfast runs in it, so that a child begins within milliseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from pathlib import Path

import pydantic_monty  # noqa: F401 - so that the children need not

from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.outcomes import DidNotHappen, Happened
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.tool import Tool
from holdfast.history.fold import live_path
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.mortals import lived

RUNS = 3  # of each store


class Ledger:
    """What really happened: a line for each effect, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, tool: str, value: object) -> str:
        """An effect; returns a receipt that nothing else has."""
        call = current_call()
        receipt = f"{tool}-{os.getpid()}-{time.monotonic_ns()}"
        line = {"key": call.idempotency_key, "tool": tool, "value": value, "receipt": receipt, "attempt": call.attempt}
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)
        return receipt

    def lines(self) -> list[dict[str, object]]:
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


def program(seed: int) -> str:
    """A program of a realistic kind; which one, the seed says."""
    chance = random.Random(seed)
    orders, wide, blob = chance.randint(2, 6), chance.randint(2, 4), chance.choice([0, 1000, 200_000])
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


async def child(folder: Path, seed: int) -> None:
    store = SQLiteCheckpointStorage(folder / "store.db")
    tools = tools_of(Ledger(folder / "ledger"), random.Random())
    # Whoever is killed every few milliseconds is not to blame for it: no run is to be parked here.
    runner = PythonRunner(store, tools, type_check=False, workers=2, limits=Limits(crashes_max=10_000))
    os.write(1, b".")  # from here on it may be killed
    recovered = await runner.recover()
    assert all(result.status == "complete" for result in recovered), recovered
    await asyncio.gather(*(completed(runner, f"agent-{n}", program(seed + n)) for n in range(RUNS)))
    await runner.close()


async def completed(runner: PythonRunner, agent_id: str, code: str) -> None:
    """Runs the program; under another name when a restart came before its first call."""
    for number in itertools.count(1):
        result = await runner.run(agent_id, code, f"call_{number}")
        if result.error != TOO_EARLY:
            return


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    told: dict[str, object] = {"killed": 0, "runs": 0, "broken": []}
    store_number = 0
    while told["killed"] < kills:
        store_number += 1
        here = folder / f"{seed}-{store_number}"
        here.mkdir(parents=True)
        until_done(here, seed * 1000 + store_number * 10, chance, told)
    sys.stdout.write(json.dumps(told) + "\n")


def until_done(folder: Path, seed: int, chance: random.Random, told: dict) -> None:
    for lives in range(500):
        seconds = chance.random() ** 2 * 0.12 * (1 + lives / 10)  # they all come to an end, in the end
        ended = lived(child(folder, seed), seconds)
        if ended is None:
            told["killed"] += 1
        elif ended:
            told["broken"].append(f"a child of {folder.name} ended with {ended}")
            return
        else:
            told["broken"] += asyncio.run(claims(folder, seed))
            told["runs"] += RUNS
            return
    told["broken"].append(f"{folder.name} did not come to its end")


async def claims(folder: Path, seed: int) -> list[str]:
    """Every claim that does not hold for what the ledger, the history and the programs say."""
    broken = []
    effects: dict[str, list[dict]] = {}
    for line in Ledger(folder / "ledger").lines():
        effects.setdefault(line["key"], []).append(line)
    for key, lines in effects.items():
        if lines[0]["tool"] in ("charge", "ship") and len(lines) > 1:
            broken.append(f"{folder.name}: {lines[0]['tool']} happened {len(lines)} times under {key}")
    receipts = {line["receipt"]: line for lines in effects.values() for line in lines}
    store = SQLiteCheckpointStorage(folder / "store.db")
    for place in await store.runs():
        log = RunLog.of(live_path(await store.read(place.agent_id, after=place.start - 1)))
        broken += of_run(f"{folder.name}/{place.agent_id}/{place.name}", log, receipts)
    report = await store.verify()
    if not report.ok:
        broken.append(f"{folder.name}: {report.damaged}")
    await store.close()
    return broken


def of_run(name: str, log: RunLog, receipts: dict[str, dict]) -> list[str]:
    if log.complete is not None and log.complete.error == TOO_EARLY and not log.calls:
        return []
    if log.complete is None or log.complete.is_error:
        return [f"{name}: {log.complete}"]
    broken = []
    for result in log.results.values():
        happened = receipts.get(result.tool_result) if isinstance(result.tool_result, str) else None
        if not result.tool_is_error and (happened is None or happened["tool"] != result.tool_name):
            broken.append(f"{name}: a success of {result.tool_name} without its effect: {result.tool_result}")
    recorded = {str(result.tool_result) for result in log.results.values() if not result.tool_is_error}
    for tool, value, told in log.complete.output:
        lost = str(told).startswith("lost: Process was restarted")
        refused = tool == "refuse" and told == f"no order {value}"
        if not lost and not refused and told not in recorded:
            broken.append(f"{name}: the program was told {told} of {tool}({value}), which nobody said")
    return broken


if __name__ == "__main__":
    main()

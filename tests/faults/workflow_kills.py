"""Workflows whose processes are killed with SIGKILL until they are done: what `test_workflow_kills` starts.

    python -m tests.faults.workflow_kills FOLDER SEED KILLS [MUTANT]

It prints one JSON object: how many processes were killed, how many workflows came to their end, how many steps were
begun again, and every claim that did not hold, with which it ends. It forks its children before anything of Holdfast
runs in it. With a mutant, they do what `mutants` says under this name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

import yaml  # noqa: F401 - so that the children need not

from holdfast.agents.workflow.executor import WorkflowExecutor
from holdfast.durable.manager import CheckpointManager
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.mortals import lived
from tests.faults.mutants import broken_by

FILE = """\
workflow: {name: orders}
steps:
  - {name: a1, agent: work, needs: []}
  - {name: a2, agent: work, needs: []}
  - {name: a3, agent: work, needs: []}
  - {name: flaky, agent: fails_twice, needs: [a1], retry: {max_attempts: 3}}
  - {name: lost, agent: fails, needs: [a1], on_error: continue}
  - {name: never, agent: work, needs: [a2], when: "${a2.output.n} > 1000"}
  - {name: b, agent: work, needs: [a2, a3], inputs: {text: "${a2.output.n} ${a3.output.n}"}}
  - {name: free, agent: work, needs: [b], checkpoint: false}
  - {name: c, agent: work, needs: [flaky, lost, b], inputs: {lost: "${lost.output}"}}
  - {name: d, agent: work, needs: [free, c]}
  - {name: e, agent: work, needs: [c]}
  - {name: last, agent: work, needs: [d, e, never], inputs: {said: "${lost.error}", skipped: "${never.status}"}}
"""
RUN = "nightly"
UNKEPT = {"free"}  # it may be done again without being told so


class Ledger:
    """What really happened: a line for each effect, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **line: object) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


def agents_of(ledger: Ledger) -> dict[str, object]:
    chance = random.Random()

    async def effect(context) -> None:
        await asyncio.sleep(chance.choice((0, chance.random() * 0.003)))
        ledger.add(
            step=context.step, attempt=context.attempt, interrupted=context.interrupted, key=context.idempotency_key
        )
        await asyncio.sleep(chance.random() * 0.003)

    async def work(inputs, context):
        await effect(context)
        return {"n": len(ledger.lines()), **inputs}

    async def fails(inputs, context):
        await effect(context)
        raise ConnectionError("nobody there")

    async def fails_twice(inputs, context):
        await effect(context)
        if sum(line.get("step") == context.step for line in ledger.lines()) < 3:
            raise ConnectionError("not yet")

    return {"work": work, "fails": fails, "fails_twice": fails_twice}


async def child(folder: Path) -> None:
    ledger = Ledger(folder / "ledger")
    async with CheckpointManager(SQLiteCheckpointStorage(folder / "store.db")) as manager:
        newest = await manager.latest(f"orders/{RUN}")
        state = {} if newest is None else (await manager.load(newest.id)).state["steps"]
        settled = [name for name, one in state.items() if one["status"] in ("done", "failed", "skipped")]
        ledger.add(settled=settled)
        os.write(1, b".")  # from here on it may be killed
        result = await WorkflowExecutor(agents_of(ledger), manager).run(folder / "orders.yaml", run_id=RUN)
        assert (await manager.verify()).ok
        ledger.add(status=result.status, outputs=result.outputs, skipped=result.skipped, errors=result.errors)


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    broken_by("".join(sys.argv[4:]))
    told: dict = {"killed": 0, "workflows": 0, "attempts": 0, "again": 0, "done twice": 0, "lost": 0, "broken": []}
    # Without a step that was cut off nothing would be shown.
    while (told["killed"] < kills or not told["again"]) and not told["broken"]:
        here = folder / f"{seed}-{told['workflows']}"
        here.mkdir(parents=True)
        (here / "orders.yaml").write_text(FILE)
        until_done(here, chance, told)
        told["workflows"] += 1
    sys.stdout.write(json.dumps(told) + "\n")


def until_done(folder: Path, chance: random.Random, told: dict) -> None:
    for lives in range(200):
        seconds = chance.random() * 0.06 * (1 + lives / 10)  # they all come to an end, in the end
        ended = lived(child(folder), seconds)
        if ended is None:
            told["killed"] += 1
            continue
        if ended:
            told["broken"].append(f"a child of {folder.name} ended with {ended}")
        else:
            claims(Ledger(folder / "ledger").lines(), told)
        return
    told["broken"].append(f"{folder.name} did not come to its end")


def claims(lines: list[dict], told: dict) -> None:
    """What must be true of everything that happened to a workflow in all its processes."""

    def claim(holds: object, what: str) -> None:
        if not holds:
            told["broken"].append(f"{what}: {lines}")

    result = lines.pop()
    claim(result.get("status") == "COMPLETED", "it is completed")
    claim(result.get("skipped") == ["never"], "a step whose condition does not hold is skipped")
    claim(result.get("errors") == {"lost": "ConnectionError: nobody there"}, "what failed is told")
    last = result.get("outputs", {}).get("last", {})
    claim((last.get("said"), last.get("skipped")) == ("ConnectionError: nobody there", "skipped"), "outputs are there")
    settled: set[str] = set()
    attempts: dict[str, list] = defaultdict(list)
    for line in lines:
        settled |= set(line.get("settled", ()))
        if "step" in line:
            told["attempts"] += 1
            told["done twice"] += line["step"] in settled
            claim(line["step"] not in settled, f"{line['step']}, which is settled, is not done again")
            attempts[line["step"]].append(line)
    every = {"a1", "a2", "a3", "flaky", "lost", "b", "free", "c", "d", "e", "last"}
    told["lost"] += len(every - set(attempts))
    claim(set(attempts) == every, "every step was done")
    for name, made in attempts.items():
        claim({line["key"] for line in made} == {f"orders/{RUN}/{name}"}, f"every attempt of {name} has the same key")
        if name in UNKEPT:
            continue
        numbers = [line["attempt"] for line in made]
        claim(sorted(set(numbers)) == numbers, f"no two attempts of {name} have the same number")
        failures = 2 if name == "flaky" else 0
        claim(len(made) <= 1 + failures or made[-1]["interrupted"], f"{name} is told that it was cut off")
        told["again"] += len(made) - 1 - failures
    happened = [line.get("step") for line in lines]
    for needed, by in (("a1", "c"), ("flaky", "c"), ("b", "free"), ("c", "d"), ("c", "e"), ("d", "last")):
        if needed not in UNKEPT:
            claim(needed not in happened[happened.index(by) :], f"{needed} is done before {by} begins")


if __name__ == "__main__":
    main()

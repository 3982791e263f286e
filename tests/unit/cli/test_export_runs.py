"""A program's history leaves a store as lines that the shipped schema describes, and comes into another the same."""

from __future__ import annotations

import asyncio
import json
from importlib.resources import files

import jsonschema
import pytest

from holdfast import PythonRunner, SQLiteCheckpointStorage

pytestmark = pytest.mark.blocks_the_loop("a command has its loop to itself")

CODE = """
import asyncio, time
print("begun")
for n in range(30):
    await fetch(n)
await asyncio.gather(fetch(31), fetch(32))
time.sleep(0.06)
try:
    send({"api_key": "secret", "to": b"ada"})
except ValueError as error:
    print(error)
{"n": 1, "when": time.time() > 0, "seen": {1, 2}, "pair": (1, 2)}
"""


async def fetch(n: int) -> dict[str, object]:
    return {"n": n, "raw": b"x", "pair": (1, 2), "when": None}


def send(what: dict[str, object]) -> None:
    raise ValueError("refused")


@pytest.fixture
def _ran(tmp_path):
    storage = SQLiteCheckpointStorage(tmp_path / "checkpoints.db")

    async def ran():
        async with PythonRunner(storage, tools=[fetch, send]) as runner:
            return await runner.run("a", CODE, "call_1", session="s")

    assert asyncio.run(ran()).error is None


def lines(holdfast, *options):
    return [json.loads(line) for line in holdfast("export", "a", "--all", *options).out.splitlines()]


@pytest.mark.usefixtures("_ran")
@pytest.mark.parametrize("snapshots", ["kept", "rebuild", "none"])
def test_every_line_is_valid_against_the_schema(holdfast, snapshots):
    schema = json.loads(files("holdfast.history").joinpath("records.schema.json").read_text(encoding="utf-8"))
    exported = lines(holdfast, "--snapshots", snapshots)
    for line in exported:
        jsonschema.validate(line, schema)
    calls = [line for line in exported if line["type"] == "rlm_tool_call"]
    kept = [line for line in calls if line["snapshot"] is not None]
    assert len(calls) == 34
    if snapshots == "rebuild":
        assert len(kept) == 33, "one for the calls that were made together"
    else:
        assert bool(kept) == (snapshots == "kept")


@pytest.mark.usefixtures("_ran")
def test_the_history_comes_in_the_same(holdfast, tmp_path):
    exported = holdfast("export", "a", "--snapshots", "none").out
    (tmp_path / "a.jsonl").write_text(exported, encoding="utf-8")
    holdfast("--store", "other.db", "import", "a.jsonl", "--agent", "a")
    assert holdfast("--store", "other.db", "export", "a", "--snapshots", "none").out == exported

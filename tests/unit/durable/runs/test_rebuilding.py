"""Snapshots that were not kept can be made again from the records, and are those that would have been taken."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_monty import FutureSnapshot, Monty

from holdfast.durable.runs.rebuilding import with_snapshots
from holdfast.durable.runs.snapshotting import SnapshotPolicy
from holdfast.durable.runs.standins import standins
from holdfast.durable.runs.tool import Tool, Tools
from holdfast.history.records import RlmComplete, RlmToolCall

CODE = """
import asyncio, random, time
told = [random.random()]
for n in range(3):
    told.append(plain(n, by=2))
    told += await asyncio.gather(slow(n), slow(n + 10))
    time.sleep(0.001)
    try:
        fails(n)
    except KeyError as error:
        told.append(str(error))
time.sleep(0.06)
told.append(plain(time.time() > 0))
[plain(1), told]
"""


def plain(n: int, *, by: int = 1) -> int:
    return n * by


async def slow(n: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"n": n}


def fails(n: int) -> int:
    raise KeyError(n)


def bare(records):
    return [
        record.evolve(snapshot=None) if isinstance(record, RlmToolCall | RlmComplete) else record for record in records
    ]


def snapshots(records):
    return {record.seq: record.snapshot for record in records if isinstance(record, RlmToolCall)}


def asked_by(records):
    """What each snapshot asks when it is loaded, and how large it is; a few of its bytes tell the time."""
    asked = {}
    with Monty(max_processes=1) as pool:
        for seq, data in snapshots(records).items():
            if data is not None:
                with pool.checkout() as session:
                    here = session.load_snapshot(data)
                    waits = sorted(here.pending_call_ids) if isinstance(here, FutureSnapshot) else here.function_name
                    asked[seq] = (str(waits), len(data) // 50)
    return asked


@pytest.fixture
def _eager(monkeypatch):
    monkeypatch.setattr(SnapshotPolicy, "wants", lambda self, seconds: True)


@pytest.mark.usefixtures("_eager")
async def test_they_are_those_that_would_have_been_taken(runner_with, store):
    result = await runner_with(plain, slow, fails, type_check=False).run("a", CODE, "call_1")
    assert not result.is_error, result.error
    records = await store.read("a")
    assert len(asked_by(records)) > 8
    assert asked_by(await with_snapshots(bare(records))) == asked_by(records)


@pytest.mark.usefixtures("_eager")
async def test_a_program_of_a_session_begins_with_what_the_ones_before_left(runner_with, store):
    runner = runner_with(plain, type_check=False)
    await runner.run("a", "x = plain(3)\ndef more(n):\n    return plain(n) + x", "one", session="s")
    await runner.run("a", "nope", "two", session="s")
    await runner.run("a", "[more(1), plain(2)]", "three", session="s")
    records = await store.read("a")
    assert len(asked_by(records)) == 3
    assert asked_by(await with_snapshots(bare(records))) == asked_by(records)


async def test_what_is_kept_stays_as_it_is(runner_with, store):
    await runner_with(plain).run("a", "plain(1)\nplain(2)", "call_1")
    history = await store.read("a")
    records = [record.evolve(snapshot=b"kept") if isinstance(record, RlmToolCall) else record for record in history]
    assert await with_snapshots(records) == records


async def test_a_run_that_does_not_repeat_itself_keeps_what_it_had(runner_with, store):
    await runner_with(plain).run("a", "plain(1)\nplain(2)", "call_1")
    records = [
        record.evolve(tool_name="other") if isinstance(record, RlmToolCall) and record.tool_args == {"n": 2} else record
        for record in bare(await store.read("a"))
    ]
    first, second = snapshots(await with_snapshots(records)).values()
    assert first is not None
    assert second is None


def outcome(tool, args, kwargs):
    try:
        return tool.bind(args, kwargs)
    except TypeError as error:
        return str(error)


def several(a: int, /, b: str, *rest: float, c: bool, d: int = 3, **more: object) -> None: ...


@pytest.mark.parametrize("tool", [plain, slow, fails, several, Tool(lambda: None, name="nothing")])
def test_a_stand_in_binds_as_the_tool_did(tool):
    original = Tool.of(tool)
    [stand_in] = standins(Tools.of([tool]).preamble)
    assert (stand_in.name, stand_in.is_async) == (original.name, original.is_async)
    for args, kwargs in [((1,), {}), ((), {}), ((1, "b", 2.0), {"c": True, "x": 1}), ((), {"n": 1}), ((1,), {"by": 2})]:
        assert outcome(stand_in, args, kwargs) == outcome(original, args, kwargs)

"""A disk that fills up: what was acknowledged stays, what a tool returned fits, gc makes room, and work goes on."""

import asyncio
import os
import random
from collections import Counter

import pytest

from holdfast import CheckpointManager, PythonRunner, Tool
from holdfast.durable.runs.limits import Limits
from holdfast.errors import DiskFull, StaleWriter
from holdfast.history.records import RlmToolResult
from holdfast.history.retention import Policy
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.ballast import Ballast
from holdfast.storage.sqlite.reserve import Reserve
from holdfast.testing.samples import commit, continued, save
from tests.faults.children import line, running
from tests.faults.report import LONG, tell
from tests.faults.small_disk import small_disk

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(900 if LONG else 60)]

LARGEST = Limits().result_bytes_max - 8  # as text, which has a head of its own


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 24) as disk:
        yield disk


@pytest.fixture
def smaller_disk(tmp_path):
    """One that is filled sooner."""
    with small_disk(tmp_path / "disk", 12) as disk:
        yield disk


async def results_of(store, agent="agent"):
    return [len(record.tool_result) for record in await store.read(agent) if isinstance(record, RlmToolResult)]


# --- results


@pytest.fixture
def no_ballast(monkeypatch):
    """Else its room would do for a result, and the room that was kept for the result would not be needed."""
    monkeypatch.setattr(Ballast, "load", lambda _: None)


@pytest.fixture
def no_reserve(monkeypatch):
    """The mutant: no room is kept for the results of calls."""
    monkeypatch.setattr(Reserve, "promise", lambda *_: None)


async def test_the_largest_result_is_recorded_although_the_disk_filled_up_while_its_tool_ran(disk, no_ballast):
    called, store = [], SQLiteCheckpointStorage(disk.folder / "store.db")
    async with PythonRunner(store, [filling(disk, called)], type_check=False) as runner:
        with pytest.raises(DiskFull) as full:
            await runner.run("agent", FETCHES, "call_1")
        assert "gc" in full.value.hint
        assert called == [1]
        assert await results_of(store) == [LARGEST]
        disk.empty()
        assert (await runner.run("agent", FETCHES, "call_1")).output == 2 * LARGEST
        assert called == [1, 2]
        assert (await store.verify()).ok


async def test_the_harness_sees_a_largest_result_for_which_no_room_was_kept(disk, no_ballast, no_reserve):
    """The control: the same, but for the reserve."""
    called, store = [], SQLiteCheckpointStorage(disk.folder / "store.db")
    async with PythonRunner(store, [filling(disk, called)], type_check=False) as runner:
        with pytest.raises(DiskFull):
            await runner.run("agent", FETCHES, "call_1")
        assert called == [1]
        assert await results_of(store) == []
        disk.empty()


FETCHES = "len(fetch(1) + fetch(2))"


def filling(disk, called):
    """A tool that fills the disk when it is called first."""

    def fetch(n: int) -> str:
        called.append(n)
        if len(called) == 1:
            disk.fill()
        return "r" * LARGEST

    return fetch


async def test_calls_that_are_made_together_have_room_for_all_their_results(disk, no_ballast, monkeypatch):
    called = []
    refused, settled, at_last = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetch(n: int) -> str:
        called.append(n)
        if n == 1:
            await asyncio.to_thread(disk.fill)
        else:
            await at_last.wait()  # it is still under way when there is no room for the next call
        return "r" * LARGEST

    async def note(n: int) -> None:
        called.append(f"note {n}")

    code = """
import asyncio
async def one(n):
    found = len(await fetch(n))
    await note(n)
    return found
sum(await asyncio.gather(one(1), one(2), one(3), one(4)))
"""
    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    commit_it = store.commit

    async def committed(*changes):
        try:
            done = await commit_it(*changes)
        except DiskFull:
            refused.set()
            raise
        if refused.is_set():
            settled.set()
        return done

    monkeypatch.setattr(store, "commit", committed)
    async with PythonRunner(store, [fetch, note], type_check=False) as runner:
        running_on = asyncio.ensure_future(runner.run("agent", code, "call_1"))
        await refused.wait()  # the call of `note`
        if LARGEST not in await results_of(store):
            await settled.wait()  # the first result is recorded while the other calls are still under way
        assert LARGEST in await results_of(store)
        at_last.set()
        with pytest.raises(DiskFull):
            await running_on
        assert called == [1, 2, 3, 4]
        assert await results_of(store) == [LARGEST] * 4
        disk.empty()
        assert (await runner.run("agent", code, "call_1")).output == 4 * LARGEST
        assert len(called) == 8
        assert (await store.verify()).ok


async def test_no_tool_is_called_whose_result_would_not_fit(disk, no_ballast):
    found = await called_at_every_level(disk, 64 if LONG else 512)
    tell(
        "full disk, tools",
        "The disk has so and so much room when a tool is to be called.",
        fill_levels=found["levels"], refused=found["refused"], called=found["called"], lost=found["lost"],
    )  # fmt: skip
    assert found["lost"] == 0
    assert found["refused"]
    assert found["called"]


async def test_the_harness_sees_results_for_which_no_room_was_kept(disk, no_ballast, no_reserve):
    """The control: the same, but for the reserve, and a tool is called whose result does not fit."""
    found = await called_at_every_level(disk, 256, take_over=True)  # nor is there room to give the agent back
    tell(
        "full disk, tools without a reserve",
        "A control: no room is kept for the results of tools, which Holdfast always does.",
        fill_levels=found["levels"], refused=found["refused"], called=found["called"], lost=found["lost"],
    )  # fmt: skip
    assert found["lost"]


async def called_at_every_level(disk, step_kilobytes, *, take_over=False):
    """What became of a tool that was to be called when the disk had no room, a little more, and so on to 3 MB."""
    called, found = [], Counter()

    def fetch() -> str:
        called.append(1)
        return "r" * LARGEST

    for leave in range(0, 3 << 20, step_kilobytes << 10):
        store = SQLiteCheckpointStorage(disk.folder / f"{leave}.db")
        await save(store, "other")
        disk.fill(leave=leave)
        called.clear()
        async with PythonRunner(store, [fetch], type_check=False, workers=1) as runner:
            try:
                result = await runner.run("agent", "len(fetch())", "call_1")
            except DiskFull:
                if called:  # then it is the end for which there was no room
                    found["lost"] += await results_of(store) != [LARGEST]
                else:
                    found["refused"] += 1
                disk.empty()
                result = await runner.run("agent", "len(fetch())", "call_1", take_over=take_over)
            assert result.output == LARGEST or "Process was restarted" in result.error, result
            assert len(called) <= 1, leave
            found["called"] += len(called)
            found["lost"] += len(called) != (result.output == LARGEST)
            assert (await store.verify()).ok
        disk.empty()
        for path in disk.folder.glob(f"{leave}.db*"):
            path.unlink()
        found["levels"] += 1
    return found


async def test_what_a_tool_raised_fits_as_well(disk, no_ballast):
    def fetch() -> str:
        disk.fill()
        raise ValueError("\U0001f600" * 6 * LARGEST)

    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    async with PythonRunner(store, [fetch], type_check=False) as runner:
        with pytest.raises(DiskFull):
            await runner.run("agent", "try:\n    fetch()\nexcept ValueError:\n    fetch()", "call_1")
        [result] = [record for record in await store.read("agent") if isinstance(record, RlmToolResult)]
        assert result.tool_is_error
        assert result.tool_result["type"] == "ValueError"


async def test_a_run_that_found_the_disk_full_is_nobodys_afterwards(disk):
    def fetch() -> None:
        disk.fill()

    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    async with PythonRunner(store, [fetch], type_check=False) as runner:
        with pytest.raises(DiskFull):
            await runner.run("agent", "fetch()\n'x' * 8_000_000", "call_1")
        info = await store.agent("agent")
        assert info.owner is None


async def test_room_that_was_kept_is_given_back(disk):
    async def fetch(n: int) -> int:
        return n

    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    code = "import asyncio\nsum(await asyncio.gather(*[fetch(n) for n in range(10)]))"
    async with PythonRunner(store, [fetch], type_check=False) as runner:
        assert (await runner.run("agent", code, "call_1")).output == 45
        [writer] = (disk.folder / "store.db.writers").iterdir()
        assert store.write_side.session.reserve.promised == 0
        assert writer.stat().st_size == 4 << 20
    assert not writer.exists()


async def test_a_run_that_was_taken_over_gives_its_room_back(folder):
    entered, hangs = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        entered.set()
        await hangs.wait()

    async def go_on() -> None: ...

    store, elsewhere = (SQLiteCheckpointStorage(folder / "store.db") for _ in range(2))
    new = PythonRunner(elsewhere, [Tool(go_on, name="step", on_restart="retry")], type_check=False)
    async with PythonRunner(store, [Tool(hang, name="step")], type_check=False) as runner, new:
        old = asyncio.ensure_future(runner.run("agent", "await step()\nawait step()", "call_1"))
        await entered.wait()
        assert store.write_side.session.reserve.promised > 0
        await new.run("agent", "await step()\nawait step()", "call_1", take_over=True)
        hangs.set()
        with pytest.raises(StaleWriter):
            await old
        assert store.write_side.session.reserve.promised == 0


# --- saves


async def test_acknowledged_saves_survive_a_disk_that_is_full_at_any_block(disk):
    tried = refused = 0
    for blocks in range(0, 320, 3 if LONG else 36):
        path = disk.folder / f"{blocks}.db"
        store = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
        acknowledged = [(await continued(store, state={"n": -1})).id]
        disk.fill(leave=blocks * 4096)
        for n in range(80):
            try:
                acknowledged.append((await continued(store, state={"n": n, "bulk": _noise(n)})).id)
            except DiskFull:
                refused += 1
                break
        for opened in ("here", "anew"):
            if opened == "anew":
                await store.close()
                store = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
            assert {one.id for one in await store.list(Query(limit=None))} == set(acknowledged), (blocks, opened)
            assert (await store.verify()).ok, blocks
        disk.empty()
        acknowledged.append((await continued(store, state={"n": "more"})).id)
        assert set((await store.verify()).whole) == set(acknowledged)
        await store.close()
        tried += 1
        for left in disk.folder.glob(f"{blocks}.db*"):
            left.unlink()
    tell(
        "full disk, saves",
        "An agent saves until a small disk with so and so many free blocks is full.",
        fill_levels=tried, refused_saves=refused,
    )  # fmt: skip
    assert refused == tried


async def test_one_save_that_is_too_large_keeps_no_other_one_out(disk):
    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    await save(store)
    disk.fill(leave=1 << 20)
    large = save(store, "large", state={"bulk": os.urandom(3 << 20)})
    done = await asyncio.gather(save(store, "one"), large, save(store, "other"), return_exceptions=True)
    assert isinstance(done[1], DiskFull)
    assert {agent.agent_id for agent in await store.agents()} == {"agent", "one", "other"}
    await store.close()


# --- making room


async def filled(disk, store):
    """Saves of several agents until there is no room; how many there were."""
    for n in range(10_000):
        try:
            await continued(store, f"agent-{n % 7}", state={"n": n, "bulk": _noise(n)})
        except DiskFull:
            disk.fill()
            return n
    raise AssertionError("the disk was never full")


async def test_gc_works_on_a_disk_that_a_store_has_filled_itself(smaller_disk):
    store = SQLiteCheckpointStorage(smaller_disk.folder / "store.db", max_checkpoints_per_user=None)
    before = await filled(smaller_disk, store)
    async with CheckpointManager(storage=store, retention=Policy(per_user=10)) as manager:
        done = await manager.collect_garbage()
        assert done["retired"] >= before - 20
        assert smaller_disk.free > 5 << 20
        report = await manager.verify()
        assert report.ok
        assert len(report.whole) == before - done["retired"]
        assert (smaller_disk.folder / "store.db.ballast").stat().st_size > 0
        await continued(store, "agent-1")
        tell("full disk, gc", "A store fills its disk, then gc makes room.", retired=done["retired"])


async def test_an_agent_can_be_erased_on_a_full_disk(smaller_disk):
    store = SQLiteCheckpointStorage(smaller_disk.folder / "store.db", max_checkpoints_per_user=None)
    await filled(smaller_disk, store)
    await commit(store, "agent-1", erase=True)
    await store.collect_garbage()
    assert smaller_disk.free > 1 << 20
    await continued(store, "agent-2")
    assert (await store.verify()).ok
    await store.close()


async def test_a_store_whose_process_died_on_a_full_disk_opens_in_the_room_of_the_ballast(smaller_disk):
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
        try:
            for n in range(10_000):
                say((await continued(store, state={"n": n, "bulk": os.urandom(6000)})).id)
        except DiskFull:
            say("full")
            sys.stdin.readline()
    asyncio.run(main())
    """
    path = smaller_disk.folder / "store.db"
    acknowledged = []
    with running(program, path) as child:
        while (said := line(child)) != "full":
            acknowledged.append(said)
    smaller_disk.fill()
    assert smaller_disk.free == 0
    async with CheckpointManager(storage=SQLiteCheckpointStorage(path), retention=Policy(per_user=5)) as manager:
        listed = await manager.store.list(Query(limit=None, oldest_first=True))
        assert [one.id for one in listed] == acknowledged
        await manager.collect_garbage()
        assert set((await manager.verify()).whole) == set(acknowledged[-5:])
        await continued(manager.store)


async def test_a_store_that_does_not_even_open_says_that_the_disk_is_full(disk):
    disk.fill()
    store = SQLiteCheckpointStorage(disk.folder / "store.db")
    with pytest.raises(DiskFull):
        await save(store)
    disk.empty()
    await save(store)
    await store.close()


def _noise(n):
    return random.Random(n).randbytes(20_000)

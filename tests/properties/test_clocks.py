"""Claims about clocks that go back, jump and differ between processes: nothing that is kept hangs on them."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import CheckpointManager, FileCheckpointStorage, InMemoryCheckpointStorage, SQLiteCheckpointStorage
from holdfast.history.retention import Policy
from tests.faults.children import line, running
from tests.faults.children import tell as say
from tests.faults.report import LONG, tell, times
from tests.unit.durable.samples import Agent

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200 if LONG else 60)]

EXAMPLES = settings(max_examples=300) if LONG else settings()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
YEARS = 86400.0 * 4000
JUMPS = st.sampled_from([0, 0, 0, 1e-6, -1e-6, 0.5, 1, -1, 3600, -3600, 7e5, -7e5, YEARS, -YEARS])
STEPS = st.lists(
    st.tuples(st.integers(0, 1), JUMPS, st.sampled_from(["manual", "routine"]), st.sampled_from(["ada", "bob"])),
    min_size=1, max_size=25,
)  # fmt: skip


class Wrong:
    """A clock that is wrong in a new way each time."""

    def __init__(self):
        self.time = NOON

    def __call__(self):
        return self.time

    def jump(self, seconds):
        self.time += timedelta(seconds=seconds)


async def steps_are_kept_in_order(steps, make):
    """Two processes save on in turns, each with its own clock; every answer is in the order of the commits."""
    clocks = [Wrong(), Wrong()]
    managers = [
        CheckpointManager(make(), now=clock, retention=Policy(routine_per_agent=3, per_user=5)) for clock in clocks
    ]
    saved: dict[str, list[tuple[str, str]]] = {"ada": [], "bob": []}
    for place, (who, jump, kind, name) in enumerate(steps):
        clocks[who].jump(jump)
        agent = Agent(name)
        agent.step(place)
        saved[name].append((await managers[who].save(agent, kind=kind), kind))
    for manager in managers:
        for name, ids in saved.items():
            listed = await manager.list_by_agent(name, limit=100)
            of_kind = {
                kind: [id_ for id_, this in reversed(ids) if this == kind][: 3 if kind == "routine" else None]
                for kind in ("manual", "routine")
            }
            assert [one.id for one in listed if one.kind == "routine"] == of_kind["routine"]
            manuals = [one.id for one in listed if one.kind == "manual"]
            assert manuals == of_kind["manual"][: len(manuals)], "the oldest go, by the number of their commits"
            latest = await manager.latest(name)
            assert (latest and latest.id) == (ids[-1][0] if ids else None)
            assert [one.position for one in listed] == sorted((one.position for one in listed), reverse=True)
        everyone = await manager.list_by_user("u", limit=100)
        numbers = [one.commit_number for one in everyone]
        assert numbers == sorted(numbers, reverse=True)
        assert sum(one.kind == "manual" for one in everyone) <= 5 + 2, "the limit, and each agent's newest"
        assert (await manager.verify()).ok
    for manager in managers:
        await manager.close()


def test_order_latest_and_limits_go_by_the_stores_number():
    found: Counter[str] = Counter()

    @EXAMPLES
    @given(STEPS)
    @example([(0, 0, "manual", "ada")] * 9)
    @example([(0, -86400 * 4000, "manual", "ada"), (1, 0, "manual", "ada"), (0, -3600, "routine", "ada")] * 4)
    def holds(steps):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.db"
            asyncio.run(steps_are_kept_in_order(steps, lambda: SQLiteCheckpointStorage(path)))
        found.update(histories=1, saves=len(steps), jumps=sum(bool(jump) for _, jump, *_ in steps))

    holds()
    tell(
        "clocks, two in one process",
        "Two managers of one store save in turns, each with a clock that jumps by up to 11 years; all order is that of"
        " the commits, or the test fails.",
        **found,
    )
    assert found["jumps"]


@EXAMPLES
@given(STEPS)
def test_the_same_holds_in_memory(steps):
    shared = InMemoryCheckpointStorage()
    asyncio.run(steps_are_kept_in_order(steps, lambda: shared))


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 1), JUMPS), min_size=1, max_size=12))
def test_files_go_by_the_number_too(steps):
    async def saved_in_order(folder):
        clocks = [Wrong(), Wrong()]
        managers = [CheckpointManager(FileCheckpointStorage(folder), now=clock) for clock in clocks]
        ids = []
        for who, jump in steps:
            clocks[who].jump(jump)
            ids.append(await managers[who].save(Agent()))
        for manager in managers:
            assert [one.id for one in await manager.list_by_agent("ada")] == ids[::-1]
            assert (await manager.latest("ada")).id == ids[-1]
            await manager.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(saved_in_order(folder))


ELSEWHERE = """
import time
from datetime import UTC, datetime, timedelta
from holdfast import CheckpointManager
from holdfast.history.retention import Policy
from tests.unit.durable.samples import Agent

really, off = time.time_ns, [0]
time.time_ns = lambda: really() + int(off[0] * 1e9)
time.time = lambda: time.time_ns() / 1e9

def now():
    return datetime.now(UTC) + timedelta(seconds=off[0])

async def main():
    store = SQLiteCheckpointStorage(path, now=now)
    manager = CheckpointManager(store, now=now, retention=Policy(routine_per_agent=3, per_user=5))
    say("ready")
    for asked in sys.stdin:
        seconds, name, kind = asked.split()
        off[0] = float(seconds)
        saved = await manager.save(Agent(name), kind=kind)
        newest = await manager.latest(name)
        assert newest.id == saved
        say(saved, newest.timestamp.timestamp())
asyncio.run(main())
"""
TURNS = times("HOLDFAST_CLOCK_TURNS", short=40, long=2000)


@pytest.mark.anyio
async def test_order_and_newest_go_by_the_stores_number_between_processes_whose_clocks_differ(tmp_path):
    """The other process believes that it lives years before this one, or after."""
    path, chance, shifts, wrong = tmp_path / "store.db", random.Random(1), Counter(), 0
    saved: dict[tuple[str, str], list[str]] = {}
    manager = CheckpointManager(SQLiteCheckpointStorage(path), retention=Policy(routine_per_agent=3, per_user=5))
    with running(ELSEWHERE, path) as child:
        assert line(child) == "ready"
        for turn in range(TURNS):
            name, kind = chance.choice(["ada", "bob"]), chance.choice(["manual", "routine"])
            if turn % 2:
                shift = chance.choice([-YEARS, -3600.0, -1.0, 1.0, 3600.0, YEARS])
                id_, moment = await elsewhere(child, shift, name, kind)
                off = moment - datetime.now(UTC).timestamp() - shift
                assert abs(off) < 600, "the clock there is the one that it was given"
                shifts["ahead" if shift > 0 else "behind"] += 1
            else:
                id_ = await manager.save(Agent(name), kind=kind)
            saved.setdefault((name, kind), []).append(id_)
            listed = await manager.list_by_agent(name, limit=100)
            wrong += listed[0].id != id_ or (await manager.latest(name)).id != id_
            routine = [one.id for one in listed if one.kind == "routine"]
            wrong += routine != saved.get((name, "routine"), [])[::-1][:3]
    tell(
        "clocks, two processes",
        "Two processes save in turns in one store; the clock of one is behind that of the other, or ahead, by up to"
        " 11 years.",
        saves=TURNS, behind=shifts["behind"], ahead=shifts["ahead"], wrong_answers=wrong,
    )  # fmt: skip
    assert wrong == 0
    assert shifts["behind"]
    assert shifts["ahead"]
    assert (await manager.verify()).ok
    await manager.close()


async def elsewhere(child, shift, name, kind):
    """Lets the other process save; the checkpoint's id, and when that process believes that it was."""
    say(child, f"{shift} {name} {kind}")
    id_, moment = (await asyncio.to_thread(line, child)).split()
    return id_, float(moment)


@pytest.mark.anyio
async def test_a_clock_that_went_back_retires_nothing_and_one_that_jumped_keeps_the_newest():
    clock = Wrong()
    manager = CheckpointManager(InMemoryCheckpointStorage(), now=clock)
    ids = [await manager.save(Agent(), kind="recovery") for _ in range(3)]
    clock.jump(-86400 * 4000)
    ids.append(await manager.save(Agent(), kind="recovery"))
    assert await manager.cleanup_old_checkpoints(max_age_days=1) == 0
    assert [one.id for one in await manager.list_by_agent("ada")] == ids[::-1]
    clock.jump(86400 * 9000)
    assert await manager.cleanup_old_checkpoints(max_age_days=1) == 3
    assert [one.id for one in await manager.list_by_agent("ada")] == ids[-1:]


@pytest.mark.anyio
async def test_a_program_whose_host_has_another_clock_sleeps_no_longer_than_it_said(tmp_path, monkeypatch):
    """It was left behind while it slept; whoever goes on has a clock that is years behind, or ahead."""
    from holdfast import PythonRunner
    from holdfast.durable.runs import drive

    slept = []
    really = asyncio.sleep

    async def sleeping(seconds, *args):
        slept.append(seconds)
        await really(0 if len(slept) > 1 else 3600)

    monkeypatch.setattr(drive.asyncio, "sleep", sleeping)
    code = "import time\nbefore = time.time()\ntime.sleep(300)\ntime.time() >= before"
    for number, wrong in enumerate((-1e8, -1.0, 0.0, 100.0, 1e8)):
        slept.clear()
        store = SQLiteCheckpointStorage(tmp_path / f"{number}.db")
        first = PythonRunner(store, now=lambda: 1e9)
        task = asyncio.ensure_future(first.run("a", code, "call_1"))
        while not slept:
            await really(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await first._executor.seats.close()
        second = PythonRunner(store, now=lambda wrong=wrong: 1e9 + wrong)
        [result] = await second.recover()
        assert result.output is True, result.error
        assert slept[0] == 300
        assert slept[1:] == [min(300, max(0, 300 - wrong))]
        await second.close()
        await first.close()

"""The clock, chance and sleep come from the host and are recorded: a replay sees what the program saw."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.mounts import Mount
from tests.unit.durable.runs.conftest import Killed


def dying_check(seen, *, dies):
    def check(value: object) -> object:
        seen.append(value)
        if dies and len(seen) == 2:
            raise Killed
        return value

    return check


@pytest.mark.parametrize("snapshots", ["kept", "lost"])
async def test_a_replay_sees_the_clock_and_the_chance_of_the_first_time(runner_with, store, snapshots):
    code = """
import time, random, datetime
a = [time.time(), random.random(), datetime.datetime.now(), datetime.date.today(), time.monotonic()]
check(str(a))
b = [time.time(), random.random(), random.randint(1, 10**9)]
try:
    check(str(b))
except RuntimeError:
    pass
[str(a), str(b)]
"""
    seen = []
    with pytest.raises(Killed):
        await runner_with(dying_check(seen, dies=True)).run("a", code, "call_1")
    if snapshots == "lost":
        await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))
    [result] = await runner_with(dying_check(seen, dies=False)).recover()
    assert result.output == seen


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_hundred_thousand_clock_reads_work(runner_with):
    code = """
import time
last = 0
for _ in range(100000):
    now = time.time()
    assert now >= last
    last = now
'ok'
"""
    assert (await runner_with().run("a", code, "call_1")).output == "ok"


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("sleep", ["time.sleep(3600)", "await asyncio.sleep(3600)"])
async def test_a_sleep_ends_at_its_moment_whoever_waits_for_it(runner_with, monkeypatch, sleep):
    clock, slept = Clock(), []

    async def sleeping(seconds, *args):
        if seconds >= 1:
            slept.append(seconds)
            if len(slept) == 1:
                clock.now += 600
                raise Killed
            clock.now += seconds

    from holdfast.durable.runs import drive

    monkeypatch.setattr(drive.asyncio, "sleep", sleeping)
    code = f"import time, asyncio\nbefore = time.time()\n{sleep}\ntime.time() - before"
    with pytest.raises(Killed):
        await runner_with(now=clock).run("a", code, "call_1")
    [result] = await runner_with(now=clock).recover()
    assert slept == [3600, 3000]
    assert result.output == 3600
    assert result.tool_call_count == 0


async def test_the_clock_never_goes_back(runner_with):
    clock = Clock()

    def back() -> None:
        clock.now -= 1000

    code = "import time\na = time.time()\nback()\ntime.time() >= a"
    assert (await runner_with(back, now=clock).run("a", code, "call_1")).output is True


async def test_a_program_sees_nothing_of_the_host_unless_it_is_given(runner_with, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "note.txt").write_text("hello")
    runner = runner_with(type_check=False)
    assert (await runner.run("a", "import os\n[os.getenv('SECRET'), dict(os.environ)]", "1")).output == [None, {}]
    denied = await runner.run("a", f"open({str(tmp_path / 'note.txt')!r}).read()", "2")
    assert "PermissionError" in denied.error
    given = runner_with(environment={"HOME": "/"}, mounts={"/data": tmp_path}, type_check=False)
    assert (await given.run("a", "import os\nos.getenv('HOME')", "3")).output == "/"
    assert (await given.run("a", "open('/data/note.txt').read()", "4")).output == "hello"
    assert (await given.run("a", "open('/data/new.txt', 'w').write('x')", "5")).is_error
    writable = runner_with(mounts={"/data": Mount(tmp_path, writable=True)}, type_check=False)
    assert not (await writable.run("a", "open('/data/new.txt', 'w').write('x')", "6")).is_error
    assert (tmp_path / "new.txt").read_text() == "x"


async def test_a_short_sleep_costs_no_record(runner_with, store):
    await runner_with().run("a", "import time\nfor _ in range(3):\n    time.sleep(0.001)\n1", "call_1")
    assert [record.type for record in await store.read("a")] == ["rlm_start", "rlm_complete"]


async def test_gathered_sleeps_overlap(runner_with):
    started = asyncio.get_running_loop().time()
    code = "import asyncio\nawait asyncio.gather(*[asyncio.sleep(0.1) for _ in range(20)])\n1"
    assert (await runner_with().run("a", code, "call_1")).output == 1
    assert asyncio.get_running_loop().time() - started < 1.9

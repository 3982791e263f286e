"""A run that was killed anywhere and recovered equals the undisturbed one that got the same answers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.runs import world
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.snapshotting import SnapshotPolicy
from holdfast.durable.runs.tool import Tool
from holdfast.durable.runs.values import masked_text
from holdfast.history.records import RlmComplete, RlmRestart, RlmToolCall, RlmToolResult
from holdfast.storage.sqlite import SQLiteCheckpointStorage


class Killed(BaseException):
    pass


class Mortal(SQLiteCheckpointStorage):
    """A store whose process dies at one of its commits, before or after it is durable."""

    dies_at: int | None = None
    after = False
    commits = 0
    dead = False

    async def commit(self, *changes):
        self.commits += 1
        dies = self.commits == self.dies_at
        if self.dead or (dies and not self.after):
            self.dead = True
            raise Killed
        done = await super().commit(*changes)
        if dies:
            self.dead = True
            raise Killed
        return done


def plain(n: int) -> list[int]:
    return list(range(n % 7))


async def slow(n: int) -> dict[str, object]:
    await asyncio.sleep(0)
    return {"n": n, "name": f"value {n}", "set": {str(n), "b", "a"}}


def fails(n: int) -> int:
    if n % 2:
        raise KeyError(f"odd {n}")
    return n


TOOLS = [Tool(function, on_restart="retry") for function in (plain, slow, fails)]

HEAD = """
import asyncio, random, time
total, seen, log = 0, [], []
class Box:
    def __init__(self, value):
        self.value = value
    def grow(self, by):
        self.value += by
        return self.value
def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    return step
step, box = counter(), Box(1)
async def chain(n):
    first = await slow(n)
    seen.append(first["n"])
    second = await slow(first["n"] + 1)
    return second["name"]
def careful(n):
    try:
        return fails(n)
    except KeyError as error:
        return str(error)
    finally:
        log.append(n)
"""
TAIL = "\n[total, seen, log, step(), box.value, sorted(str(x) for x in seen)]"

numbers = st.integers(0, 20)
STATEMENTS = st.one_of(
    st.builds("total += sum(plain({}))".format, numbers),
    st.builds("print('at', {}, len(seen), step())".format, numbers),
    st.builds("seen.append(careful({}))".format, numbers),
    st.builds("for i in range({}):\n    total += len(plain(i)) + box.grow(i)".format, st.integers(0, 5)),
    st.builds("seen += await asyncio.gather(chain({}), chain({}), slow(3))".format, numbers, numbers),
    st.builds("seen.append((await slow({}))['set'])".format, numbers),
    st.builds("for item in (await slow({}))['set']:\n    print(item)".format, numbers),
    st.builds("big = ['x' * 50] * {}\ntotal += len(big)".format, st.integers(0, 5000)),
    st.builds("seen.append([random.random() for _ in range({})])".format, st.integers(0, 3)),
    st.builds("seen.append(time.time() > {})".format, numbers),
    st.builds("await asyncio.gather(*[slow(n) for n in range({})])".format, st.integers(1, 4)),
    st.builds("a, b = slow({}), plain({})\nseen.append((await a)['n'])".format, numbers, numbers),
    st.builds("time.sleep({})".format, st.sampled_from([0.0001, 0.051])),
    st.builds("print(Box({}))".format, numbers),
)
PROGRAMS = st.lists(STATEMENTS, min_size=1, max_size=6).map(lambda lines: HEAD + "\n".join(lines) + TAIL)


def told(result):
    # Where an object lies in memory is not the same after a restore, which is said to those who use it.
    return (
        repr(result.output),
        masked_text(result.print_output),
        result.tool_call_count,
        result.is_error,
        result.error,
    )


def essence(records):
    """What must agree: every record but those of the recovery, and the answers of the first attempt at each call."""
    kept = []
    for record in records:
        if isinstance(record, RlmToolCall) and not record.attempt:
            kept.append((record.type, record.call_id, record.tool_name, repr(_timeless(record.tool_args)),
                         masked_text(record.print_output), record.tool_call_count))  # fmt: skip
        elif isinstance(record, RlmToolResult):
            kept.append((record.type, record.call_id, repr(record.tool_result), record.tool_is_error))
        elif not isinstance(record, RlmToolCall | RlmRestart | RlmComplete):
            kept.append((record.type,))
    return sorted(kept, key=repr)


def _timeless(arguments):
    return {name: value for name, value in arguments.items() if name != "until"}


async def run(folder, code, *, dies_at, after, eager):
    """The outcome, and the records; killed at one commit, if there is such a commit."""
    store = Mortal(Path(folder) / f"{dies_at}-{after}.db")
    store.dies_at, store.after = dies_at, after
    first = PythonRunner(store, TOOLS, type_check=False, now=lambda: 1_000_000.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.os, "urandom", lambda n: (bytes(range(256)) * (n // 256 + 1))[:n])
        if not eager:
            patch.setattr(SnapshotPolicy, "wants", lambda self, seconds: self._dump_seconds is None)
        try:
            result = await first.run("a", code, "call_1")
        except Killed:
            await first._executor.seats.close()
            await store.close()
            store = SQLiteCheckpointStorage(store.path)  # as another process would
            second = PythonRunner(store, TOOLS, type_check=False, now=lambda: 1_000_000.0)
            result = await second.run("a", code, "call_1")
            await second._executor.seats.close()
    await first._executor.seats.close()
    records = await store.read("a")
    commits = getattr(store, "commits", 0)
    await store.close()
    return result, records, commits


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.blocks_the_loop("temporary folders are removed on the loop's thread")
@given(code=PROGRAMS, moment=st.floats(0, 1), after=st.booleans(), eager=st.booleans())
def test_a_recovered_run_equals_the_undisturbed_one(code, moment, after, eager):
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, records, commits = asyncio.run(run(folder, code, dies_at=None, after=False, eager=eager))
        assert not undisturbed.is_error, undisturbed.error
        dies_at = 1 + round(moment * (commits - 1))
        result, again, _ = asyncio.run(run(folder, code, dies_at=dies_at, after=after, eager=eager))
        if result.error == "Process was restarted before any tool call":
            assert not any(isinstance(record, RlmToolCall) for record in again)
            return
        assert told(result) == told(undisturbed)
        assert essence(again) == essence(records)

"""Threads for tools: many at once, in the caller's context, and none that keeps a program from ending."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from holdfast.durable.runs.threads import on_thread


async def test_what_a_function_returns_or_raises_comes_back():
    assert await on_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await on_thread(divmod, 7, 0)


async def test_it_runs_in_the_context_of_the_caller_and_leaves_it_as_it_was():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    def seen() -> int:
        before = variable.get()
        variable.set(2)
        return before

    assert await on_thread(seen) == 1
    assert variable.get() == 1


async def test_any_number_wait_for_each_other():
    together = threading.Barrier(80)
    assert len(await asyncio.gather(*(on_thread(together.wait, 10) for _ in range(80)))) == 80


async def test_more_than_there_are_threads_take_turns():
    counted = []
    await asyncio.gather(*(on_thread(counted.append, n) for n in range(2000)))
    assert sorted(counted) == list(range(2000))
    assert threading.active_count() < 300


async def test_a_stop_of_an_iteration_does_not_leave_its_caller_waiting():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await on_thread(next, iter([]))


async def test_a_thread_is_used_again():
    names = {await on_thread(threading.get_ident) for _ in range(20)}
    assert len(names) < 5


async def test_whoever_is_cancelled_does_not_wait():
    entered, go_on = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        go_on.wait(10)

    asked = asyncio.ensure_future(on_thread(block))
    await on_thread(entered.wait, 10)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    go_on.set()


def test_a_function_that_hangs_does_not_keep_the_process_from_ending():
    program = """
import asyncio, threading
from holdfast import Tool
def hang(): threading.Event().wait()
async def main():
    try:
        await Tool(hang, timeout_seconds=0.05).call({})
    except TimeoutError as error:
        print(error)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hang() took longer than 0.05 seconds\n", "")

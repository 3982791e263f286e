"""The loop's thread: whoever waits gets the result, from wherever it waits, and nothing keeps a program from ending."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast import InvalidArgument
from holdfast.blocking.loop import run
from holdfast.durable.calls import call


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


async def fail(error):
    raise error


async def thread_of_loop():
    return threading.current_thread()


def test_a_coroutines_result_or_error_is_the_callers():
    assert run(double(21)) == 42
    with pytest.raises(ZeroDivisionError):
        run(fail(ZeroDivisionError()))
    with pytest.raises(asyncio.CancelledError):
        run(fail(asyncio.CancelledError()))


def test_there_is_one_daemon_thread():
    assert run(thread_of_loop()) is run(thread_of_loop())
    assert run(thread_of_loop()).daemon


@pytest.mark.blocks_the_loop("as a cell of a notebook does")
async def test_it_works_below_a_running_loop():
    assert run(double(21)) == 42


def test_many_threads_wait_at_once():
    gate = asyncio.Event()
    results = []

    async def wait_for_all():
        waiting.append(None)
        if len(waiting) == 8:
            gate.set()
        await gate.wait()
        return len(waiting)

    waiting = []
    threads = [threading.Thread(target=lambda: results.append(run(wait_for_all()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [8] * 8


def test_the_users_code_is_called_on_the_thread_that_waits():
    async def ask():
        return await call(threading.current_thread), threading.current_thread()

    hook, loop = run(ask())
    assert hook is threading.current_thread()
    assert loop is not hook


@pytest.mark.parametrize("error", [ZeroDivisionError, StopIteration])
def test_what_the_users_code_raises_goes_through_the_coroutine(error):
    def raising():
        raise error

    async def ask():
        try:
            await call(raising)
        except Exception as caught:  # noqa: BLE001 - whichever it is
            return type(caught)

    assert run(ask()) is (RuntimeError if error is StopIteration else error)  # as PEP 479 has it for coroutines


def test_the_users_code_may_wait_itself():
    async def ask():
        return await call(lambda: run(double(21)))

    assert run(ask()) == 42


def test_waiting_for_itself_is_refused():
    async def ask():
        return run(double(21))

    with pytest.raises(InvalidArgument, match="wait for itself"):
        run(ask())


def test_a_task_that_outlives_its_caller_makes_its_calls_itself():
    done, result = threading.Event(), []

    async def begin():
        go_on = asyncio.Event()

        async def later():
            await go_on.wait()
            result.append(await call(threading.current_thread))
            done.set()

        tasks.append(asyncio.create_task(later()))
        return go_on

    tasks = []
    go_on = run(begin())

    async def release():
        go_on.set()

    run(release())
    assert done.wait(10)
    assert result == [run(thread_of_loop())]


def test_an_interrupt_ends_the_waiting_and_cancels_the_coroutine():
    """In the main thread, as Ctrl-C does it."""
    cancelled = threading.Event()

    async def hang():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        run(hang())
    assert cancelled.wait(10)
    assert run(double(21)) == 42


def test_an_interrupt_of_the_users_code_does_not_hurt_the_loop():
    def interrupted():
        raise KeyboardInterrupt

    async def ask():
        await call(interrupted)

    with pytest.raises(KeyboardInterrupt):
        run(ask())
    assert run(double(21)) == 42


# --- programs


PREAMBLE = """
import asyncio, atexit, os, signal, sys
from holdfast import SQLiteCheckpointStorage
from holdfast.blocking import CheckpointManager, Manager
manager = CheckpointManager("ada")
manager.state.current_task.update(id="t", status="running")
"""


def program(body, tmp_path):
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PREAMBLE + body],
        cwd=tmp_path, capture_output=True, text=True, timeout=15, check=False,
        env={**os.environ, "PYTHONPATH": "src" if not sys.path else os.pathsep.join(sys.path)},
    )  # fmt: skip


@pytest.mark.parametrize("storage", ["None", "SQLiteCheckpointStorage('store.db')"])
def test_a_program_that_closes_nothing_ends_at_once_with_0(storage, tmp_path):
    done = program(f"print(CheckpointManager('ada', {storage}).create_checkpoint('routine'))", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_program_may_save_while_it_ends(tmp_path):
    done = program("atexit.register(lambda: print(manager.create_checkpoint('recovery')))\n"
                   "manager.create_checkpoint('routine')", tmp_path)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip().endswith("_recovery.checkpoint")
    assert len(list(tmp_path.rglob("*.checkpoint"))) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
@pytest.mark.parametrize("storage", ["None", "SQLiteCheckpointStorage('store.db')"])
def test_parent_and_child_both_go_on_after_a_fork(storage, tmp_path):
    done = program(f"""
manager = CheckpointManager('ada', {storage}, routine_max=100)
manager.create_checkpoint('routine')
child = os.fork()
for _ in range(5):
    manager.create_checkpoint('routine')
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    print(len(manager.list_checkpoints()))
""", tmp_path)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "11\n", "")

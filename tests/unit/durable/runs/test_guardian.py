"""The guardian ends what it was told of when its host is gone, and nothing else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.durable.runs.guardian import Guardian, _started


def ignores_signals(pid):
    """Waits until the shell has come to its trap."""
    status = Path(f"/proc/{pid}/status")
    deadline = time.monotonic() + 10
    while status.exists() and not int(re.search(r"SigIgn:\s*(\w+)", status.read_text())[1], 16) & 1 << 14:
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Watched:
    """A guardian's process as the test sees it."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.guardian = Guardian(self.start)

    def start(self) -> subprocess.Popen[bytes]:
        self.started.append(_started())
        return self.started[-1]

    def host_dies(self) -> None:
        """All that a guardian sees of it: the pipe breaks."""
        process = self.started[-1]
        process.stdin.close()
        process.wait(10)
        self.guardian._process = None


@pytest.fixture
def watched():
    watched = Watched()
    yield watched
    watched.guardian.close()
    for process in watched.started:
        process.kill()
        process.wait()


@pytest.fixture
def busy():
    """Processes that compute for ever."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield made
    for process in made:
        process.kill()
        process.wait()


def test_what_computes_when_the_host_dies_is_ended(watched, busy):
    for process in busy:
        watched.guardian.watch(process.pid)
    watched.host_dies()
    assert [process.wait(10) for process in busy] == [-signal.SIGKILL, -signal.SIGKILL]


def test_what_was_forgotten_lives_on(watched, busy):
    gone, stays = busy
    watched.guardian.watch(stays.pid)
    watched.guardian.watch(gone.pid)
    watched.guardian.forget(stays.pid)
    watched.host_dies()
    assert gone.wait(10) == -signal.SIGKILL
    assert stays.poll() is None


def test_a_host_that_ends_in_order_ends_its_guardian_and_no_more(watched, busy):
    watched.guardian.watch(busy[0].pid)
    watched.guardian.forget(busy[0].pid)
    watched.guardian.close()
    assert watched.started[0].returncode == 0
    assert busy[0].poll() is None
    watched.guardian.close()


def test_no_signal_to_the_terminal_s_processes_ends_it(watched, busy):
    watched.guardian.watch(busy[0].pid)
    [process] = watched.started
    ignores_signals(process.pid)
    assert os.getsid(process.pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        process.send_signal(number)
    watched.host_dies()
    assert busy[0].wait(10) == -signal.SIGKILL


def test_a_guardian_that_was_killed_is_replaced(watched, busy):
    first, second = busy
    watched.guardian.watch(first.pid)
    watched.started[0].kill()
    watched.started[0].wait()
    watched.guardian.watch(second.pid)
    assert len(watched.started) == 2
    watched.host_dies()
    assert [process.wait(10) for process in busy] == [-signal.SIGKILL, -signal.SIGKILL]


def test_without_a_shell_programs_run_all_the_same(caplog):
    def start():
        raise FileNotFoundError("/bin/sh")

    guardian = Guardian(start)
    guardian.watch(1)
    guardian.watch(2)
    guardian.forget(1)
    guardian.close()
    assert caplog.text.count("will outlive this process if it is killed") == 1


def test_a_forked_child_does_not_keep_the_guardian_from_seeing_the_parent_s_end(watched, busy):
    watched.guardian.watch(busy[0].pid)
    child = os.fork()
    if not child:
        watched.guardian.forget_in_child()
        time.sleep(30)
        os._exit(0)
    try:
        time.sleep(0.1)
        watched.host_dies()
        assert busy[0].wait(10) == -signal.SIGKILL
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

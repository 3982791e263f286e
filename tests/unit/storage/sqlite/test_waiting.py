"""Who waits long for a turn says so, and says for whom."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.storage.sqlite import waiting
from holdfast.storage.sqlite.locks import TurnLock
from holdfast.storage.sqlite.waiting import Waiting

HOLDER = """
import fcntl, signal, os, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


class Time:
    """Passes when the test lets it."""

    def __init__(self):
        self.seconds = 0.0
        self.looks = threading.Semaphore(0)
        self.looked = threading.Semaphore(0)  # and before the first time, that it is about to

    def pause(self, over):
        self.looked.release()
        self.looks.acquire()
        return over.is_set()

    def pass_(self, seconds):
        self.seconds += seconds
        self.looks.release()
        self.looked.acquire()


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "store.db.lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    os.waitpid(process.pid, os.WUNTRACED)
    yield process
    process.kill()
    process.communicate()


def test_a_stopped_writer_is_named_again_and_again_until_it_goes_on(tmp_path, holder, caplog):
    turn, time, got_it = TurnLock(tmp_path / "store.db.lock"), Time(), threading.Event()
    turn.waiting = Waiting(turn.path, now=lambda: time.seconds, pause=time.pause)

    def write():
        with turn.held():
            got_it.set()

    writer = threading.Thread(target=write)
    with caplog.at_level(logging.WARNING, "holdfast"):
        writer.start()
        time.looked.acquire()
        told = []
        for seconds in (4, 5, 16, 10):
            time.pass_(seconds)
            told.append([record.getMessage() for record in caplog.records])
            caplog.clear()
        assert not got_it.is_set()
        who = f"process {holder.pid}, which is stopped," if sys.platform == "linux" else "another process"
        text = f"A commit has waited %s s for its turn to write to {tmp_path / 'store.db'}: {who} has it"
        assert told == [[], [], [text % 25], [text % 35]]
        holder.send_signal(signal.SIGCONT)
        writer.join()
        time.pass_(100)
        assert got_it.is_set()
        assert not caplog.records
    turn.close()
    time.looks.release()


def test_who_waits_for_nobody_starts_no_thread(tmp_path):
    turn = TurnLock(tmp_path / "store.db.lock")
    for _ in range(3):
        with turn.held():
            pass
    assert turn.waiting._thread is None
    turn.close()


def test_where_the_system_does_not_tell_it_is_another_process(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(waiting, "_LOCKS", tmp_path / "none")
    assert waiting._holder(tmp_path / "store.db.lock") == "another process"

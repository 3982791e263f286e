"""Who is alive: the kernel's lock says so, and a copy of it in somebody else's hands does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from holdfast.storage.sqlite import locks
from holdfast.storage.sqlite.locks import Presence, is_alive
from holdfast.storage.sqlite.reserve import Reserve

HOST = """
import subprocess, sys
from pathlib import Path
from holdfast.storage.sqlite.locks import Presence
presence = Presence(Path(sys.argv[1]))
presence.appear()
# What stands between fork and exec has every descriptor; this one keeps it.
child = subprocess.Popen(["sleep", "60"], pass_fds=[presence._descriptor])
print(presence.writer, child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def host(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path / "writers")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    writer, child = process.stdout.readline().split()
    yield process, writer
    os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()


def test_a_dead_process_is_dead_though_something_it_started_holds_its_lock(host, tmp_path):
    process, writer = host
    assert is_alive(tmp_path / "writers", writer)
    process.kill()
    process.wait()
    assert not is_alive(tmp_path / "writers", writer)


def test_a_number_from_another_container_says_nothing(host, tmp_path, monkeypatch):
    process, writer = host
    monkeypatch.setattr(locks, "_pid_namespace", lambda: "another")
    process.kill()
    process.wait()
    assert is_alive(tmp_path / "writers", writer), "whoever can't know must not take over"


def test_a_lock_of_which_nobody_wrote_who_took_it_is_alive(tmp_path):
    presence = Presence(tmp_path)
    presence.appear()
    try:
        assert is_alive(tmp_path, presence.writer)
        os.ftruncate(presence._descriptor, 0)
        assert is_alive(tmp_path, presence.writer)
    finally:
        presence.vanish()
    assert not is_alive(tmp_path, presence.writer)


def test_the_room_that_a_writer_keeps_leaves_its_note_alone(tmp_path):
    presence = Presence(tmp_path)
    presence.appear()
    reserve = Reserve(presence, tmp_path / "store.db")
    try:
        reserve.promise(1 << 20)
        reserve.release(1 << 20)
        reserve.give(1 << 20)
        note = (tmp_path / presence.writer).read_bytes()[: locks.NOTE_BYTES]
        assert note.rstrip(b"\0").startswith(f"{os.getpid()} ".encode())
        assert not locks._is_left_over(note)
    finally:
        presence.vanish()

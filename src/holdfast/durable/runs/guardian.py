"""The guardian: a process that outlives its host by a moment, to end the sandboxes that the host left computing.

An idle sandbox ends by itself when its host is gone; one in the middle of a computation would go on for ever, at
100 % of a processor. What a dying parent can have the system do for it differs from system to system and hangs on
threads; a pipe that breaks means the same everywhere.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO, Final

# Each line is the list of processes that compute now. The end of the lines is the end of the host.
_WATCH: Final = """\
trap '' HUP INT QUIT TERM
busy=
while read -r line; do busy=$line; done
[ -z "$busy" ] || kill -9 $busy 2>/dev/null
"""
_ENVIRONMENT: Final = {"PATH": os.defpath}
_SECONDS_TO_END: Final = 1.0

log = logging.getLogger("holdfast")


class Guardian:
    """Watches over the sandboxes of this process. It is started with the first of them."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]] | None = None) -> None:
        self._start = start or _started
        self._process: subprocess.Popen[bytes] | None = None
        self._impossible = False
        self._watched: set[int] = set()
        self._lock = threading.Lock()

    def watch(self, pid: int) -> None:
        """From now on this process dies with the host."""
        with self._lock:
            self._watched.add(pid)
            self._tell()

    def forget(self, pid: int) -> None:
        """This process has ended, or is about to: its number may be another's tomorrow."""
        with self._lock:
            if pid in self._watched:
                self._watched.remove(pid)
                self._tell()

    def close(self) -> None:
        """The host ends in order. A guardian that is needed once more is started once more."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                with suppress(OSError):
                    _pipe(process).write(_line(self._watched))
                _let_go(process)

    def forget_in_child(self) -> None:
        """A forked child is another host: with its end of the pipe it would keep the parent's end from being seen."""
        process, self._process = self._process, None
        self._watched, self._lock = set(), threading.Lock()
        if process is not None:
            _pipe(process).close()
            process.returncode = 0  # not the child's to wait for

    def _tell(self) -> None:
        if self._impossible:
            return
        for _ in range(2):  # a guardian that was killed is replaced
            try:
                self._process = self._process or self._start()
            except OSError as error:  # no shell, or no process to be had: a program need not fail for that
                self._impossible = True
                log.warning("A sandbox that computes will outlive this process if it is killed: %s", error)
                return
            try:
                _pipe(self._process).write(_line(self._watched))
            except OSError:
                process, self._process = self._process, None
                _let_go(process)
            else:
                return


def _started() -> subprocess.Popen[bytes]:
    # In a session of its own: what is sent to the host's group, by a terminal or a supervisor, must not reach it.
    return subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
        ["/bin/sh", "-c", _WATCH, "holdfast-guardian"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, bufsize=0, cwd="/", env=_ENVIRONMENT, start_new_session=True,
    )  # fmt: skip


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    return process.stdin


def _let_go(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        _pipe(process).close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:  # something else that was forked off here holds the pipe open
        process.kill()
        process.wait()


def _line(pids: Iterable[int]) -> bytes:
    return " ".join(map(str, sorted(pids))).encode() + b"\n"

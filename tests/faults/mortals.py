"""Children that may be killed at any moment: forked without exec, so that one begins within milliseconds."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import traceback
from collections.abc import Coroutine
from typing import Any


def forked(work: Coroutine[Any, Any, Any], *, stdout: int | None = None) -> int:
    """The pid of a child that does the work and ends with 0, or with 9 and a traceback."""
    pid = os.fork()
    if pid:
        work.close()
        return pid
    try:
        if stdout is not None:
            os.dup2(stdout, 1)
        asyncio.run(work)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the parent is told by the code
        traceback.print_exc()
        os._exit(9)


def lived(work: Coroutine[Any, Any, Any], seconds: float) -> int | None:
    """The exit code of a child that does the work, or None if it was killed: so long after it had said that it may be.

    It says so with a byte on its stdout.
    """
    ready, say = os.pipe()
    pid = forked(work, stdout=say)
    os.close(say)
    os.read(ready, 1)
    os.close(ready)
    ended = waited(pid, seconds)
    if ended is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return ended


def waited(pid: int, seconds: float) -> int | None:
    """The child's exit code, or None if it runs on after so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None

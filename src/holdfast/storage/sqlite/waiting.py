"""A writer that waits long for its turn tells the log so, and who has the turn as far as the system knows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("holdfast")

SECONDS: Final = 10
_LOCKS: Final = Path("/proc/locks")


class Waiting:
    """Since when a thread waits for the lock file at a path.

    Its own thread looks every `SECONDS`. It is there from the first wait on: to start one for each would cost every
    turn of a store with many writers more than the turn does.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[threading.Event], bool] = lambda over: over.wait(SECONDS),
    ) -> None:
        """`pause` lets time pass until the next look; True when there is none."""
        self._path = path
        self._now = now
        self._pause = pause
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._since: float | None = None

    def begin(self) -> None:
        self._since = self._now()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="holdfast-waiting", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._since = None

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._pause(self._over):
            since = self._since
            if since is not None and (seconds := self._now() - since) >= SECONDS:
                log.warning(
                    "A commit has waited %.0f s for its turn to write to %s: %s has it",
                    seconds, self._path.with_suffix(""), _holder(self._path),
                )  # fmt: skip


def _holder(path: Path) -> str:
    """Which process holds the lock on a file: Linux tells, and only of processes that are numbered as we are."""
    with suppress(OSError, ValueError):
        place = f":{path.stat().st_ino}"
        for line in _LOCKS.read_text().splitlines():
            fields = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:02:1234567 0 EOF
            if fields[1] == "FLOCK" and fields[5].endswith(place) and int(fields[4]) > 0:
                return f"process {fields[4]}{', which is stopped,' if _is_stopped(fields[4]) else ''}"
    return "another process"


def _is_stopped(pid: str) -> bool:
    """Whether somebody stopped it, with SIGSTOP or a debugger."""
    with suppress(OSError, IndexError):
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False

"""The workers of `holdfast demo` as its narrator sees them: processes to kill, and processes to wait for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, Literal

from holdfast.cli.demo_claims import Unproven

Way = Literal["durable", "plain"]
_SECONDS_MAX: Final = 60.0
_LOOKING_SECONDS: Final = 0.01
_OWN_WORDS: Final = "What it said itself is above."


def killed_when(seen: Callable[[], object], way: Way, folder: Path, unheard: int) -> int:
    """Starts a worker and kills it with SIGKILL as soon as something is seen; returns the process's number."""
    with _worker(way, folder, str(unheard)) as child:
        until = time.monotonic() + _SECONDS_MAX
        while not seen():
            if child.poll() is not None:
                raise Unproven(
                    f"The {way} program's process ended with code {child.returncode} before it could be killed",
                    hint=_OWN_WORDS,
                )
            if time.monotonic() > until:
                raise Unproven(f"The {way} program did not come to the payment in {_SECONDS_MAX:g} seconds")
            time.sleep(_LOOKING_SECONDS)
        child.kill()
        if child.wait() != -signal.SIGKILL:
            raise Unproven(f"The {way} program's process ended with code {child.returncode}, not by SIGKILL")
        return child.pid


def finished(way: Way, folder: Path) -> int:
    """Starts a worker and waits for its end; returns the process's number."""
    with _worker(way, folder) as child:
        try:
            code = child.wait(_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Unproven(f"The {way} program's second process did not end in {_SECONDS_MAX:g} seconds") from None
        if code:
            raise Unproven(f"The {way} program's second process ended with code {code}", hint=_OWN_WORDS)
        return child.pid


@contextmanager
def _worker(way: Way, folder: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that Ctrl-C is the narrator's to deal with."""
    child = None
    try:
        with _ctrl_c_later():
            child = subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
                [sys.executable, "-m", "holdfast.cli.demo_worker", way, str(folder), *more],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        yield child
    finally:
        if child is not None and child.poll() is None:
            child.kill()
            child.wait()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """While a process is being started there is nothing yet by which it could be ended: Ctrl-C counts after that."""
    pressed: list[FrameType | None] = []
    handler = signal.signal(signal.SIGINT, lambda _, frame: pressed.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed and callable(handler):
        handler(signal.SIGINT, pressed[0])

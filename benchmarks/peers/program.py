"""What programs that outlive their process have in common here, however they do it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

Note = Callable[[int], dict[str, Any]]

NAME = "program"


class Program(ABC):
    """Calls `note` so often, one call after the other, keeps what it returns, and then calls `last`.

    What a call returned is on the disk before the next one begins, if it is as durable as the others.
    """

    interrupted = "is made again"
    """What becomes of a call in which the process died."""

    def __init__(self, path: Path, note: Note, last: Callable[[], None]) -> None:
        self.path = path
        self.note = note
        self.last = last

    @classmethod
    def without(cls) -> type[Program] | None:
        """The same program with nothing kept, where what it takes is not the cost of keeping."""
        return None

    @abstractmethod
    def run(self, calls: int) -> None:
        """From the first call to the end."""

    @abstractmethod
    def go_on(self, calls: int) -> None:
        """After its process died: to the end, from nothing but what is on the disk."""

    def stored(self) -> int | None:
        """How many results another connection sees; None where it is known that a call waits for those before."""
        return None

"""Room on the disk that was promised: taken up before something irrevocable is begun, given back for its result."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import DiskFull
from holdfast.storage.sqlite.ballast import fill
from holdfast.storage.sqlite.locks import NOTE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.storage.sqlite.locks import Presence

KEPT_BYTES: Final = 4 << 20
"""So much stays taken up once it was needed: programs that call one tool after the other need it again and again."""


class Reserve:
    """The writer's own file takes up the room, so that it ends with its writer, however that ends."""

    def __init__(self, presence: Presence, path: Path) -> None:
        self._presence = presence
        self._path = path
        self._size = 0
        self.promised = 0

    def promise(self, amount: int) -> None:
        """Keeps so much more room from now on. Raises DiskFull, and promises nothing, if there is not that much."""
        needed = _on_disk(self.promised + amount)
        if needed > self._size:
            try:
                fill(self._presence.descriptor, needed)
            except OSError as error:
                self._shrink(self._size)
                raise DiskFull(
                    f"There is no room left to begin what needs {amount:,} bytes for its result: {self._path}",
                    path=str(self._path),
                ) from error
            self._size = needed
        self.promised += amount

    def release(self, amount: int) -> None:
        """So much is not needed any more, because it was written or never will be."""
        self.promised = max(0, self.promised - amount)  # it may have been promised before the store was opened anew
        needed = max(_on_disk(self.promised), KEPT_BYTES)
        if needed <= self._size // 2:
            self._shrink(needed)

    def give(self, amount: int) -> bool:
        """Gives back what was promised to somebody who writes it now, and all that nobody was promised."""
        before = self._size
        self._shrink(_on_disk(max(0, self.promised - amount)))
        return self._size < before

    def restore(self) -> None:
        """Takes up again what was given in vain, as far as it is still there."""
        with suppress(DiskFull):
            self.promise(0)

    def _shrink(self, size: int) -> None:
        if size <= self._size:
            with suppress(OSError):
                os.ftruncate(self._presence.descriptor, max(size, NOTE_BYTES))
                self._size = size


def _on_disk(amount: int) -> int:
    """What it takes to write so much: the log's frames and the pages that lead to it come on top."""
    return amount + amount // 16

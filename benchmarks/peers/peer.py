"""What every other way of keeping conversations has in common here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar

from benchmarks.disk import bytes_in
from benchmarks.words import Message

TALKER = "talker"


class Peer(ABC):
    """A store of conversations, kept another way; every save is on the disk when it returns (fsync)."""

    synchronous = 2
    """What its connection had before FULL (2) was set."""

    keeps_states: ClassVar[bool] = True
    """Whether what it keeps are states to go back to, and not just what was added."""

    goes_back: ClassVar[bool] = False
    """Whether `at` can be asked."""

    lists: ClassVar[bool] = False
    """Whether `latest_50` can be asked."""

    path: Path

    def __init__(self) -> None:
        self._open = AsyncExitStack()

    @abstractmethod
    async def open(self, path: Path) -> None:
        """Opens or makes its store in this directory. It may hold conversations of earlier openings."""

    @abstractmethod
    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        """Saves after the last of these messages; those before it have been saved."""

    @abstractmethod
    async def newest(self, talker: str = TALKER) -> list[Message]:
        """The messages of its newest checkpoint."""

    async def at(self, count: int) -> list[Message]:
        """The messages of the checkpoint that had so many."""
        raise NotImplementedError

    async def latest_50(self) -> int:
        """Lists its 50 newest checkpoints and says how many came."""
        raise NotImplementedError

    async def settled(self) -> int:
        """Closes, counts the bytes on disk, and opens again."""
        await self.close()
        size = bytes_in(self.path)
        await self.open(self.path)
        return size

    async def close(self) -> None:
        await self._open.aclose()


async def keep_with(peer: Peer, path: Path, conversations: list[list[Message]]) -> None:
    """Saves whole conversations, message by message, and closes."""
    await peer.open(path)
    for number, messages in enumerate(conversations):
        for count in range(1, len(messages) + 1):
            await peer.save(messages[:count], f"{TALKER}-{number}")
    await peer.close()

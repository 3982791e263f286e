"""The least that keeping a conversation can cost: each message by itself, durable, and nothing to go back to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from benchmarks.disk import RawAppends, RawCommits
from benchmarks.peers.peer import TALKER, Peer
from benchmarks.words import Message


class Rows(Peer):
    """A row in a bare SQLite database, a commit for each."""

    keeps_states: ClassVar[bool] = False

    async def open(self, path: Path) -> None:
        self.path = path
        self.raw = RawCommits(path / "peer.db")
        self._open.callback(self.raw.close)

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        self.raw.commit(json.dumps([talker, messages[-1]]).encode())

    async def newest(self, talker: str = TALKER) -> list[Message]:
        return _said_by(talker, self.raw.read_all())


class Lines(Peer):
    """A line at the end of a file that is synced each time."""

    keeps_states: ClassVar[bool] = False

    async def open(self, path: Path) -> None:
        self.path = path
        self.raw = RawAppends(path / "peer.jsonl")
        self._open.callback(self.raw.close)

    async def save(self, messages: list[Message], talker: str = TALKER) -> None:
        self.raw.append(json.dumps([talker, messages[-1]]).encode() + b"\n")

    async def newest(self, talker: str = TALKER) -> list[Message]:
        return _said_by(talker, (self.path / "peer.jsonl").read_bytes().splitlines())


def _said_by(talker: str, lines: list[bytes]) -> list[Message]:
    said = [json.loads(line) for line in lines]
    return [message for by, message in said if by == talker]

"""Bytes on disk for conversations from a file, saved after every message."""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.disk import bytes_in
from benchmarks.keeping import keep, manager_at
from benchmarks.numbers import mb, times
from benchmarks.options import Options, say
from benchmarks.peers.holdfast import Holdfast
from benchmarks.peers.peer import Peer, keep_with
from benchmarks.result import Result
from benchmarks.words import Message

SAMPLE = Path(__file__).with_name("sample.jsonl")
_ROWS_MAX = 20


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a conversation: once, as copies, in a store of its own."""

    messages: int
    payload: int
    copies: int
    zlibbed: int
    holdfast: int


def measure(options: Options) -> list[Result]:
    path = options.conversations or SAMPLE
    said = read(path)
    result = Result(
        name="conversations",
        title=f"{len(said):,} conversations from {path.name}, saved after each message",
        how=(
            "Copies: the JSON of all messages so far, once for each message, alone and through zlib. One by one, each "
            "conversation has a store of its own; in all, one store has all of them."
        ),
        columns=(
            "conversation",
            "messages",
            "MB once",
            "copies",
            "copies, zlib",
            "Holdfast",
            "copies / Holdfast",
            "zlib / Holdfast",
        ),
    )
    sizes = [_sizes(options, messages) for messages in said]
    for number, one in enumerate(sizes[:_ROWS_MAX], start=1):
        _add(result, f"{number}", one)
    if len(sizes) > _ROWS_MAX:
        result.notes.append(f"The first {_ROWS_MAX} are shown; the last line has all {len(sizes):,}.")
    together = _together(options, said)
    total = _Sizes(
        messages=sum(one.messages for one in sizes), payload=sum(one.payload for one in sizes),
        copies=sum(one.copies for one in sizes), zlibbed=sum(one.zlibbed for one in sizes), holdfast=together,
    )  # fmt: skip
    _add(result, "all in one store", total)
    result.figures |= {"holdfast": together, "copies": total.copies, "zlib": total.zlibbed, "payload": total.payload}
    result.notes += peers.missing()
    return [result, _beside(options, said, title=f"The same {len(said):,} conversations beside other ways")]


def _beside(options: Options, said: list[list[Message]], *, title: str) -> Result:
    result = Result(
        name="conversations_beside",
        title=title,
        how=(
            "Bytes on disk after the store was closed, as above: a database for each conversation, and one for all. "
            "Raw ways keep each message by itself; DBOS keeps what each step returned: there are no states to go back "
            "to."
        ),
        columns=("kept by", "MB, one for each", "beside Holdfast", "MB, all in one", "beside Holdfast"),
    )
    ways: dict[str, type[Peer]] = {"Holdfast": Holdfast, **peers.FLOOR, **peers.peers()}
    ours: tuple[int, int] | None = None
    for name, way in ways.items():
        say(f"  {name}")
        apart = sum(_peer_size(options, way(), [messages]) for messages in said)
        together = _peer_size(options, way(), said)
        ours = ours or (apart, together)
        result.add(name, mb(apart), times(apart / ours[0]), mb(together), times(together / ours[1]))
        result.figures |= {f"{name}: apart": apart, f"{name}: together": together}
        if way.keeps_states and together < ours[1]:
            result.notes.append(f"{name} needs less room than Holdfast here, all in one.")
        if way.keeps_states and apart < ours[0]:
            result.notes.append(f"{name} needs less room than Holdfast here, with a database for each.")
    return result


def read(path: Path) -> list[list[Message]]:
    """The conversations of a file: a JSON object with `messages` on each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line)["messages"] for line in lines if line.strip()]
    return [messages for messages in found if messages]


def _sizes(options: Options, messages: list[Message]) -> _Sizes:
    copies = [json.dumps(messages[:count]).encode() for count in range(1, len(messages) + 1)]
    return _Sizes(
        messages=len(messages), payload=len(copies[-1]), copies=sum(map(len, copies)),
        zlibbed=sum(len(zlib.compress(copy)) for copy in copies), holdfast=_together(options, [messages]),
    )  # fmt: skip


def _together(options: Options, said: list[list[Message]]) -> int:
    with options.workspace() as path:
        asyncio.run(_kept(path, said))
        return bytes_in(path)


async def _kept(path: Path, said: list[list[Message]]) -> None:
    async with manager_at(path / "checkpoints.db") as manager:
        for number, messages in enumerate(said):
            ids = await keep(manager, messages, f"talker-{number}")
            for count, id_ in enumerate(ids, start=1):
                if (await manager.load(id_)).state != {"messages": messages[:count]}:
                    raise RuntimeError(f"Checkpoint {count} of conversation {number + 1} came back different")


def _peer_size(options: Options, peer: Peer, said: list[list[Message]]) -> int:
    with options.workspace() as path:
        asyncio.run(keep_with(peer, path, said))
        return bytes_in(path)


def _add(result: Result, name: str, sizes: _Sizes) -> None:
    result.add(
        name, f"{sizes.messages:,}", mb(sizes.payload), mb(sizes.copies), mb(sizes.zlibbed), mb(sizes.holdfast),
        times(sizes.copies / sizes.holdfast), times(sizes.zlibbed / sizes.holdfast),
    )  # fmt: skip

"""Bytes on disk for one long conversation that is saved after every message."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path

from benchmarks import peers
from benchmarks.disk import bytes_in
from benchmarks.keeping import keep, manager_at
from benchmarks.numbers import mb, times
from benchmarks.options import Options, say
from benchmarks.pairs import Pairs
from benchmarks.result import Result
from benchmarks.words import Message, messages


def measure(options: Options) -> list[Result]:
    said = messages(options.some(1000, 200))
    payload = len(json.dumps(said).encode())
    zlibbed = len(zlib.compress(json.dumps(said).encode()))
    result = Result(
        name="conversation",
        title=f"A conversation of {len(said):,} messages, saved after each",
        how=(
            f"Messages of 500 characters; all of them are {mb(payload)} MB of JSON, {mb(zlibbed)} MB with zlib. "
            "Bytes: every file in the directory, after the store was closed. "
            "Times: the median save beside the median raw commit, one of which was made after every fifth save."
        ),
        columns=("kept by", "MB", "beside Holdfast", "a save in raw commits: messages 50 to 150", "the last 100"),
    )
    with options.workspace() as path:
        say("  Holdfast")
        own = Pairs(path / "raw")
        (path / "kept").mkdir()
        ours = asyncio.run(_holdfast(path / "kept", said, own, result))
        own.close()
    result.add("Holdfast", mb(ours), "1", *map(times, _ends(own)))
    result.figures |= {"holdfast_bytes": ours, "payload_bytes": payload, "zlib_bytes": zlibbed}
    for name, peer in peers.peers():
        say(f"  {name}")
        with options.workspace() as path:
            pairs = Pairs(path / "raw")
            (path / "peer").mkdir()
            kept = peer(path / "peer", said, pairs)
            pairs.close()
            size = bytes_in(path / "peer")
        _note_peer(result, name, kept, said)
        result.add(name, mb(size), times(size / ours), *map(times, _ends(pairs)))
        result.figures[name] = size
        if size < ours:
            result.notes.append(f"{name} needs less room than Holdfast.")
        for when, theirs, holdfasts in zip(
            ("messages 50 to 150", "the last 100"), _ends(pairs), _ends(own), strict=True
        ):
            if theirs < holdfasts:
                result.notes.append(f"{name} saves faster than Holdfast at {when}.")
    copies = sum(len(json.dumps(said[:count]).encode()) for count in range(1, len(said) + 1))
    result.add("raw JSON copies (reckoned)", mb(copies), times(copies / ours), "", "")
    result.figures["copies_bytes"] = copies
    if peers.installed() is None:
        result.notes.append("LangGraph is not installed here: `make bench` measures it as well.")
    elif not any("DeltaChannel" in name for name, _ in peers.peers()):
        result.notes.append(f"DeltaChannel is not available in LangGraph {peers.installed()}.")
    result.notes.append(
        f"Holdfast's files are {times(ours / zlibbed)} the payload with zlib, {times(ours / payload)} the payload."
    )
    return [result]


async def _holdfast(path: Path, said: list[Message], pairs: Pairs, result: Result) -> int:
    async with manager_at(path / "checkpoints.db") as manager:
        ids = await keep(manager, said, pairs=pairs)
        result.figures["holdfast_bytes_while_open"] = bytes_in(path)
    size = bytes_in(path)
    async with manager_at(path / "checkpoints.db") as manager:
        equal = [
            (await manager.load(id_)).state == {"messages": said[:count]} for count, id_ in enumerate(ids, start=1)
        ]
    result.notes.append(
        f"{sum(equal):,} of {len(ids):,} checkpoints were loaded again, from a store opened anew, and found equal."
    )
    result.notes.append(
        f"While it is open Holdfast takes {mb(result.figures['holdfast_bytes_while_open'])} MB: "
        "with the write-ahead log and 1 MB that is held in reserve for a full disk."
    )
    result.figures["holdfast_equal"] = sum(equal)
    return size


def _ends(pairs: Pairs) -> tuple[float, float]:
    count = len(pairs.saves)
    return pairs.ratio(50, 150), pairs.ratio(count - 100, count)


def _note_peer(result: Result, name: str, kept: peers.Kept, said: list[Message]) -> None:
    if kept.newest != said:
        result.notes.append(f"The newest checkpoint of {name} does not have the messages that were saved.")
    if kept.synchronous != 2:
        result.notes.append(f"{name} had synchronous={kept.synchronous}; it was set to FULL (2) as for the others.")

"""One long conversation that is saved after every message: bytes on disk, and the time of a save beside others'."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path

from benchmarks import peers
from benchmarks.disk import bytes_in
from benchmarks.keeping import manager_at
from benchmarks.numbers import Samples, mb, times
from benchmarks.options import Options, say
from benchmarks.peers.peer import Peer
from benchmarks.result import Result
from benchmarks.talker import Talker
from benchmarks.words import Message, messages
from holdfast import CheckpointManager

_BLOCK = 25  # messages that each saves before it is the other's turn
_EARLY, _LATE = "messages 50 to 150", "the last 100"


def measure(options: Options) -> list[Result]:
    said = messages(options.some(1000, 200))
    payload = json.dumps(said).encode()
    zlibbed = len(zlib.compress(payload))
    result = Result(
        name="conversation",
        title=f"A conversation of {len(said):,} messages, saved after each",
        how=(
            f"Messages of 500 characters; all of them are {mb(len(payload))} MB of JSON, {mb(zlibbed)} MB with zlib. "
            "Bytes: every file in the directory, after the store was closed. Times: each other way takes turns with "
            f"Holdfast, {_BLOCK} messages at a time; the median of its saves beside the median of Holdfast's."
        ),
        columns=("kept by", "MB", "beside Holdfast", f"a save beside Holdfast's: {_EARLY}", _LATE),
    )
    with options.workspace() as path:
        say("  Holdfast")
        ours = asyncio.run(_alone(path, said, result))
    result.add("Holdfast", mb(ours), "1", "1", "1")
    result.figures |= {"holdfast_bytes": ours, "payload_bytes": len(payload), "zlib_bytes": zlibbed}
    others = {**peers.FLOOR, **peers.peers()}
    for name, peer in others.items():
        say(f"  {name}")
        with options.workspace() as path:
            size, early, late = asyncio.run(_in_turns(path, said, name, peer(), result))
        result.add(name, mb(size), times(size / ours), times(early), times(late))
        result.figures |= {f"{name}: bytes": size, f"{name}: early": early, f"{name}: late": late}
        if size < ours:
            result.notes.append(f"{name} needs less room than Holdfast.")
        faster = [when for when, ratio in ((_EARLY, early), (_LATE, late)) if ratio < 1]
        if faster:
            result.notes.append(f"{name} saves faster than Holdfast: {' and '.join(faster)}.")
    stateless = [name for name, peer in others.items() if not peer.keeps_states]
    result.notes.append(f"Each message by itself, and no states to go back to: {'; '.join(stateless)}.")
    copies = sum(len(json.dumps(said[:count]).encode()) for count in range(1, len(said) + 1))
    result.add("raw JSON copies (reckoned)", mb(copies), times(copies / ours), "", "")
    result.figures["copies_bytes"] = copies
    result.notes += peers.missing()
    result.notes.append(
        f"Holdfast's files are {times(ours / zlibbed)} the payload with zlib, {times(ours / len(payload))} the payload."
    )
    return [result]


async def _alone(path: Path, said: list[Message], result: Result) -> int:
    agent = Talker()
    async with manager_at(path / "checkpoints.db") as manager:
        ids = [await _say(manager, agent, message) for message in said]
        while_open = bytes_in(path)
    size = bytes_in(path)
    async with manager_at(path / "checkpoints.db") as manager:
        equal = [
            (await manager.load(id_)).state == {"messages": said[:count]} for count, id_ in enumerate(ids, start=1)
        ]
    result.notes += [
        f"{sum(equal):,} of {len(ids):,} checkpoints were loaded again, from a store opened anew, and found equal.",
        f"While it is open it takes {mb(while_open)} MB: with the log, and with 4 MB in reserve for a full disk.",
    ]
    result.figures |= {"holdfast_equal": sum(equal), "holdfast_bytes_while_open": while_open}
    return size


async def _in_turns(path: Path, said: list[Message], name: str, peer: Peer, result: Result) -> tuple[int, float, float]:
    """The peer's bytes, and how long its saves took beside Holdfast's, early and late."""
    (path / "peer").mkdir()
    agent, ours, theirs = Talker(), Samples(), Samples()
    await peer.open(path / "peer")
    async with manager_at(path / "holdfast.db") as manager:
        for start in range(0, len(said), _BLOCK):
            block = range(start, min(start + _BLOCK, len(said)))
            for number in block:
                with ours.timed():
                    await _say(manager, agent, said[number])
            for number in block:
                so_far = said[: number + 1]
                with theirs.timed():
                    await peer.save(so_far)
    if await peer.newest() != said:
        result.notes.append(f"The newest checkpoint of {name} does not have the messages that were saved.")
    await peer.close()
    if peer.synchronous != 2:
        result.notes.append(f"{name} had synchronous={peer.synchronous}; it was set to FULL (2) as for the others.")
    early = theirs.part(50, 150).p50 / ours.part(50, 150).p50
    return bytes_in(path / "peer"), early, theirs.part(-100).p50 / ours.part(-100).p50


async def _say(manager: CheckpointManager, agent: Talker, message: Message) -> str:
    agent.messages.append(message)
    return await manager.save(agent)

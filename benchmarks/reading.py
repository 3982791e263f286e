"""What a conversation of 1,000 messages gives back, and how soon, beside other ways of keeping it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers
from benchmarks.numbers import Samples, ms, times
from benchmarks.options import Options, say
from benchmarks.peers.holdfast import Holdfast
from benchmarks.peers.peer import Peer
from benchmarks.result import Result
from benchmarks.words import Message, messages

_ROUNDS = 10
_EACH = 10  # reads of one kind in a round


@dataclass
class _Times:
    """How long each kind of reading took."""

    opening: Samples = field(default_factory=Samples)
    newest: Samples = field(default_factory=Samples)
    anyone: Samples = field(default_factory=Samples)
    listing: Samples = field(default_factory=Samples)

    def all(self) -> tuple[Samples, ...]:
        return self.opening, self.newest, self.anyone, self.listing


def measure(options: Options) -> list[Result]:
    said = messages(options.some(1000, 200))
    result = Result(
        name="read",
        title=f"A conversation of {len(said):,} messages read back, beside other ways",
        how=(
            f"Saved after each message of 500 characters, then {_ROUNDS} rounds in which the ways take turns: from "
            f"nothing to the newest state; the newest again, {_EACH} times; {_EACH} of the states picked at random; a "
            f"list of the 50 newest, {_EACH // 5} times. Medians in ms, and beside Holdfast's. What a way does not "
            "offer is left empty. Holdfast authenticates what it reads and lists checkpoints without their states; "
            "LangGraph's list has them."
        ),
        columns=("kept by", "open and newest", "", "newest", "", "any of them", "", "list of 50", ""),
    )
    with options.workspace() as path:
        found = asyncio.run(_rounds(path, said, result))
    ours = found["Holdfast"]
    for name, theirs in found.items():
        cells = [
            cell
            for own, other in zip(ours.all(), theirs.all(), strict=True)
            for cell in ((ms(other.p50), times(other.p50 / own.p50)) if len(other) else ("", ""))
        ]
        result.add(name, *cells)
        kinds = ("opening", "the newest", "any", "a list")
        quicker = [
            kind
            for kind, own, other in zip(kinds, ours.all(), theirs.all(), strict=True)
            if len(other) and other.p50 < own.p50
        ]
        if quicker:
            result.notes.append(f"{name} is quicker than Holdfast: {', '.join(quicker)}.")
        result.figures |= {
            f"{name}: {kind}": other.p50 for kind, other in zip(kinds, theirs.all(), strict=True) if len(other)
        }
    return [result]


async def _rounds(path: Path, said: list[Message], result: Result) -> dict[str, _Times]:
    ways: dict[str, Peer] = {name: way() for name, way in {"Holdfast": Holdfast, **peers.chosen()}.items()}
    for name, peer in ways.items():
        say(f"  {name}")
        (path / name).mkdir()
        await peer.open(path / name)
        for count in range(1, len(said) + 1):
            await peer.save(said[:count])
        await peer.close()
    found = {name: _Times() for name in ways}
    chance = random.Random(1)
    for number in range(_ROUNDS):
        say(f"  round {number + 1} of {_ROUNDS}")
        counts = [chance.randrange(1, len(said) + 1) for _ in range(_EACH)]
        for name, peer in ways.items():
            if not await _read(peer, path / name, said, counts, found[name]):
                result.notes.append(f"{name} gave back something else than was saved.")
    return found


async def _read(peer: Peer, path: Path, said: list[Message], counts: list[int], found: _Times) -> bool:
    """One round; whether all that came back was right."""
    with found.opening.timed():
        await peer.open(path)
        newest = await peer.newest()
    right = newest == said
    for _ in counts:
        with found.newest.timed():
            newest = await peer.newest()
        right &= newest == said
    for count in counts if peer.goes_back else ():
        with found.anyone.timed():
            state = await peer.at(count)
        right &= state == said[:count]
    for _ in counts[::5] if peer.lists else ():
        with found.listing.timed():
            listed = await peer.latest_50()
        right &= listed == 50
    await peer.close()
    return right

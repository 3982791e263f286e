"""How many messages a second 64 agents keep at once through one store, beside other ways."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks import peers
from benchmarks.numbers import Samples, times
from benchmarks.options import Options, say
from benchmarks.peers.holdfast import Holdfast
from benchmarks.peers.peer import Peer
from benchmarks.result import Result
from benchmarks.words import Message, messages

AGENTS = 64
_EACH = 5  # messages of an agent in a phase


def measure(options: Options) -> list[Result]:
    phases = options.some(6, 2)
    result = Result(
        name="crowd",
        title=f"{AGENTS} agents at once beside other ways",
        how=(
            f"Each agent says {_EACH} messages of 200 characters in a phase, saved after each, all agents at once on "
            f"one event loop; {phases} phases in which the ways take turns, after one for getting warm. Messages a "
            "second, and beside Holdfast in the same phase, medians."
        ),
        columns=("kept by", "per second, p50 (p10 … p90)", "beside Holdfast"),
    )
    with options.workspace() as path:
        rates = asyncio.run(_phases(path, phases, result))
    ours = rates["Holdfast"]
    for name, theirs in rates.items():
        samples = Samples(theirs)
        ratio = Samples([their / our for their, our in zip(theirs, ours, strict=True)]).p50
        shown = f"{samples.p50:,.0f} ({samples.percentile(10):,.0f} … {samples.percentile(90):,.0f})"
        result.add(name, shown, times(ratio))
        result.figures[name] = ratio
        if ratio > 1:
            result.notes.append(f"{name} keeps more messages a second than Holdfast.")
    return [result]


async def _phases(path: Path, phases: int, result: Result) -> dict[str, list[float]]:
    said = [messages((phases + 1) * _EACH, 200, seed=number) for number in range(AGENTS)]
    ways: dict[str, Peer] = {name: way() for name, way in {"Holdfast": Holdfast, **peers.at_once()}.items()}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for phase in range(phases + 1):
        say(f"  phase {phase} of {phases}")
        for name, peer in ways.items():
            (path / name).mkdir(exist_ok=True)
            await peer.open(path / name)
            started = time.perf_counter()
            await asyncio.gather(*(_says(peer, number, said[number], phase) for number in range(AGENTS)))
            seconds = time.perf_counter() - started
            if phase:
                rates[name].append(AGENTS * _EACH / seconds)
            if await peer.newest("talker-7") != said[7][: (phase + 1) * _EACH]:
                result.notes.append(f"{name} does not have the messages that were saved.")
            await peer.close()
    return rates


async def _says(peer: Peer, number: int, said: list[Message], phase: int) -> None:
    for count in range(phase * _EACH + 1, (phase + 1) * _EACH + 1):
        await peer.save(said[:count], f"talker-{number}")

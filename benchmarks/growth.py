"""How files and saves grow with a conversation, beside other ways: a table, and a plot as PNG."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks import peers
from benchmarks.numbers import Samples, mb, ms, times
from benchmarks.options import Options, say
from benchmarks.peers.holdfast import Holdfast
from benchmarks.peers.peer import Peer
from benchmarks.result import Result
from benchmarks.words import messages

PICTURE: Final = "benchmarks-growth.png"
_BLOCK = 100
_TITLE = "Growth with a conversation"


def measure(options: Options) -> list[Result]:
    count = options.some(1000, 300)
    names = {"Holdfast": Holdfast, **peers.FLOOR, **peers.chosen()}
    result = Result(
        name="growth",
        title=_TITLE,
        how=(
            f"{count:,} messages of 500 characters, saved after each. The ways take turns, {_BLOCK} messages at a "
            "time; then every file in the directory is counted, the store closed. A save: the median of a block, first "
            "and last block. What grows straight with the messages is fine; what grows with their square is not."
        ),
        columns=(
            "kept by", f"MB after {_BLOCK}", f"MB after {count:,}", "times as much", "ms a save, first", "last",
            "times as long",
        ),
    )  # fmt: skip
    with options.workspace() as path:
        sizes, saves = asyncio.run(_grow(path, names, count))
    for name in names:
        size, save = sizes[name], saves[name]
        result.add(
            name, mb(size[0]), mb(size[-1]), times(size[-1] / size[0]), ms(save[0]), ms(save[-1]),
            times(save[-1] / save[0]),
        )  # fmt: skip
        result.figures |= {f"{name}: bytes": size[-1], f"{name}: save": save[-1]}
    result.notes.append(f"Messages grew {count // _BLOCK} times.")
    if find_spec("matplotlib") is None:
        result.notes.append("matplotlib is not installed here: `make bench` draws the curves as well.")
    else:
        _draw(options.pictures / PICTURE, sizes, saves)
        result.picture = PICTURE
    return [result]


async def _grow(
    path: Path, names: dict[str, type[Peer]], count: int
) -> tuple[dict[str, list[int]], dict[str, list[float]]]:
    said = messages(count)
    sizes: dict[str, list[int]] = {name: [] for name in names}
    saves: dict[str, list[float]] = {name: [] for name in names}
    opened: dict[str, Peer] = {}
    for name, way in names.items():
        (path / name).mkdir()
        opened[name] = way()
        await opened[name].open(path / name)
    for start in range(0, count, _BLOCK):
        say(f"  {start + _BLOCK:,} of {count:,} messages")
        for name, peer in opened.items():
            samples = Samples()
            for number in range(start + 1, start + _BLOCK + 1):
                so_far = said[:number]
                with samples.timed():
                    await peer.save(so_far)
            saves[name].append(samples.p50)
            sizes[name].append(await peer.settled())
    for peer in opened.values():
        await peer.close()
    return sizes, saves


def _draw(path: Path, sizes: dict[str, list[int]], saves: dict[str, list[float]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for name, size in sizes.items():
        at = [_BLOCK * (number + 1) for number in range(len(size))]
        style = {"linewidth": 3, "color": "black", "zorder": 3} if name == "Holdfast" else {"linewidth": 1.3}
        left.plot(at, [one / 1e6 for one in size], label=name, **style)
        right.plot(at, [one * 1000 for one in saves[name]], **style)
    for axes, what in ((left, "MB on disk"), (right, "ms a save, median of 100")):
        axes.set(xlabel="messages, saved after each", ylabel=what, yscale="log", xlim=(0, None))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.suptitle(_TITLE)
    figure.savefig(path, dpi=110)
    plt.close(figure)

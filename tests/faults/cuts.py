"""Cuts the power of a recorded disk, opens what is left as anybody would, and says what is wrong with it."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import save
from tests.faults.disk import Disk, Told
from tests.faults.promises import Promises
from tests.faults.remains import Image, Remains
from tests.faults.report import LONG

PARTS = 8 if LONG else 2  # images at each cut, besides the least and the most that it can leave
GOES_ON_EVERY = 25  # images in which somebody goes on; taking up runs starts a sandbox, which takes a while


class Findings:
    """What was found in the images of one recording."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.broken: list[str] = []
        self.recovered = 0  # images in which runs were taken up

    def add(self, what: str, cut: int, broken: list[str]) -> None:
        self.count[what] += 1
        self.broken += [f"after operation {cut}: {one}" for one in broken]


async def examined(
    disk: Disk, folder: Path, chance: random.Random, *, images: int | None = None, first: int = 0
) -> Findings:
    """Cuts the power after every operation from the first on, or after so many that there are about these images."""
    findings = Findings()
    seen: set[tuple[bytes, int]] = set()
    remains, promises = Remains(), Promises()
    share = 1.0 if images is None else images / max(1, len(disk.events) - first) / PARTS
    for cut, event in enumerate(disk.events):
        remains.follow(event)
        if isinstance(event, Told):
            promises.add(event.what)
        if cut < first or chance.random() > share:
            continue
        some = [] if remains.is_certain else [remains.some(chance) for _ in range(PARTS)]
        for image in (remains.least(), *some, remains.most()):
            mark = (_digest(image), promises.count)
            if mark not in seen:
                seen.add(mark)
                on = len(seen) % GOES_ON_EVERY == 0
                what, broken = await opened(image, folder / "image", promises, goes_on=on, recovers=LONG or on)
                findings.add(what, cut, broken)
    findings.recovered = promises.recovered
    return findings


def _digest(image: Image) -> bytes:
    digest = blake2b(digest_size=16)
    for name, data in sorted(image.items()):
        digest.update(name.encode() + b"\0" + len(data).to_bytes(8, "big") + data)
    return digest.digest()


async def opened(
    image: Image, folder: Path, promises: Promises, *, goes_on: bool, recovers: bool
) -> tuple[str, list[str]]:
    """ "whole", "lost" or "corrupt", and everything that is wrong.

    Whoever goes on saves something; whoever recovers takes up the runs that were left, if there are any.
    """
    _write(image, folder)
    store = SQLiteCheckpointStorage(folder / "store.db")
    try:
        report = await store.verify()
        if not report.ok:
            return "corrupt", [str(report.damaged[:3])]
        broken = await promises.broken(store, report)
        if broken:
            return "lost", broken
        await store.pending("operation")
        left = await store.pending("run")
        if recovers and left:
            broken = await promises.broken_by_recovery(store)
        elif goes_on:
            await save(store, "new")
    except HoldfastError as error:
        broken = [f"{type(error).__name__}: {error}"]
    finally:
        await store.close()
        shutil.rmtree(folder)
    return "corrupt" if broken else "whole", broken


def _write(image: Image, folder: Path) -> None:
    os.mkdir(folder)  # noqa: PTH102 - nobody else waits
    for name, data in image.items():
        (folder / name).write_bytes(data)

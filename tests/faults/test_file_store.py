"""The storage of files: its power is cut after every operation, and its writers are killed."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from holdfast import CheckpointManager, FileCheckpointStorage
from holdfast.storage import durably, files
from tests.faults.children import said_until_killed
from tests.faults.disk import Disk, Told, recorded_files
from tests.faults.remains import Image, Remains
from tests.faults.report import LONG, tell
from tests.unit.durable.samples import Agent

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.timeout(3600 if LONG else 60)]

CUTS = 1.0 if LONG else 0.12  # how many of the places are tried
PARTS = 6 if LONG else 1  # images at each, besides the least and the most that can be left


async def saves(folder: Path, disk: Disk) -> None:
    """Two agents save, pin, which replaces a file, and delete."""
    manager = CheckpointManager(FileCheckpointStorage(folder))
    ids: list[str] = []
    for step in range(16):
        agent = Agent("ada" if step % 3 else "bob")
        agent.step(step)
        ids.append(await manager.save(agent))
        disk.tell("saved", ids[-1], step)
        if step % 4 == 2:
            await manager.pin(ids[-2])
        if step % 5 == 4:
            disk.tell("deleting", ids[-4])
            await manager.delete(ids[-4])
            disk.tell("deleted", ids[-4])
    await manager.close()


class Promises:
    """What somebody was told, and relies on."""

    def __init__(self) -> None:
        self.saved: dict[str, int] = {}
        self.going: set[str] = set()
        self.gone: set[str] = set()

    def add(self, what: str, checkpoint_id: str, step: int = 0) -> None:
        if what == "saved":
            self.saved[checkpoint_id] = step
        else:
            (self.going if what == "deleting" else self.gone).add(checkpoint_id)

    async def broken(self, folder: Path) -> list[tuple[str, str]]:
        """What is wrong in a folder: lost, back again, corrupt; and whether it can be gone on with."""
        storage = FileCheckpointStorage(folder)
        manager = CheckpointManager(storage)
        found = [("corrupt", damage.reason) for damage in (await manager.verify()).damaged]
        if found:
            return found
        listed = {one.id: one for agent in ("ada", "bob") for one in await manager.list_by_agent(agent, limit=10**6)}
        found += [("lost", id_) for id_ in self.saved.keys() - self.going - listed.keys()]
        found += [("back", id_) for id_ in self.gone & listed.keys()]
        for id_ in listed.keys() & self.saved.keys():
            if (await manager.load(id_)).state != {"steps": [self.saved[id_]]}:
                found.append(("wrong", id_))
        numbers = [one.commit_number for one in listed.values()]
        next_id = await manager.save(Agent("ada"))
        newest = await manager.latest("ada")
        if newest.id != next_id or newest.commit_number <= max(numbers, default=0) or len({*numbers}) < len(numbers):
            found.append(("order", next_id))
        return found


async def examined(disk: Disk, folder: Path, chance: random.Random) -> Counter[str]:
    """What was found in the images that cuts leave; "images" is how many there were."""
    count: Counter[str] = Counter()
    remains, promises = Remains(), Promises()
    for event in disk.events:
        remains.follow(event)
        if isinstance(event, Told):
            promises.add(*event.what)
        if chance.random() > CUTS:
            continue
        for image in (remains.least(), *(remains.some(chance) for _ in range(PARTS)), remains.most()):
            _write(image, folder / "image")
            count["images"] += 1
            count.update(what for what, _ in await promises.broken(folder / "image"))
            shutil.rmtree(folder / "image")
    return count


def _write(image: Image, folder: Path) -> None:
    folder.mkdir()
    for name, data in image.items():
        (folder / name).write_bytes(data)


async def test_nothing_acknowledged_is_lost_when_the_power_is_cut(folder, monkeypatch):
    with recorded_files(folder / "live", monkeypatch) as disk:
        await saves(folder / "live", disk)
    count = await examined(disk, folder, random.Random(1))
    tell("power loss, files", f"{saves.__doc__} The power is cut after every operation.",
         operations=len(disk.events), images=count["images"], lost=count["lost"] + count["back"],
         corrupt=count["corrupt"])  # fmt: skip
    assert {**count, "images": 0} == {"images": 0}
    assert count["images"] > (500 if LONG else 40)


@pytest.mark.parametrize("without", ["the file's sync", "the folder's sync"])
async def test_the_harness_sees_what_weaker_syncs_lose(folder, monkeypatch, without):
    """The control: the same cuts where one of the syncs is left out."""
    with recorded_files(folder / "live", monkeypatch) as disk:
        if without == "the file's sync":
            monkeypatch.setattr(durably.os, "fsync", lambda _: None, raising=False)
        else:
            monkeypatch.setattr(durably, "sync_folder", lambda _: None)
            monkeypatch.setattr(files, "sync_folder", lambda _: None)
        await saves(folder / "live", disk)
    count = await examined(disk, folder, random.Random(1))
    assert count["lost"] + count["corrupt"] > 0


SAVES_UNTIL_IT_IS_KILLED = """
from holdfast import CheckpointManager, FileCheckpointStorage
from tests.unit.durable.samples import Agent

async def main():
    manager = CheckpointManager(FileCheckpointStorage(path))
    agent, ids, step = Agent(sys.argv[2]), [], 0
    while True:
        agent.state = {"steps": [step]}
        ids.append(await manager.save(agent))
        say("saved", ids[-1], step)
        step += 1
        if step % 5 == 0:
            await manager.pin(ids[-2])
            say("deleting", ids[0])
            await manager.delete(ids[0])
            say("deleted", ids.pop(0))

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_kills_at_random_points(folder):
    chance, promises, turns = random.Random(1), Promises(), 60 if LONG else 5
    for _ in range(turns):
        for words in await said_until_killed(
            SAVES_UNTIL_IT_IS_KILLED, folder / "live", ("ada", "bob"), chance.random() / 4
        ):
            promises.add(words[0], words[1], int(words[2]) if words[2:] else 0)
    broken = await promises.broken(folder / "live")
    tell("kills, files", "Two processes save, pin and delete in one folder, and are killed.", kills=2 * turns,
         broken=len(broken))  # fmt: skip
    assert broken == []
    assert promises.gone

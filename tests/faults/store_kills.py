"""Eight processes on one store, killed with SIGKILL and replaced, over and over: what `test_store_kills` starts.

    python -m tests.faults.store_kills FOLDER SEED KILLS [MUTANT]

Most of them save and hold operations on agents of their own; two want the same agent; one collects garbage, one adds
keys. What each was told goes to a file of its own, which outlives it. After every kill another process opens the store
and holds it against those files, while the others go on. One JSON object is printed: the kills, and what was broken.
With a mutant, the processes do what `mutants` says under this name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from holdfast.errors import OwnedElsewhere, StaleWriter
from holdfast.history.records import UserMessage
from holdfast.storage import keys
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued
from tests.faults.mutants import broken_by

KILLS_A_STORE = 15


class Told:
    """What one process was told, line by line in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / f"told-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, what: str, *values: object) -> None:
        os.write(self._descriptor, (json.dumps([what, *values]) + "\n").encode())


async def saver(store: SQLiteCheckpointStorage, told: Told, agent: str) -> None:
    """Saves, deletes what is old, and holds an operation now and then. Two of them may want the same agent."""
    ids: list[str] = []
    step = 0
    while True:
        step += 1
        try:
            going = tuple(ids[:-4]) if step % 12 == 0 else ()
            if going:
                told("deleting", *going)
            done = await continued(store, agent, state={"step": step, "log": list(range(step))}, delete=going)
            told("saved", done.id, step)
            if going:
                told("deleted", *going)
            ids = [id_ for id_ in ids if id_ not in going] + [done.id]
            await operation(store, told, agent, step)
            await asyncio.sleep(0.002)
        except (OwnedElsewhere, StaleWriter):
            if agent != "shared":
                raise
            await asyncio.sleep(0.003)


async def operation(store: SQLiteCheckpointStorage, told: Told, agent: str, step: int) -> None:
    epoch = None
    for part in range(3):
        text = f"{os.getpid()} step {step} part {part}"
        done = await commit(store, agent, records=(UserMessage(content=text),), hold=part < 2, epoch=epoch)
        epoch = done.epoch
        told("said", agent, done.last_seq, epoch, text)


async def collector(store: SQLiteCheckpointStorage, _: Told, __: str) -> None:
    while True:
        await store.collect_garbage()
        await asyncio.sleep(0.005)


async def rotator(store: SQLiteCheckpointStorage, told: Told, _: str) -> None:
    while True:
        told("rotated", await store.rotate_key())
        await asyncio.sleep(0.1)


ROLES: list[tuple[Callable[[SQLiteCheckpointStorage, Told, str], Coroutine[Any, Any, None]], str]] = [
    *((saver, f"agent-{n}") for n in range(4)), (saver, "shared"), (saver, "shared"), (collector, ""), (rotator, ""),
]  # fmt: skip


async def works(folder: Path, role: int) -> None:
    does, agent = ROLES[role]
    store = SQLiteCheckpointStorage(folder / "store.db", max_checkpoints_per_user=None)
    await does(store, Told(folder), agent)


# --- claims


async def holds(folder: Path) -> None:
    """Raises if something is not as somebody was told."""
    lines = _told(folder)
    store = SQLiteCheckpointStorage(folder / "store.db", max_checkpoints_per_user=None)
    gone = {id_ for what, *ids in lines if what == "deleted" for id_ in ids}
    saved = {values[0]: values[1] for what, *values in lines if what == "saved"}
    report = await store.verify()
    whole = set(report.whole)
    going = {id_ for what, *ids in _told(folder) if what == "deleting" for id_ in ids}  # also while it was verified
    assert report.ok, report.damaged[:3]
    assert saved.keys() - going <= whole, saved.keys() - going - whole
    assert not gone & whole, gone & whole
    for id_ in [id_ for id_ in saved if id_ not in going][-5:]:
        found = await store.fetch(id_)
        if found is not None:  # its saver goes on, and may have deleted it meanwhile
            assert found[1].decode()["step"] == saved[id_]
    said = [values for what, *values in lines if what == "said"]
    for agent in {values[0] for values in said}:
        await said_by(store, agent, [values[1:] for values in said if values[0] == agent])
    ring = keys.read_ring(keys.key_path(store.path))
    assert ring is not None
    assert ring.current >= max((values[0] for what, *values in lines if what == "rotated"), default=1)
    await store.pending("operation")
    await store.close()


async def said_by(store: SQLiteCheckpointStorage, agent: str, said: list[tuple[int, int, str]]) -> None:
    """What was acknowledged stands where it was said to stand, and no older epoch wrote after a newer one."""
    history = {record.seq: record for record in await store.read(agent)}
    epochs = []
    for seq, epoch, text in sorted(said):
        record = history[seq]
        assert isinstance(record, UserMessage)
        assert record.content == text, (agent, seq, record.content, text)
        epochs.append(epoch)
    assert epochs == sorted(epochs), (agent, epochs)
    info = await store.agent(agent)
    assert info is not None
    assert info.epoch >= epochs[-1]


def _told(folder: Path) -> list[list[Any]]:
    """What all of them were told until now, but for lines that a kill cut short."""
    texts = [path.read_text() for path in folder.glob("told-*")]
    return [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


# --- kills


def forked(work: Callable[[], Coroutine[Any, Any, None]], errors: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(work())
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the parent is told by the code
        errors.write_text(traceback.format_exc())
        os._exit(9)


def one_store(folder: Path, chance: random.Random, kills: int) -> list[str]:
    """So many kills on one store; what was broken."""
    broken: list[str] = []
    errors = folder / "errors"
    pids = {role: forked(lambda role=role: works(folder, role), errors) for role in range(len(ROLES))}  # type: ignore[misc]
    try:
        for _ in range(kills):
            time.sleep(chance.random() ** 2 * 0.15)
            role = chance.randrange(len(ROLES))
            os.kill(pids[role], signal.SIGKILL)
            _, status = os.waitpid(pids[role], 0)
            checked = forked(lambda: holds(folder), folder / "broken")
            pids[role] = forked(lambda role=role: works(folder, role), errors)  # type: ignore[misc]
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                broken.append(f"{ROLES[role]} ended by itself: {_text(errors)}")
            if os.waitstatus_to_exitcode(os.waitpid(checked, 0)[1]) != 0:
                broken.append(_text(folder / "broken"))
            if broken:
                break
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(os.waitpid(forked(lambda: holds(folder), folder / "broken"), 0)[1]) != 0:
        broken.append(_text(folder / "broken"))
    return broken


def _text(path: Path) -> str:
    return path.read_text()[-2000:] if path.exists() else "nobody knows why"


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    broken_by("".join(sys.argv[4:]))
    chance = random.Random(seed)
    killed, broken = 0, []
    while killed < kills and not broken:
        here = folder / f"{seed}-{killed}"
        here.mkdir(parents=True)
        broken += one_store(here, chance, min(KILLS_A_STORE, kills - killed))
        killed += min(KILLS_A_STORE, kills - killed)
    sys.stdout.write(json.dumps({"killed": killed, "broken": broken}) + "\n")


if __name__ == "__main__":
    main()

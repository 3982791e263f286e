"""Writes the golden store of this version: `python -m tests.golden.make`. Never again for a version that was released.

Everything that a store can hold is in it, so that every later version shows that it still reads that. The damaged
copies are kept as patches: a few bytes each, with what `verify` must name.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.jsonform import to_json
from holdfast.history.wire import to_wire
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import ODD_STATE, continued
from tests.faults.stores import AGENTS, fill

HERE = Path(__file__).parent
CURRENT = HERE / "v0.1"
NAME = "store.db"
STATE_MAX = 100


def clock() -> Iterator[datetime]:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    while True:
        yield moment
        moment += timedelta(seconds=1)


async def make(folder: Path) -> None:
    """A new golden store, with what must be read from it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nobody else waits
    ticks = clock()
    store = SQLiteCheckpointStorage(folder / NAME, now=lambda: next(ticks))
    await fill(store, saves=140)
    await continued(store, "odd", user_id="first", state=ODD_STATE, metadata={"odd": ODD_STATE["time"]})
    await store.rotate_key()
    await continued(store, "odd", user_id="first", state={"after": "the key was rotated"})
    expected = await contents(store)
    await store.close()
    (folder / f"{NAME}.lock").unlink()
    (folder / "expected.json").write_text(_lines(expected), encoding="utf-8")


def _lines(expected: dict[str, Any]) -> str:
    """JSON with a line for each thing, so that a difference can be read."""
    parts = []
    for name, content in expected.items():
        things = content.items() if isinstance(content, dict) else enumerate(content)
        begin, end = "{}" if isinstance(content, dict) else "[]"
        lines = [(f"{json.dumps(key)}: " if begin == "{" else "") + json.dumps(value) for key, value in things]
        parts.append(f"{json.dumps(name)}: {begin}\n " + ",\n ".join(lines) + f"\n{end}")
    return "{" + ",\n".join(parts) + "}\n"


async def contents(store: Any) -> dict[str, Any]:
    """Everything that a store answers, as JSON."""
    listed = await store.list(Query(limit=None))
    loaded = {one.id: await store.fetch(one.id) for one in listed}
    return json.loads(
        json.dumps(
            {
                "agents": [_agent(info) for info in await store.agents()],
                "checkpoints": [_checkpoint(*found) for found in loaded.values()],
                "deleted": [(await store.position(id_)).to_dict() for id_ in ("chk-7", "chk-138")],
                "histories": {agent: [to_wire(one) for one in await store.read(agent)] for agent in (*AGENTS, "odd")},
                "groups": {"grp_one": await store.group("grp_one")},
                "pending": [
                    [one.what, one.name, one.agent_id, one.seq]
                    for what in ("operation", "run")
                    for one in await store.pending(what)
                ],
                "runs": [[one.name, one.agent_id, one.session, one.start, one.end] for one in await store.runs()],
                "inboxes": {
                    agent: [[one.number, one.sender, to_json(one.content), one.at.isoformat()] for one in messages]
                    for agent in AGENTS
                    if (messages := await store.inbox(agent))
                },
            }
        )
    )


def _checkpoint(checkpoint: Any, image: Any) -> dict[str, Any]:
    """What differs from the default, and a hash in the stead of a long state."""
    plain = checkpoint.evolve(state=image.decode()).to_dict()
    bare = Checkpoint(id="", agent_id="").to_dict()
    state = json.dumps(plain["state"], sort_keys=True)
    if len(state) > STATE_MAX and checkpoint.agent_id != "odd":
        plain["state"] = sha256(state.encode()).hexdigest()
    return {name: value for name, value in plain.items() if value != bare[name]}


def _agent(info: Any) -> dict[str, Any]:
    fields = ("agent_id", "user_id", "agent_type", "last_seq", "commit_number", "epoch", "checkpoints", "tip")
    return {
        **{name: getattr(info, name) for name in fields},
        "forked_from": list(info.forked_from or ()),
        "inbox": [info.inbox_last, info.inbox_acknowledged],
    }


async def damage(folder: Path) -> dict[str, Any]:
    """One patch for each kind of thing, found by looking for its stored bytes, and what verify says of it."""
    data = (folder / NAME).read_bytes()
    db = apsw.Connection(f"file:{folder / NAME}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    cells = {
        "a record": "SELECT body FROM records WHERE key = (1 << 32) + 25",
        "a checkpoint": "SELECT head FROM checkpoints WHERE key = (1 << 32) + 30",
        "a state": "SELECT state FROM checkpoints WHERE state IS NOT NULL AND key > 1 << 32 LIMIT 1",
        "a segment": "SELECT body FROM segments LIMIT 1",
        "an agent": "SELECT head FROM agents WHERE id = 'cy'",
        "the store": "SELECT head FROM agents WHERE number = 0",
        "a message": "SELECT body FROM inbox LIMIT 1",
        "a snapshot": "SELECT body FROM snapshots LIMIT 1",
        "a run": "SELECT CAST(name || session AS BLOB) FROM runs WHERE session IS NOT NULL LIMIT 1",
    }
    found = {what: db.execute(query).fetchall()[0][0] for what, query in cells.items()}
    db.close()
    return {what: await _patch(folder, data, cell[:24]) for what, cell in found.items()}


async def _patch(folder: Path, data: bytes, beginning: bytes) -> dict[str, Any]:
    """Two bytes of the cell changed, at the place where this is damage: free pages can hold an older copy."""
    start = -1
    while True:
        start = data.index(beginning, start + 1)  # a ValueError in the end, when none of them is
        offset = start + len(beginning) - 4
        changed = bytes(byte ^ 1 for byte in data[offset : offset + 2])
        patch = {"offset": offset, "bytes": changed.hex()}
        if names := await named(folder, patch):
            return {**patch, "named": names}


async def named(folder: Path, patch: dict[str, Any]) -> list[list[Any]]:
    """The kind, id, agent and position of everything that verify names in a copy with this patch."""
    copy = Path(f"{folder}-damaged")
    shutil.copytree(folder, copy)
    try:
        apply(copy / NAME, patch)
        store = SQLiteCheckpointStorage(copy / NAME, read_only=True)
        report = await store.verify()
        await store.close()
    finally:
        shutil.rmtree(copy)
    return [[one.kind, one.id, one.agent_id, one.seq] for one in report.damaged]


def apply(path: Path, patch: dict[str, Any]) -> None:
    data = bytearray(path.read_bytes())
    new = bytes.fromhex(patch["bytes"])
    data[patch["offset"] : patch["offset"] + len(new)] = new
    path.write_bytes(data)


async def main() -> None:
    if CURRENT.exists() and "--replace" not in sys.argv:
        raise SystemExit(f"{CURRENT} exists already; --replace it only while this version is not released")
    await make(CURRENT)
    patches = await damage(CURRENT)
    (HERE / "damaged.json").write_text(_lines({CURRENT.name: patches}), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())

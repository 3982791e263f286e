"""Processes that are killed in the middle of saving lose nothing that was acknowledged."""

import random

import pytest

from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.children import ended, line, running, said_until_killed

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

SAVES_UNTIL_IT_IS_KILLED = """
async def agent(store, name):
    step, ids = 0, []
    while True:
        delete = tuple(ids[:-5]) if step % 40 == 39 else ()
        ids = [id_ for id_ in ids if id_ not in delete]
        if delete:
            say("deleting", *delete)
        saved = await continued(store, name, state={"step": step, "log": list(range(step))}, delete=delete)
        say("saved", saved.id, step)
        ids.append(saved.id)
        step += 1

async def main():
    store = SQLiteCheckpointStorage(path)
    await asyncio.gather(*(agent(store, f"{sys.argv[2]}-{n}") for n in range(3)))

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_kills_at_random_points(tmp_path):
    path = tmp_path / "store.db"
    chance = random.Random(1)
    saved: dict[str, int] = {}
    deleted: set[str] = set()
    for turn in range(8):
        for words in await said_until_killed(
            SAVES_UNTIL_IT_IS_KILLED, path, (f"a{turn}", f"b{turn}"), chance.random() / 4
        ):
            if words[0] == "saved":
                saved[words[1]] = int(words[2])
            else:
                deleted.update(words[1:])  # or perhaps not, when it was killed before that was committed
    store = SQLiteCheckpointStorage(path)
    report = await store.verify()
    assert report.ok, report.damaged[:5]
    listed = {checkpoint.id for checkpoint in await store.list(Query(limit=None))}
    assert saved.keys() - deleted <= set(report.whole)
    assert listed == set(report.whole)
    for id_ in chance.sample(sorted(saved.keys() - deleted), 50):
        found = await store.fetch(id_)
        assert found is not None
        assert found[1].decode()["step"] == saved[id_]
    await store.close()


async def test_two_processes_can_open_a_new_store_at_once(tmp_path):
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path)
        saved = await save(store, sys.argv[2])
        say(saved.id)
        await store.close()
    asyncio.run(main())
    """
    for turn in range(3):
        path = tmp_path / f"{turn}.db"
        with running(program, path, "one") as one, running(program, path, "two") as two:
            ids = {*ended(one), *ended(two)}
        store = SQLiteCheckpointStorage(path)
        assert {checkpoint.id for checkpoint in await store.list(Query())} == ids
        assert len(ids) == 2
        await store.close()


async def test_a_program_that_closes_nothing_ends_by_itself_with_0(tmp_path):
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path)
        await save(store, hold=True)
        await store.list(Query())
        say("saved")
    asyncio.run(main())
    """
    with running(program, tmp_path / "store.db") as child:
        assert ended(child) == ["saved"]
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    assert (await store.agent("agent")).owner_alive is False
    assert not (tmp_path / "store.db.ballast").exists() or (await store.verify()).ok
    await store.close()


async def test_a_reader_is_not_disturbed_by_deletions(tmp_path):
    path = tmp_path / "store.db"
    program = """
    async def main():
        store = SQLiteCheckpointStorage(path, read_only=True)
        say("ready")
        for _ in range(60):
            for listed in await store.list(Query(limit=None)):
                found = await store.fetch(listed.id)
                if found is not None:
                    assert found[1].decode()["n"] >= 0
        say("done")
    asyncio.run(main())
    """
    store = SQLiteCheckpointStorage(path)
    for n in range(30):
        await store.save(await _checkpoint(n))
    with running(program, path) as reader:
        assert line(reader) == "ready"
        for n in range(30, 130):
            [oldest] = await store.list(Query(limit=1, oldest_first=True))
            await store.save(await _checkpoint(n))
            await store.delete(oldest.id)
            if n % 25 == 0:
                await store.collect_garbage()
        assert ended(reader) == ["done"]
    await store.close()


async def _checkpoint(n):
    from holdfast.testing.samples import checkpoint

    return checkpoint(state={"n": n, "log": list(range(n))})

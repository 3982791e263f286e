"""Who owns an agent when processes die, hang and wake up again."""

import signal

import pytest

from holdfast.errors import OwnedElsewhere
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued
from tests.faults.children import ended, line, running, tell

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

HOLDS = """
async def main():
    store = SQLiteCheckpointStorage(path)
    [done] = await store.commit(Change(agent_id="agent", user_id="user", hold=True))
    say("epoch", done.epoch)
    sys.stdin.readline()
    try:
        await commit(store, "agent", epoch=done.epoch)
        say("released")
    except StaleWriter as error:
        say("stale", error.agent_id, error.epoch)
asyncio.run(main())
"""


@pytest.fixture
async def store(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    yield store
    await store.close()


async def test_a_live_owner_keeps_others_out_until_it_releases(store):
    with running(HOLDS, store.path) as child:
        assert line(child) == "epoch 1"
        with pytest.raises(OwnedElsewhere) as refused:
            await continued(store)
        assert refused.value.agent_id == "agent"
        assert (await store.agent("agent")).owner_alive
        tell(child)
        assert ended(child) == ["released"]
    assert (await continued(store)).position == 1


async def test_a_killed_owner_is_taken_over_at_once_with_the_next_epoch(store):
    with running(HOLDS, store.path) as child:
        assert line(child) == "epoch 1"
        child.kill()
        child.wait()
        done = await commit(store, hold=True)
        assert done.epoch == 2


async def test_a_stopped_owner_still_owns_and_who_takes_over_makes_it_stale(store):
    with running(HOLDS, store.path) as child:
        assert line(child) == "epoch 1"
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(OwnedElsewhere):
            await continued(store)
        done = await commit(store, hold=True, take_over=True)
        assert done.epoch == 2
        child.send_signal(signal.SIGCONT)
        tell(child)
        assert ended(child) == ["stale agent 1"]
        await commit(store, epoch=2)


FORKS = """
async def main(name, saves):
    for n in range(saves):
        await continued(store, name, state={"n": n})
    return await store.list(Query(agent_id=name, limit=None))

store = SQLiteCheckpointStorage(path)
asyncio.run(main("before", 3))
child = os.fork()
mine = asyncio.run(main("child" if child == 0 else "parent", 30))
assert len(mine) == 30
if child == 0:
    os._exit(0) if sys.argv[2] == "hard" else sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(main("after", 5))
asyncio.run(store.close())
say("fine")
"""


@pytest.mark.parametrize("ending", ["hard", "clean"])
async def test_after_fork_parent_and_child_both_go_on_saving(tmp_path, ending):
    path = tmp_path / "store.db"
    with running(FORKS, path, ending) as child:
        assert ended(child) == ["fine"]
    store = SQLiteCheckpointStorage(path)
    counts = {info.agent_id: info.checkpoints for info in await store.agents()}
    assert counts == {"before": 3, "child": 30, "parent": 30, "after": 5}
    report = await store.verify()
    assert report.ok, report.damaged
    assert report.checkpoints == 68
    await store.close()


async def test_a_dead_parent_does_not_look_alive_because_of_its_child(store):
    program = """
    store = SQLiteCheckpointStorage(path)
    asyncio.run(commit(store, "agent", hold=True))
    child = os.fork()
    if child == 0:
        sys.stdin.readline()
        os._exit(0)
    say(child)
    os.kill(os.getpid(), 9)
    """
    with running(program, store.path) as parent:
        line(parent)
        parent.wait()
        try:
            assert not (await store.agent("agent")).owner_alive
            done = await commit(store, hold=True)
            assert done.epoch == 2
        finally:
            tell(parent)

"""The roll call: everybody is read once, and afterwards only those who may have changed."""

from dataclasses import replace

import apsw
import pytest

from holdfast.errors import Corrupt, DuplicateId
from holdfast.history import codec
from holdfast.storage.authenticity import SEAL_BYTES
from holdfast.storage.protocol import Outgoing
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.headtree import FANOUT, ROOTS_MAX, Heads
from holdfast.storage.sqlite.rollcall import RollCall
from holdfast.testing.samples import commit, save, saving

MANY = ROOTS_MAX + 40


@pytest.fixture
def read(monkeypatch):
    """What of the agents' table was read: the first number of each group, in order."""
    numbers = []
    leaves = RollCall._leaves

    def counted(self, of):
        numbers.append(of.start)
        return leaves(self, of)

    monkeypatch.setattr(RollCall, "_leaves", counted)
    return numbers


def name(number):
    return f"agent-{number:03}"


async def filled(path, agents=MANY):
    store = SQLiteCheckpointStorage(path)
    await store.commit(*[saving(name(number), user_id="first") for number in range(1, agents + 1)])
    return store


async def heads_of(store):
    """As the store's row has them, and as the rows have them."""

    def both(reader):
        rows = reader.db.execute("SELECT number, head FROM agents WHERE number > 0").fetchall()
        return reader.rows.store().heads, Heads.of({number: head[1:17] for number, head in rows})

    return await store.read_side.read(both)


async def test_the_heads_are_those_of_the_rows_however_the_agents_came(tmp_path):
    store = await filled(tmp_path / "store.db", ROOTS_MAX - 2)
    for number in range(ROOTS_MAX - 1, ROOTS_MAX + 4):
        await save(store, name(number), user_id="first")
        said, there = await heads_of(store)
        assert said == there
    assert said.depth == 1
    await commit(store, name(3), user_id="first", erase=True)
    await store.send(name(5), "first", "hello", sender="x")
    await store.send("somebody new", "first", "hello", sender="x")
    await commit(store, name(7), user_id="first", delete=("none",))
    await store.collect_garbage()
    said, there = await heads_of(store)
    assert said == there
    assert (await store.verify()).ok
    await store.close()


async def test_a_commit_that_was_taken_back_leaves_the_heads_as_they_were(tmp_path):
    store = await filled(tmp_path / "store.db")
    before = await heads_of(store)
    with pytest.raises(DuplicateId):
        await store.commit(
            saving(name(1), id="chk-same", user_id="first"), saving(name(2), id="chk-same", user_id="first")
        )
    failing = store.write_side.session.ledger.rows

    def fails(*_):
        raise Corrupt("in the middle of a commit")

    put = failing.put_store
    failing.put_store = fails  # after the rows of the agents were written
    with pytest.raises(Corrupt, match="in the middle"):
        await store.commit(saving(name(2), user_id="first"), saving("somebody new", user_id="first"))
    failing.put_store = put
    assert await heads_of(store) == before
    await store.commit(saving(name(2), user_id="first"), saving("somebody new", user_id="first"))
    said, there = await heads_of(store)
    assert said == there != before[0]
    await store.close()


@pytest.mark.parametrize("agents", [40, ROOTS_MAX - 1, MANY])
async def test_who_is_sent_to_in_a_commit_is_held_against_what_it_has_written_by_then(tmp_path, agents):
    await (await filled(tmp_path / "store.db", agents)).close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db")  # it knows nobody yet
    beside, far, new = name(18), name(35), "somebody new"
    messages = [
        Outgoing(to=to, user_id="first", content="hello", sender="x") for to in (beside, far, new, "another", new)
    ]
    change = saving(name(17), user_id="first", continue_newest=True)
    await store.commit(replace(change, send=tuple(messages)), saving("a third", user_id="first"))
    for to, count in ((beside, 1), (far, 1), (new, 2), ("another", 1)):
        assert len(await store.inbox(to)) == count
    said, there = await heads_of(store)
    assert said == there
    assert (await store.verify()).ok
    await store.close()


async def test_an_answer_about_one_agent_reads_its_group(tmp_path, read):
    await (await filled(tmp_path / "store.db")).close()
    read.clear()
    store = SQLiteCheckpointStorage(tmp_path / "store.db", read_only=True)
    for number in (20, 17, 32, 20):
        assert (await store.agent(name(number))).checkpoints == 1
    assert read == [17]
    await store.agent(name(33))
    assert read == [17, 33]
    await store.close()


async def test_after_a_commit_only_what_may_have_changed_is_read_again(tmp_path, read):
    store, other = await filled(tmp_path / "store.db"), SQLiteCheckpointStorage(tmp_path / "store.db")
    everybody = [*range(1, MANY + 1, FANOUT)]
    assert len(await other.agents()) == MANY
    assert read[-len(everybody) :] == everybody
    read.clear()
    await other.agents()
    assert await other.agent("nobody") is None
    assert read == []
    await store.commit(saving(name(20), user_id="first"), saving(name(50), user_id="first"))
    read.clear()  # the group was new to who wrote
    assert await other.agent("nobody") is None
    assert len(await other.agents()) == MANY
    assert read == [17, 49]
    await store.close()
    await other.close()


async def test_who_writes_alone_reads_nobody_twice(tmp_path, read):
    store = await filled(tmp_path / "store.db")
    for number in (1, 20, 40):
        await save(store, name(number), user_id="first")
    read.clear()
    for number in (1, 20, 40, 2, 21, 41):
        await save(store, name(number), user_id="first")
    await save(store, "somebody new", user_id="first")
    read.clear()
    await save(store, "another", user_id="first")
    assert read == []
    await store.close()


@pytest.mark.parametrize("agents", [3, MANY])
async def test_a_row_beyond_the_last_is_seen(tmp_path, agents):
    store = await filled(tmp_path / "store.db", agents)
    await store.close()
    db = apsw.Connection(str(tmp_path / "store.db"))
    db.execute(
        "INSERT INTO agents (number, id, user, head) SELECT 1 << 40, 'more', user, head FROM agents WHERE number = 2"
    )
    db.close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db", read_only=True)
    for ask in (lambda: store.agent("more"), lambda: store.agent("nobody"), store.agents):
        with pytest.raises(Corrupt):
            await ask()
    assert not (await store.verify()).ok
    await store.close()


@pytest.mark.parametrize("depth", [-1, 6, 8, 1 << 40])
async def test_a_depth_that_somebody_made_up_takes_no_memory(tmp_path, depth):
    """Without its key a store is opened for reading, and nothing of it is authenticated."""
    store = await filled(tmp_path / "store.db")
    await store.close()
    (tmp_path / "store.db.key").unlink()
    db = apsw.Connection(str(tmp_path / "store.db"))
    [(cell,)] = db.execute("SELECT head FROM agents WHERE number = 0").fetchall()
    values = codec.decode(cell[SEAL_BYTES:])
    assert values[3] == 1
    values[3] = depth
    db.execute("UPDATE agents SET head = ? WHERE number = 0", (cell[:SEAL_BYTES] + codec.pack(values),))
    db.close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    for ask in (lambda: store.agent(name(1)), lambda: store.agent("nobody"), store.agents):
        with pytest.raises(Corrupt):
            await ask()
    assert not (await store.verify()).ok
    await store.close()

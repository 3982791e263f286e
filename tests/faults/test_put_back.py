"""Somebody without the key puts all rows of an agent back from an older copy, or takes them all out.

Each row is authentic then, and all of an agent's agree with each other: only the store's row knows better.
"""

import apsw
import pytest

from holdfast import PythonRunner
from holdfast.errors import Corrupt
from holdfast.history.records import RlmComplete, RlmStart
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.headtree import ROOTS_MAX
from holdfast.storage.sqlite.rollcall import RollCall
from holdfast.testing.samples import commit, continued, save, saving
from tests.faults.stores import answers, conversation, copied, refused, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

NUMBERS = {"ada": 1, "ada-fork": 2, "bob": 3, "cy": 4, "ghost": 5, "dee": 6}
OWNERS = {"ada": "first", "ada-fork": "first", "bob": "second", "cy": "first", "ghost": "second", "dee": "second"}


async def gone_on(path):
    """Every agent of the small store does something more."""
    store = SQLiteCheckpointStorage(path)
    await continued(store, "ada", id="chk-new", user_id="first", state=conversation(70))
    await continued(store, "ada-fork", id="chk-new-fork", user_id="first", state=conversation(7))
    await store.send("bob", "second", {"n": 3}, sender="ada")
    await commit(store, "bob", user_id="second", acknowledge=2)
    await continued(store, "cy", id="chk-new-cy", user_id="first", state=conversation(1))
    await save(store, "ghost", id="chk-new-ghost", user_id="second")
    done = RlmComplete(tool_call_id="run-4", output=1, print_output="", tool_call_count=0)
    await commit(store, "dee", user_id="second", records=(done, RlmStart(tool_call_id="run-5", code="")))
    await store.close()


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    """The store, what was said of it, and an older copy."""
    folder = tmp_path_factory.mktemp("put_back")
    path = await small_store(folder / "store")
    older = copied(path, folder / "older")
    await gone_on(path)
    store = SQLiteCheckpointStorage(path, read_only=True)
    right = await answers(store)
    await store.close()
    assert not refused(right)
    return path, right, older


def tables(db):
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    return [name for name in names if "key" in [column[1] for column in db.execute(f"PRAGMA table_info({name})")]]


def put_back(path, older, agent, *, but_for=()):
    """All rows of the agent, in whatever table, as the older copy has them."""
    db = apsw.Connection(str(path))
    db.execute("ATTACH ? AS older", (str(older),))
    [(number,)] = db.execute("SELECT number FROM agents WHERE id = ?", (agent,)).fetchall()
    its_own = f"WHERE key BETWEEN {number << 32} AND {((number + 1) << 32) - 1}"
    for table in tables(db):
        if table not in but_for:
            db.execute(f"DELETE FROM main.{table} {its_own}")
            db.execute(f"INSERT INTO main.{table} SELECT * FROM older.{table} {its_own}")
    db.execute(
        "UPDATE agents SET head = (SELECT head FROM older.agents WHERE number = ?1) WHERE number = ?1", (number,)
    )
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def taken_out(path, _older, agent, *, but_for=()):
    """Nothing is left of the agent."""
    db = apsw.Connection(str(path))
    [(number,)] = db.execute("SELECT number FROM agents WHERE id = ?", (agent,)).fetchall()
    for table in tables(db):
        if table not in but_for:
            db.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", (number << 32, ((number + 1) << 32) - 1))
    db.execute("DELETE FROM agents WHERE number = ?", (number,))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


WAYS = pytest.mark.parametrize("way", [put_back, taken_out])


@WAYS
@pytest.mark.parametrize("agent", NUMBERS)
async def test_no_answer_is_wrong_and_none_about_the_agent_is_given(original, tmp_path, way, agent):
    path, right, older = original
    path = copied(path, tmp_path)
    way(path, older, agent)
    for read_only in (True, False):
        store = SQLiteCheckpointStorage(path, read_only=read_only)
        given = await answers(store)
        assert wrong(given, right) == []
        about_it = {f"{what} {agent}" for what in ("agent", "list of agent", "history of", "runs by", "inbox of")}
        about_its_user = {f"{what} of {OWNERS[agent]}" for what in ("agents", "list", "runs")}
        about_all = {"agents", "list", "list oldest", "list of manual", "runs", "runs named none"}
        about_nothing = {"agent nobody", "list of nobody", "position of no", "content of no", "no group"}
        assert about_it | about_its_user | about_all | about_nothing <= {*refused(given)}
        others = [other for other in NUMBERS if other != agent]
        assert not {f"agent {other}" for other in others} & {*refused(given)}, "one that is as it was is still read"
        report = await store.verify()
        assert ("store", "head") in [(one.kind, one.id) for one in report.damaged]
        assert not {one.id for one in right[f"list of agent {agent}"]} & {*report.whole}
        for id_ in report.whole:
            assert await store.fetch(id_) is not None
        await store.close()


@WAYS
@pytest.mark.parametrize("agent", NUMBERS)
async def test_without_the_roll_call_an_older_agent_and_none_would_be_believed(
    original, tmp_path, monkeypatch, way, agent
):
    """The control: what the pending list's own sum finds is left as it was."""
    path, right, older = original
    path = copied(path, tmp_path)
    way(path, older, agent, but_for=("pending",))
    monkeypatch.setattr(RollCall, "check", lambda *_: None)
    monkeypatch.setattr(RollCall, "check_all", lambda *_: None)
    store = SQLiteCheckpointStorage(path, read_only=True)
    assert f"agent {agent}" in wrong(await answers(store), right)
    await store.close()


@WAYS
async def test_nobody_goes_on_from_there(original, tmp_path, way):
    path, _, older = original
    path = copied(path, tmp_path)
    way(path, older, "cy")
    store = SQLiteCheckpointStorage(path)
    for work in (
        lambda: continued(store, "cy", user_id="first"),
        lambda: commit(store, "cy", user_id="first", hold=True),
        lambda: store.send("cy", "first", "hello", sender="ada"),
        lambda: store.commit(saving("ada", user_id="first"), saving("cy", user_id="first")),
        lambda: save(store, "somebody new"),
    ):
        with pytest.raises(Corrupt, match="exchanged for an older state"):
            await work()
    await continued(store, "ada", user_id="first")
    assert not (await store.verify()).ok
    await store.close()


async def test_the_error_names_the_store_and_the_agent(original, tmp_path):
    path, _, older = original
    path = copied(path, tmp_path)
    put_back(path, older, "cy")
    store = SQLiteCheckpointStorage(path, read_only=True)
    for ask in (lambda: store.read("cy"), store.agents, lambda: store.list(Query()), lambda: store.position("no")):
        with pytest.raises(Corrupt) as raised:
            await ask()
        assert raised.value.agent_id == "cy"
        assert str(path) in raised.value.message
        assert "agent cy was exchanged for an older state, or was removed" in raised.value.message
    await store.close()


@WAYS
async def test_a_run_whose_rows_are_not_what_they_were_calls_nobody_again(tmp_path, way):
    path, paid = tmp_path / "store.db", []

    def pay(number: int) -> int:
        paid.append(number)
        return number

    store = SQLiteCheckpointStorage(path)
    await continued(store, "other")
    runner = PythonRunner(store, [pay], type_check=False)
    await runner.run("ada", "pay(1)", "first")
    await store.backup(tmp_path / "older.db")
    await runner.run("ada", "pay(2)", "second")
    await runner.close()
    way(path, tmp_path / "older.db", "ada")
    for code, name in (("pay(2)", "second"), ("pay(3)", "third")):
        runner = PythonRunner(SQLiteCheckpointStorage(path), [pay], type_check=False)
        with pytest.raises(Corrupt, match="exchanged for an older state"):
            await runner.run("ada", code, name)
        await runner.close()
    assert paid == [1, 2]


# --- among many agents, whose heads are proven in groups

MANY = 3 * ROOTS_MAX


@pytest.fixture(scope="module")
async def many(tmp_path_factory):
    """A store of many agents, its names, and an older copy in which half of them were not so far."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"agent-{number}" for number in range(MANY)]
    store = SQLiteCheckpointStorage(folder / "store.db")
    await store.commit(*[saving(name, user_id="first") for name in names])
    await store.close()
    older = copied(folder / "store.db", folder / "older")
    store = SQLiteCheckpointStorage(folder / "store.db")
    for name in names[::2]:
        await continued(store, name, user_id="first")
    await store.close()
    return folder / "store.db", names, older


@WAYS
@pytest.mark.parametrize("read_only", [True, False])
async def test_among_many_agents_only_those_beside_it_are_refused_as_well(many, tmp_path, way, read_only):
    path, names, older = many
    path = copied(path, tmp_path)
    for agent in ("agent-0", f"agent-{MANY - 2}"):
        way(path, older, agent)
    store = SQLiteCheckpointStorage(path, read_only=read_only)
    not_read = []
    for number, name in enumerate(names):
        try:
            info = await store.agent(name)
            assert info.checkpoints == len(await store.read(name)) == (2 if number % 2 == 0 else 1)
        except Corrupt:
            not_read.append(name)
    assert not_read == [*names[:16], *names[-16:]]
    for ask in (store.agents, lambda: store.list(Query(user_id="first")), lambda: store.position("no")):
        with pytest.raises(Corrupt):
            await ask()
    report = await store.verify()
    heads = [one.reason for one in report.damaged if (one.kind, one.id) == ("store", "head")]
    assert len(heads) == 2
    assert "from 1 to 16" in heads[0]
    await store.close()


@WAYS
async def test_who_has_the_store_open_looks_again_at_what_may_have_changed(many, tmp_path, way):
    path, _, older = many
    path = copied(path, tmp_path)
    reader, writer = SQLiteCheckpointStorage(path), SQLiteCheckpointStorage(path)
    await writer.commit(saving("agent-1", user_id="first", continue_newest=True))
    assert len(await reader.agents()) == MANY
    way(path, older, "agent-4")
    await writer.commit(saving("agent-5", user_id="first", continue_newest=True))
    for ask in (reader.agents, lambda: reader.agent("agent-4"), lambda: reader.list(Query())):
        with pytest.raises(Corrupt):
            await ask()
    await reader.close()
    await writer.close()

"""What a storage of three methods can do for a manager, and how it says what it can't."""

import asyncio

import pytest

from holdfast.errors import InvalidArgument, MissingMethod, StaleWriter, UnknownCheckpoint, WrongOwner
from holdfast.history.records import UserMessage
from holdfast.storage.adapter import StorageAdapter, as_store
from holdfast.storage.memory import InMemoryCheckpointStorage
from holdfast.storage.protocol import Change, CheckpointStorage, Query, Store
from holdfast.testing.samples import ODD_STATE, checkpoint, commit, continued, save, saving


class ThreeMethods(CheckpointStorage):
    """Keeps the very objects, and counts its calls."""

    def __init__(self):
        self.kept = {}
        self.calls = []

    async def save(self, checkpoint):
        self.calls.append("save")
        self.kept.pop(checkpoint.id, None)
        self.kept[checkpoint.id] = checkpoint
        return checkpoint.id

    async def load(self, checkpoint_id):
        self.calls.append("load")
        await asyncio.sleep(0)
        return self.kept.get(checkpoint_id)

    async def list_by_user(self, user_id, limit, offset):
        self.calls.append("list_by_user")
        await asyncio.sleep(0)
        return [one for one in reversed(self.kept.values()) if one.user_id == user_id][offset : offset + limit]


class WithOptions(ThreeMethods):
    async def list_by_agent(self, agent_id, limit, offset):
        self.calls.append("list_by_agent")
        return [one for one in reversed(self.kept.values()) if one.agent_id == agent_id][offset : offset + limit]

    async def delete(self, checkpoint_id):
        return self.kept.pop(checkpoint_id, None) is not None


@pytest.fixture(params=[ThreeMethods, WithOptions])
def store(request):
    return as_store(request.param())


@pytest.fixture
def bare():
    return as_store(ThreeMethods())


@pytest.fixture
def optional():
    return as_store(WithOptions())


def test_a_full_store_needs_no_adapter():
    memory = InMemoryCheckpointStorage()
    assert as_store(memory) is memory
    assert isinstance(as_store(ThreeMethods()), StorageAdapter)
    assert isinstance(as_store(ThreeMethods()), Store)


# --- saving and finding


async def test_a_state_is_handed_over_as_an_exact_copy(store):
    state = {**ODD_STATE}
    saved = await save(store, state=state)
    kept = store.storage.kept[saved.id]
    assert kept.state is not state
    assert kept.state["tuple"] == (1, ("nested", [2]))
    assert kept.parent_checkpoint_id is None


async def test_going_on_from_the_newest_finds_it_after_a_restart(store):
    first = await continued(store, "one")
    await continued(store, "other")
    second = await continued(as_store(store.storage), "one")
    assert second.parent_checkpoint_id == first.id
    assert (first.position, second.position) == (1, 2)
    assert second.commit_number == 3


async def test_a_pinned_older_one_is_not_taken_for_the_newest(store):
    first = await continued(store)
    second = await continued(store)
    await commit(store, pin={first.id: True})
    position = await store.position(first.id)
    assert position is not None
    assert position.pinned
    for again in (store, as_store(store.storage)):
        found = await continued(again)
        assert found.parent_checkpoint_id == second.id
        second = found


async def test_commits_of_many_tasks_go_on_from_each_other(store):
    await asyncio.gather(*(continued(store) for _ in range(8)))
    listed = await store.list(Query(user_id="user", agent_id="agent"))
    assert [one.position for one in listed] == list(range(8, 0, -1))
    assert [one.parent_checkpoint_id for one in listed] == [*(one.id for one in listed[1:]), None]


async def test_an_adapter_serves_one_event_loop_after_another():
    store = as_store(ThreeMethods())

    async def three():
        await asyncio.gather(*(continued(store) for _ in range(3)))

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, three())
    assert len(await store.list(Query(user_id="user"))) == 6


async def test_a_list_filters_what_the_storage_can_not(bare):
    ids = [(await continued(bare, f"agent-{n % 2}", kind=("manual", "routine")[n % 3 == 0])).id for n in range(250)]
    query = Query(user_id="user", agent_id="agent-0", kinds=("routine",), limit=None)
    expected = [id_ for n, id_ in enumerate(ids) if n % 2 == 0 and n % 3 == 0]
    assert [one.id for one in await bare.list(query)] == expected[::-1]
    oldest = await bare.list(Query(user_id="user", oldest_first=True, limit=3, offset=1))
    assert [one.id for one in oldest] == ids[1:4]


async def test_a_storage_that_ignores_the_offset_does_not_go_on_for_ever():
    class Stubborn(ThreeMethods):
        async def list_by_user(self, user_id, limit, offset):
            return [checkpoint(id=f"chk_{n}") for n in range(limit)]

    listed = await as_store(Stubborn()).list(Query(user_id="user", kinds=("manual",), limit=None))
    assert len(listed) == 100


async def test_a_commit_to_a_known_agent_reads_no_more_than_two_checkpoints(optional):
    for _ in range(5):
        await continued(optional)
    optional.storage.calls.clear()
    await continued(optional)
    assert optional.storage.calls == ["list_by_agent", "list_by_user", "save"]


async def test_a_fork_is_a_checkpoint_of_a_new_agent_whose_parent_is_known(store):
    first = await continued(store)
    fork = await save(store, "fork", fork_of=first.id, parent=first.id)
    assert (fork.agent_id, fork.position, fork.parent_checkpoint_id) == ("fork", 1, first.id)
    with pytest.raises(UnknownCheckpoint):
        await save(store, "other", fork_of="chk_unknown")
    with pytest.raises(UnknownCheckpoint):
        await save(store, "theirs", user_id="them", fork_of=first.id)


async def test_operations_are_pending_by_their_checkpoints(optional):
    saved = await continued(optional, kind="pre_operation")
    [pending] = await optional.pending("operation", user_id="user")
    assert (pending.name, pending.agent_id, pending.seq) == (saved.id, "agent", 1)
    await commit(optional, delete=(saved.id,))
    assert await optional.pending("operation", user_id="user") == []


async def test_agents_are_known_by_their_checkpoints(store):
    await continued(store, "one")
    last = await continued(store, "one")
    await continued(store, "two")
    infos = await store.agents("user")
    assert {info.agent_id: (info.checkpoints, info.tip) for info in infos}["one"] == (2, last.id)
    assert await store.agents("nobody") == []


# --- deleting


async def test_deleting_counts_what_was_there_and_this_agents(optional):
    mine, theirs = await continued(optional), await continued(optional, "other")
    done = await commit(optional, delete=(mine.id, theirs.id, "chk_unknown"))
    assert done.deleted == 1
    assert list(optional.storage.kept) == [theirs.id]


async def test_erasing_an_agent_deletes_its_checkpoints(optional):
    for _ in range(3):
        await continued(optional)
    stays = await continued(optional, "other")
    done = await commit(optional, erase=True)
    assert done.deleted == 3
    assert list(optional.storage.kept) == [stays.id]


async def test_an_id_saved_again_is_replaced_without_a_delete_method(bare):
    first = await continued(bare, state={"turn": 1})
    await bare.commit(saving(id=first.id, state={"turn": 2}, delete=(first.id,)))
    found = await bare.fetch(first.id)
    assert found is not None
    assert found[1].decode() == {"turn": 2}


async def test_what_is_saved_in_a_commit_is_there_before_anything_is_deleted(optional):
    old = await continued(optional, "other")
    await optional.commit(Change(agent_id="other", user_id="user", delete=(old.id,)), saving("new"))
    assert [one.agent_id for one in optional.storage.kept.values()] == ["new"]


# --- who may write


async def test_an_operation_that_ended_may_not_write(store):
    begun = await commit(store, hold=True)
    await continued(store, epoch=begun.epoch)
    with pytest.raises(StaleWriter):
        await continued(store, epoch=begun.epoch)


async def test_an_agent_belongs_to_its_first_user(optional):
    await continued(optional)
    with pytest.raises(WrongOwner):
        await continued(optional, user_id="them")


async def test_a_refused_commit_saves_nothing(optional):
    await save(optional, "theirs", user_id="them")
    theirs = Change(agent_id="theirs", user_id="user", delete=("chk_x",))
    with pytest.raises(WrongOwner):
        await optional.commit(saving("mine"), theirs)
    assert [one.agent_id for one in optional.storage.kept.values()] == ["theirs"]


# --- what it can't do


@pytest.mark.parametrize(
    "change",
    [
        Change(agent_id="agent", user_id="user", records=(UserMessage(content="hello"),)),
        Change(agent_id="agent", user_id="user", acknowledge=1),
    ],
)
async def test_what_needs_a_history_or_an_inbox_is_refused(bare, change):
    with pytest.raises(MissingMethod, match=r"ThreeMethods .* needs a full store"):
        await bare.commit(change)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("read", ("agent",)),
        ("snapshot", ("agent", 1)),
        ("runs", ()),
        ("group", ("grp_x",)),
        ("inbox", ("agent",)),
        ("pending", ("run",)),
        ("pending", ("operation",)),
        ("agents", ()),
        ("list", (Query(),)),
    ],
)
async def test_verbs_of_a_full_store_name_it(bare, method, arguments):
    with pytest.raises(MissingMethod, match=r"a full store \(memory, SQLite\)"):
        await getattr(bare, method)(*arguments)


async def test_sending_needs_a_full_store(bare):
    with pytest.raises(MissingMethod, match="full store"):
        await bare.send("agent", "user", "hello", sender="me")


async def test_saving_several_agents_at_once_is_refused_as_a_whole(optional):
    with pytest.raises(MissingMethod, match="several agents"):
        await optional.commit(saving("one"), saving("two"))
    assert optional.storage.kept == {}


async def test_a_missing_optional_method_is_named(bare):
    saved = await continued(bare)
    with pytest.raises(MissingMethod, match=r"delete\(\)"):
        await commit(bare, delete=(saved.id,))
    with pytest.raises(MissingMethod, match=r"list_by_agent\(\)"):
        await bare.list(Query(agent_id="agent"))
    with pytest.raises(MissingMethod, match=r"verify\(\)"):
        await bare.verify()


async def test_a_missing_required_method_is_named():
    with pytest.raises(MissingMethod, match=r"object has no method load\(\)"):
        await as_store(object()).fetch("chk_x")


async def test_a_plain_function_is_told_from_an_async_one():
    class Plain:
        def load(self, checkpoint_id):
            return None

    with pytest.raises(InvalidArgument, match=r"Plain\.load\(\) is a plain function") as refused:
        await as_store(Plain()).fetch("chk_x")
    assert "async def load" in refused.value.hint


async def test_closing_reaches_the_storage_if_it_can_be_closed():
    closed = []

    class Closing(ThreeMethods):
        async def close(self):
            closed.append(True)

    await as_store(Closing()).close()
    await as_store(object()).close()
    assert closed == [True]

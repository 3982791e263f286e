"""The twin of the async manager: nothing is missing, and the user's code runs where the user is."""

from __future__ import annotations

import inspect
import threading

import pytest

import holdfast
from holdfast import InMemoryCheckpointStorage, Policy, SQLiteCheckpointStorage, UnknownCheckpoint
from holdfast.blocking import Manager
from tests.unit.durable.samples import Agent


@pytest.fixture(params=["memory", "sqlite"])
def manager(request, tmp_path):
    storage = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "s.db")
    with Manager(storage) as manager:
        manager.register(Agent)
        yield manager


class Watchful(Agent):
    """Notes the thread of everything that is called."""

    def __init__(self, agent_id="ada", user_id="u"):
        self.threads = {threading.current_thread()}
        super().__init__(agent_id, user_id)

    def checkpoint_state(self):
        self.threads.add(threading.current_thread())
        return self.state

    def restore_state(self, state):
        self.threads.add(threading.current_thread())
        self.state = state

    @property
    def context_summary(self):
        self.threads.add(threading.current_thread())
        return ""


def public(cls):
    return {name: member for name, member in vars(cls).items() if not name.startswith("_")}


def test_every_method_of_the_async_manager_is_there_with_its_signature_and_docstring():
    for name, method in public(holdfast.CheckpointManager).items():
        twin = getattr(Manager, name)
        assert inspect.signature(twin).parameters.keys() == inspect.signature(method).parameters.keys(), name
        assert twin.__doc__ == method.__doc__, name
        assert not inspect.iscoroutinefunction(twin), name


def test_an_agent_is_saved_restored_compared_and_forked(manager):
    agent = Agent()
    first = manager.save(agent.step(1))
    second = manager.save(agent.step(2), kind="auto", metadata={"n": 2})
    assert manager.restore(first).state == {"steps": [1]}
    assert manager.load(second).metadata == {"n": 2}
    assert [one.id for one in manager.list_by_user("u")] == [second, first]
    assert [one.id for one in manager.list_by_agent("ada", limit=1)] == [second]
    assert manager.latest("ada", kind="manual").id == first
    assert [one.id for one in manager.ancestors(second)] == [first]
    assert manager.compare(first, second).changes
    assert manager.fork(first, agent_id="eve").agent_id == "eve"
    assert [one.agent_id for one in manager.restore_group(manager.save_group([agent, Agent("bob")]))] == ["ada", "bob"]
    manager.pin(first)
    assert manager.delete(second)
    with pytest.raises(UnknownCheckpoint):
        manager.load(second)
    assert manager.clear_user_history("u") == 4


def test_all_of_the_users_code_runs_on_the_callers_thread(manager):
    threads = []

    def note(*_):
        threads.append(threading.current_thread())

    def upgrade(state):
        note()
        return state

    def build(checkpoint):
        note()
        return Watchful(checkpoint.agent_id, checkpoint.user_id)

    agent = Watchful()
    for event in ("checkpoint_saved", "checkpoint_restored"):
        manager.on(event, note)
    first = manager.save(agent)
    manager.register(build, name="Watchful", upgrades={1: upgrade})
    restored = manager.restore(first)
    assert len(threads) == 4
    assert {*threads, *agent.threads, *restored.threads} == {threading.current_thread()}


def test_async_handlers_and_agents_are_awaited(manager):
    told = []

    class Slow(Agent):
        async def checkpoint_state(self):
            return {"slow": True}

    @manager.on("checkpoint_saved")
    async def saved(checkpoint):
        told.append(checkpoint.id)

    id_ = manager.save(Slow())
    assert told == [id_]
    assert manager.load(id_).state == {"slow": True}


def test_a_handler_may_use_the_manager(manager):
    seen = []
    manager.on("checkpoint_saved", lambda checkpoint: seen.append(manager.load(checkpoint.id).state))
    manager.save(Agent().step(1))
    assert seen == [{"steps": [1]}]


@pytest.mark.blocks_the_loop("as a cell of a notebook does")
async def test_it_works_below_a_running_loop():
    manager = Manager()
    manager.register(Agent)
    assert manager.restore(manager.save(Agent().step(1))).state == {"steps": [1]}


def test_an_operation_is_gone_on_success_and_stays_after_a_failure(manager):
    agent = Agent().step("before")
    with manager.operation(agent, "deploy") as operation:
        manager.save(agent.step("during"))
        assert manager.load(operation.checkpoint_id).operation == "deploy"
        assert manager.interrupted_operations() == []
    assert [one.kind for one in manager.list_by_agent("ada")] == ["manual"]
    with pytest.raises(ZeroDivisionError), manager.operation(agent, "deploy again"):
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), manager.operation(agent, "deploy once more"):
        raise KeyboardInterrupt
    assert [one.operation for one in manager.interrupted_operations()] == ["deploy again", "deploy once more"]
    assert manager.save(agent)


def test_it_takes_the_same_options_and_scope():
    manager = Manager(InMemoryCheckpointStorage(), "u", retention=Policy(routine_per_agent=1))
    agent = Agent()
    made = [manager.save(agent, kind="routine") for _ in range(3)]
    assert [one.id for one in manager.list_by_user()] == made[2:]
    assert "blocking.Manager(" in repr(manager)
    assert "user_id='u'" in repr(manager)


def test_many_threads_share_a_manager(manager):
    def live(n):
        agent = Agent(f"agent-{n}")
        for step in range(5):
            manager.save(agent.step(step))

    threads = [threading.Thread(target=live, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        newest = manager.latest(f"agent-{n}")
        assert manager.load(newest.id).state == {"steps": list(range(5))}
        assert len(manager.ancestors(newest.id)) == 4

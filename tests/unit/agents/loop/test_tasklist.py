"""Lists of tasks: added by anybody, claimed by one, and the same after any crash."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from holdfast import CheckpointManager, InMemoryCheckpointStorage, InvalidArgument, SQLiteCheckpointStorage
from holdfast.agents.loop.tasklist import TaskList
from holdfast.agents.loop.tasks import COMPLETED_MAX, entry, folded


@pytest.fixture(params=["memory", "sqlite"])
async def manager(request, tmp_path):
    storage = InMemoryCheckpointStorage() if request.param == "memory" else SQLiteCheckpointStorage(tmp_path / "s.db")
    async with CheckpointManager(storage) as manager:
        yield manager


async def names(tasks):
    return [(task.name, task.status, task.claimed_by, task.progress_percentage) for task in await tasks.all()]


async def test_a_task_is_claimed_in_order_worked_on_and_completed(manager):
    tasks = TaskList(manager, "work", user_id="u")
    for name in ("one", "two"):
        await tasks.add(name, content={"of": (1,)})
    task = await tasks.claim("ada")
    assert (task.name, task.content, task.status) == ("one", {"of": (1,)}, "claimed")
    assert (await tasks.claim("ada")).id == task.id, "until it is completed, it is what ada works on"
    await tasks.progress(task.id, 40, by="ada")
    assert (await tasks.claim("bob")).name == "two"
    assert await tasks.claim("eve") is None
    assert await names(tasks) == [("one", "claimed", "ada", 40), ("two", "claimed", "bob", 0)]
    await tasks.complete(task.id, result="done", by="ada")
    assert (await tasks.get(task.id)).result == "done"
    assert await tasks.claim("ada") is None
    assert await tasks.current("bob") == await tasks.claim("bob")


async def test_only_who_has_claimed_a_task_goes_on_with_it(manager):
    tasks = TaskList(manager, "work")
    task_id = await tasks.add("one")
    await tasks.claim("ada")
    for attempt in (tasks.progress(task_id, 10, by="bob"), tasks.complete(task_id, by="bob")):
        with pytest.raises(InvalidArgument, match="not claimed by bob"):
            await attempt
    with pytest.raises(InvalidArgument, match="not claimed"):
        await tasks.complete("tsk_unknown", by="ada")
    for percentage in (-1, 101, "half", True, float("nan")):
        with pytest.raises(InvalidArgument, match="percentage"):
            await tasks.progress(task_id, percentage, by="ada")


async def test_a_task_that_was_given_back_is_open_and_what_its_old_owner_says_counts_no_more(manager):
    tasks = TaskList(manager, "work")
    task_id = await tasks.add("one")
    await tasks.claim("ada")
    await tasks.release(task_id)
    assert (await tasks.claim("bob")).id == task_id
    await manager.store.send("work", "default", entry("complete", task_id, by="ada"), sender="ada")
    assert await names(tasks) == [("one", "claimed", "bob", 0)]


async def test_of_many_who_claim_at_once_each_gets_another_task(manager):
    lists = [TaskList(manager, "work") for _ in range(8)]
    for number in range(5):
        await lists[0].add(f"task {number}")
    claimed = await asyncio.gather(*(tasks.claim(f"agent-{n}") for n, tasks in enumerate(lists)))
    assert sorted(task.name for task in claimed if task) == [f"task {n}" for n in range(5)]


async def test_a_long_list_is_saved_now_and_then_and_loses_nothing(manager):
    tasks, other = TaskList(manager, "work"), TaskList(manager, "work")
    for number in range(40):
        task_id = await tasks.add(f"task {number}")
        assert (await other.claim("ada")).id == task_id
        await other.complete(task_id, by="ada")
    info = await manager.store.agent("work")
    assert info.inbox_last == 120
    assert info.inbox_last - info.inbox_acknowledged <= 70
    assert info.checkpoints == 1
    assert info.owner is None
    assert [task.name for task in await TaskList(manager, "work").all()] == [f"task {n}" for n in range(40)]
    assert (await manager.verify()).ok


async def test_many_processes_may_use_one_list(tmp_path):
    managers = [CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db")) for _ in range(3)]
    lists = [TaskList(manager, "work") for manager in managers]

    async def work(tasks, name):
        done = []
        for number in range(10):
            await tasks.add(f"{name} {number}")
            task = await tasks.claim(name)
            await tasks.complete(task.id, by=name)
            done.append(task.name)
        return done

    done = await asyncio.gather(*(work(tasks, f"agent-{n}") for n, tasks in enumerate(lists)))
    assert sorted(chain(*done)) == sorted(f"agent-{n} {number}" for n in range(3) for number in range(10))
    for manager in managers:
        await manager.close()


def test_what_is_no_entry_is_passed_over_with_a_warning(caplog):
    assert folded({}, ["hello", entry("complete", "unknown", by="ada"), entry("add", "t", name="one")]).keys() == {"t"}
    assert "not about a task" in caplog.text


def test_of_completed_tasks_the_last_ones_are_remembered():
    tasks = {}
    for n in range(COMPLETED_MAX + 5):
        id_ = str(n)
        entries = [entry("add", id_, name=id_), entry("claim", id_, by="a"), entry("complete", id_, by="a")]
        tasks = folded(tasks, [*entries, entry("progress", id_, by="a", percentage=3)])
    assert [*tasks] == [str(n) for n in range(5, COMPLETED_MAX + 5)]
    assert {task.progress_percentage for task in tasks.values()} == {100}

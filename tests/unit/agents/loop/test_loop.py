"""An agent's loop: messages, tasks, checkpoints as time passes, errors, and its end."""

from __future__ import annotations

import pytest

from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import DAY, Clock, Counter, Kinds, new_manager


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def manager():
    return new_manager()


def loop_of(agent, manager, clock, **options):
    return AgentLoop(agent, manager, clock=clock, idle_seconds=options.pop("idle_seconds", 300), **options)


async def run_until(loop, clock, seconds):
    clock.at(clock.time + seconds, loop.stop)
    return await loop.run()


async def test_three_days_leave_exactly_the_checkpoints_that_time_asks_for(manager, clock):
    kinds = Kinds(manager)
    loop = loop_of(Counter(), manager, clock)
    ended = await run_until(loop, clock, 3 * DAY + 60)
    assert ended.why == "stopped"
    assert kinds() == {"auto": 1 + 36, "routine": 3 * 48 + 1, "recovery": 3 * 12}
    assert kinds.why(kind="recovery") == ["refresh"] * 36
    listed = await manager.list_by_agent("ada", limit=1000)
    assert [one.kind for one in listed].count("routine") == 3, "the last three stay"
    assert listed[0].id == ended.checkpoint_id


async def test_a_message_changes_the_state_and_is_acknowledged_in_one_commit(manager, clock):
    mailbox = Mailbox(manager, "ada", user_id="u")
    for word in ("one", "two", "three"):
        await mailbox.send(word, sender="eve")
    loop = loop_of(Counter(), manager, clock)
    seen = []

    @manager.on("checkpoint_saved")
    async def saved(checkpoint):
        state = (await manager.load(checkpoint.id)).state["heard"]
        seen.append((state, [one.content for one in await mailbox.receive()]))

    await run_until(loop, clock, 60)
    assert seen[:4] == [
        ([], ["one", "two", "three"]),
        (["one"], ["two", "three"]),
        (["one", "two"], ["three"]),
        (["one", "two", "three"], []),
    ]
    assert [one.kind for one in await manager.list_by_agent("ada")] == ["routine"], "a step's goes with the next one"


async def test_a_message_sent_while_it_sleeps_is_heard_at_once(manager, clock):
    loop = loop_of(Counter(), manager, clock)
    clock.at(10, lambda: loop.mailbox.send("hello", sender="eve"))
    clock.at(11, loop.stop)
    await loop.run()
    assert loop.agent.heard == ["hello"]


async def test_a_task_is_worked_on_slice_by_slice_and_mail_comes_in_between(manager, clock):
    loop = loop_of(Counter(), manager, clock)
    first = await loop.tasks.add("count", content=1)
    await loop.tasks.add("sum", content=2)
    seen = []

    class Told(Counter):
        async def on_task(self, task, turn):
            seen.append((task.name, task.progress_percentage))
            if len(seen) == 2:
                turn.send("ada", "between")
            await super().on_task(task, turn)

    loop.place.agent = Told()
    await run_until(loop, clock, 60)
    assert seen == [(name, percentage) for name in ("count", "sum") for percentage in (0, 25, 50, 75)]
    assert loop.agent.heard == ["between", 1, 2]
    done = await loop.tasks.get(first)
    assert (done.status, done.result, done.progress_percentage, done.claimed_by) == (
        "completed",
        "did count",
        100,
        "ada",
    )

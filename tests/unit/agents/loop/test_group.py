"""Groups of loops: a cut of all of them while they run, and the way back to it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import InvalidArgument
from holdfast.agents.loop.group import LoopGroup
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import Clock, Counter, new_manager, until


class Relay(Counter):
    """Hands on what it hears to the agent that the message names next."""

    async def on_message(self, message, turn):
        word, *rest = message.content
        self.heard.append(word)
        if rest:
            turn.send(rest[0], [word, *rest[1:]])
        await asyncio.sleep(0)

    async def on_task(self, task, turn):
        turn.progress(task.progress_percentage / 2 + 1)
        await asyncio.sleep(0)


def loops_of(manager, *agents, clock=None):
    clock = clock or Clock()
    return [AgentLoop(agent, manager, clock=clock, idle_seconds=300) for agent in agents]


async def nothing_waits(loops):
    return not any([await loop.mailbox.waiting() for loop in loops])


async def run_until_idle(loops):
    """Runs them until nothing waits."""
    group = LoopGroup(loops)
    running = asyncio.ensure_future(group.run())
    await until(lambda: nothing_waits(loops))
    group.stop()
    return await running


async def is_owned(manager, agent_id):
    info = await manager.store.agent(agent_id)
    return info is not None and info.owner is not None


async def test_a_group_is_brought_back_with_its_states_inboxes_and_tasks():
    manager = new_manager(Relay)
    a, b = loops_of(manager, Relay("a"), Relay("b"))
    await a.mailbox.send(["one", "b"], sender="eve")
    await b.tasks.add("count")
    await run_until_idle([a, b])
    await a.mailbox.send(["two", "b"], sender="eve")
    group_id = await LoopGroup([a, b]).save_group(metadata={"cut": 1})
    tasks = await b.tasks.all()
    await a.mailbox.send(["three", "b"], sender="eve")
    await run_until_idle([a, b])
    await b.tasks.add("sum", by="b")
    for _ in range(2):
        agents = await LoopGroup.restore_group(manager, group_id)
        assert [(agent.agent_id, agent.heard) for agent in agents] == [("a", ["one"]), ("b", ["one"])]
        a, b = loops_of(manager, *agents)
        assert await b.tasks.all() == tasks
        assert (await a.mailbox.waiting(), await b.mailbox.waiting()) == (2, 0)
        ended = await run_until_idle([a, b])
        assert [one.why for one in ended] == ["stopped", "stopped"]
        assert a.agent.heard == b.agent.heard == ["one", "two", "three"]
    checkpoint = await manager.load((await manager.store.group(group_id))[0])
    assert checkpoint.metadata["cut"] == 1
    assert (await manager.verify()).ok


async def test_agents_that_begin_again_by_themselves_after_a_group_was_put_back_are_at_the_cut_too():
    manager = new_manager(Relay)
    loops = loops_of(manager, Relay("a"), Relay("b"))
    group_id = await LoopGroup(loops).save_group()
    await loops[0].mailbox.send(["one", "b"], sender="eve")
    await run_until_idle(loops)
    await LoopGroup.restore_group(manager, group_id)  # and its process died here
    loops = loops_of(manager, Relay("a"), Relay("b"))
    await run_until_idle(loops)
    assert [loop.agent.heard for loop in loops] == [["one"], ["one"]]


async def test_a_cut_waits_for_the_steps_that_the_loops_are_at():
    manager = new_manager(Relay)
    began, may_end = asyncio.Event(), asyncio.Event()

    class Slow(Relay):
        async def on_message(self, message, turn):
            self.heard.append("half")
            began.set()
            await may_end.wait()
            self.heard.append("whole")

    loops = loops_of(manager, Slow("a"), Relay("b"))
    group = LoopGroup(loops)
    running = asyncio.ensure_future(group.run())
    await loops[0].mailbox.send(["one"], sender="eve")
    await began.wait()
    saving = asyncio.ensure_future(group.save_group())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not saving.done()
    may_end.set()
    group_id = await saving
    group.stop()
    await running
    found = await manager.load((await manager.store.group(group_id))[0])
    assert found.state["heard"] == ["half", "whole"]


async def test_a_cut_from_within_a_step_is_refused_instead_of_waiting_for_itself():
    manager = new_manager(Relay)

    class Cutting(Relay):
        async def on_message(self, message, turn):
            with pytest.raises(InvalidArgument, match="within a step"):
                await group.save_group()
            self.heard.append("refused")

    loops = loops_of(manager, Cutting("a"))
    group = LoopGroup(loops)
    await loops[0].mailbox.send(["one"], sender="eve")
    await run_until_idle(loops)
    assert loops[0].agent.heard == ["refused"]


async def test_a_group_that_runs_is_not_put_back():
    manager = new_manager(Relay)
    loops = loops_of(manager, Relay("a"))
    group = LoopGroup(loops)
    group_id = await group.save_group()
    running = asyncio.ensure_future(group.run())
    await until(lambda: is_owned(manager, "a"))
    with pytest.raises(InvalidArgument, match="A loop runs agent a"):
        await LoopGroup.restore_group(manager, group_id)
    group.stop()
    await running


async def test_when_one_raises_the_others_are_stopped_and_it_is_raised():
    manager = new_manager(Relay)
    loops = loops_of(manager, Relay("a"), Relay("b"))
    async with manager.hold("b", "u"):
        await Mailbox(manager, "a", user_id="u").send(["one"], sender="eve")

    class Broken(Relay):
        def restore_state(self, state):
            raise RuntimeError("no")

    loops = loops_of(manager, Relay("a"), Broken("b"))
    await manager.save(Relay("b"))
    with pytest.raises(RuntimeError, match="no"):
        await LoopGroup(loops).run()
    assert (await manager.store.agent("a")).owner is None


async def test_a_cancelled_group_ends_all_of_them():
    manager = new_manager(Relay)
    loops = loops_of(manager, Relay("a"), Relay("b"))
    running = asyncio.ensure_future(LoopGroup(loops).run())
    await until(lambda: is_owned(manager, "b"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await manager.store.agent("a")).owner is None
    assert (await manager.store.agent("b")).owner is None


def test_a_group_needs_loops_of_one_store():
    loops = [AgentLoop(Relay(name), new_manager(Relay)) for name in ("a", "b")]
    for wrong in ([], loops):
        with pytest.raises(InvalidArgument, match="one store"):
            LoopGroup(wrong)

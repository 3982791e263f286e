"""Where a loop goes on from: after an end, a crash, a refresh, or when somebody chose another checkpoint."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import CheckpointManager, SQLiteCheckpointStorage, UnknownCheckpoint
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import HOUR, Clock, Counter, Kinds


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def opened(path, *types):
    manager = CheckpointManager(SQLiteCheckpointStorage(path))
    for one in types or (Counter,):
        manager.register(one)
    return manager


async def run_for(agent, manager, seconds=60, **options):
    clock = Clock()
    loop = AgentLoop(agent, manager, clock=clock, idle_seconds=300, **options)
    clock.at(seconds, loop.stop)
    await loop.run()
    return loop


async def test_a_fresh_agent_goes_on_from_the_newest_place(path):
    async with opened(path) as manager:
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        await run_for(Counter(), manager)
        await Mailbox(manager, "ada").send("two", sender="eve")
        loop = await run_for(Counter(), manager)
        assert loop.agent.heard == ["one", "two"]


async def test_a_restored_agent_goes_on_from_where_it_was_restored(path):
    async with opened(path) as manager:
        for word in ("one", "two"):
            await Mailbox(manager, "ada", user_id="u").send(word, sender="eve")
            await run_for(Counter(), manager)
        first = (await manager.list_by_agent("ada", kind="routine"))[-1]
        agent = await manager.restore(first.id)
        agent.heard.append("changed by hand")
        await Mailbox(manager, "ada").send("three", sender="eve")
        loop = await run_for(agent, manager)
        assert loop.agent.heard == ["one", "changed by hand", "three"]
        fresh = await run_for(Counter(), manager)
        assert fresh.agent.heard == ["one", "changed by hand", "three"]
        assert (await manager.verify()).ok


async def test_what_somebody_saved_meanwhile_is_gone_on_from(path):
    async with opened(path) as manager:
        await run_for(Counter(), manager)
        agent = await manager.restore((await manager.latest("ada")).id)
        agent.heard.append("by hand")
        await manager.save(agent)
        assert (await run_for(Counter(), manager)).agent.heard == ["by hand"]


async def test_a_refresh_restarts_the_agent_with_a_clean_context(path):
    async with opened(path) as manager:
        kinds = Kinds(manager)
        first = Counter()
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        loop = await run_for(first, manager, seconds=2 * HOUR + 60)
        assert loop.agent is not first
        assert (loop.agent.heard, loop.agent.context) == (["one"], [])
        assert first.context == ["one"]
        assert kinds.why()[-4:] == ["routine", "refresh", "refreshed", "stopped"]
        recovery = await manager.latest("ada", kind="recovery")
        assert (await manager.load(recovery.id)).state["context"] == ["one"]
        assert recovery.metadata["loop"]["why"] == "refresh"


async def test_an_agent_of_a_type_that_nobody_registered_is_refreshed_in_place(path):
    class Unregistered(Counter):
        pass

    async with opened(path) as manager:
        agent = Unregistered()
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        loop = await run_for(agent, manager, seconds=2 * HOUR + 60)
        assert loop.agent is agent
        assert (agent.heard, agent.context) == (["one"], [])


async def test_an_agent_that_cant_be_refreshed_goes_on_as_it_was(path):
    class Stubborn(Counter):
        def refresh(self):
            self.heard.clear()
            raise RuntimeError("no")

    async with opened(path, Stubborn) as manager:
        kinds = Kinds(manager)
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        loop = await run_for(Stubborn(), manager, seconds=2 * HOUR + 60)
        assert loop.agent.heard == ["one"]
        assert kinds.why(kind="recovery") == ["refresh", "error"]


async def test_recover_is_called_before_anything_else_and_again_after_a_refresh(path):
    calls = []

    class Recovering(Counter):
        async def recover(self):
            calls.append(len(self.heard))
            if len(calls) == 1:
                raise ConnectionError("not yet")
            self.heard.append("recovered")

    async with opened(path, Recovering) as manager:
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        loop = await run_for(Recovering(), manager, seconds=2 * HOUR + 60)
        assert calls == [0, 0, 2]
        assert loop.agent.heard == ["recovered", "one", "recovered"]


async def test_what_was_pinned_of_the_steps_stays(path):
    async with opened(path) as manager:
        pinned = []

        @manager.on("checkpoint_saved")
        async def pin(checkpoint):
            if not pinned and checkpoint.kind == "auto":
                pinned.append(checkpoint.id)
                await manager.pin(checkpoint.id)

        for word in ("one", "two"):
            await Mailbox(manager, "ada", user_id="u").send(word, sender="eve")
        await run_for(Counter(), manager)
        assert pinned[0] in {one.id for one in await manager.list_by_agent("ada")}


class SavingItself(Counter):
    """Saves itself in the middle of a step, which nobody should go on from."""

    async def on_message(self, message, turn):
        self.heard.append("half")
        self.saved = await self.manager.save(self)
        if message.content == "fails" and turn.attempt == 1:
            raise ConnectionError("no")
        self.heard.append("whole")


@pytest.mark.parametrize("restored", [False, True])
async def test_what_is_saved_within_a_step_is_no_place_to_go_on_from(path, restored):
    async with opened(path, SavingItself) as manager:
        agent = SavingItself()
        agent.manager = manager
        await Mailbox(manager, "ada", user_id="u").send("fails", sender="eve")
        copies = []

        @manager.on("checkpoint_saved")
        async def copy(checkpoint):
            if checkpoint.kind == "manual" and not copies:  # as a process that dies here leaves the store
                copies.append(path.with_name("copy.db"))
                await manager.storage.backup(copies[0])

        await run_for(agent, manager)
        assert agent.heard == ["half", "whole"]
    async with opened(copies[0], SavingItself) as manager:
        again = await manager.restore((await manager.latest("ada")).id) if restored else SavingItself()
        again.manager = manager
        assert (await run_for(again, manager)).agent.heard == ["half", "whole"]


async def test_a_checkpoint_from_within_a_step_that_ended_may_be_chosen(path):
    async with opened(path, SavingItself) as manager:
        agent = SavingItself()
        agent.manager = manager
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        await run_for(agent, manager)
        chosen = await manager.restore(agent.saved)
        chosen.manager = manager
        assert (await run_for(chosen, manager)).agent.heard == ["half"]


async def test_a_fork_of_a_checkpoint_from_within_a_step_goes_its_own_way(path):
    async with opened(path, SavingItself) as manager:
        agent, forks = SavingItself(), []
        agent.manager = manager

        @manager.on("checkpoint_saved")
        async def fork(checkpoint):
            if checkpoint.agent_id == "ada" and checkpoint.kind == "manual":
                forks.append(await manager.fork(checkpoint.id, "bob"))

        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        await run_for(agent, manager)
        assert (await run_for(forks[0], manager)).agent.heard == ["half"]


async def test_when_the_place_of_an_interrupted_step_is_gone_it_says_so(path):
    async with opened(path, SavingItself) as manager:
        agent = SavingItself()
        with manager.noting("ada", {"loop": {"within": "chk_gone"}}):
            await manager.save(agent)
        with pytest.raises(UnknownCheckpoint, match="chk_gone at which agent ada began"):
            await run_for(SavingItself(), manager)


async def test_a_loop_that_is_cancelled_while_it_saves_knows_whether_it_did(path):
    async with opened(path) as manager:
        await Mailbox(manager, "ada", user_id="u").send("one", sender="eve")
        agent = Counter()
        loop = AgentLoop(agent, manager, clock=Clock(), idle_seconds=300)
        commit = manager.store.commit

        async def commit_and_be_cancelled(*changes):
            if any(change.acknowledge for change in changes):
                running.cancel()
                await asyncio.sleep(0)
            return await commit(*changes)

        manager.store.commit = commit_and_be_cancelled
        running = asyncio.ensure_future(loop.run())
        with pytest.raises(asyncio.CancelledError):
            await running
        assert agent.heard == ["one"]
        assert await loop.mailbox.waiting() == 0
        assert (await run_for(agent, manager)).agent.heard == ["one"]

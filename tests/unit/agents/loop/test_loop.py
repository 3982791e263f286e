"""An agent's loop: messages, tasks, checkpoints as time passes, errors, and its end."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from holdfast import (
    CheckpointManager,
    InMemoryCheckpointStorage,
    OwnedElsewhere,
    SQLiteCheckpointStorage,
    StaleWriter,
)
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import DAY, HOUR, Clock, Counter, Kinds, new_manager


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


class Waiting(Counter):
    """Waits for a message, or for so many seconds, until its task is done."""

    def __init__(self, clock, seconds=None):
        super().__init__()
        self.clock, self.seconds, self.moments = clock, seconds, []

    async def on_message(self, message, turn):
        self.heard.append(turn.task.name)
        if message.content == "done":
            turn.complete()

    async def on_task(self, task, turn):
        self.moments.append(self.clock.now())
        turn.wait(self.seconds)


async def test_a_task_that_waits_is_left_alone_until_a_message_has_come(manager, clock):
    agent = Waiting(clock)
    loop = loop_of(agent, manager, clock, idle_seconds=7)
    task_id = await loop.tasks.add("ask")
    clock.at(1000, lambda: loop.mailbox.send("not yet", sender="eve"))
    clock.at(2000, lambda: loop.mailbox.send("done", sender="eve"))
    await run_until(loop, clock, HOUR)
    assert agent.moments == [0, 1000]
    assert agent.heard == ["ask", "ask"], "a message finds the task that the agent works on"
    assert (await loop.tasks.get(task_id)).status == "completed"


async def test_a_task_may_wait_for_some_seconds(manager, clock):
    agent = Waiting(clock, seconds=1000)
    loop = loop_of(agent, manager, clock)
    await loop.tasks.add("look now and then")
    await run_until(loop, clock, HOUR)
    assert agent.moments == [0, 1000, 2000, 3000]


async def test_what_an_agent_sends_is_heard_by_a_loop_of_this_process_at_once(manager, clock):
    class Asleep(Clock):
        async def sleep(self, seconds):
            await asyncio.Event().wait()

    class Sending(Counter):
        async def on_message(self, message, turn):
            turn.send("bob", "hello")

    bob = loop_of(Counter("bob"), manager, Asleep())
    running = asyncio.ensure_future(bob.run())
    for _ in range(100):
        await asyncio.sleep(0)
    ada = loop_of(Sending(), manager, clock)
    await ada.mailbox.send("go", sender="eve")
    await run_until(ada, clock, 60)
    for _ in range(100):
        await asyncio.sleep(0)
    bob.stop()
    await running
    assert bob.agent.heard == ["hello"]


# --- errors


class Failing(Counter):
    """Fails as often as it is told to, halfway through its work."""

    failures = 0

    async def on_message(self, message, turn):
        await super().on_message(message, turn)
        turn.send("bob", "half done")
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError("by zero")


async def test_after_an_error_the_agent_is_as_before_and_its_message_comes_again(manager, clock):
    kinds = Kinds(manager)
    agent = Failing()
    agent.failures = 2
    loop = loop_of(agent, manager, clock)
    await loop.mailbox.send("one", sender="eve")
    await loop.mailbox.send("two", sender="eve")
    await run_until(loop, clock, 60)
    assert agent.heard == ["one", "two"]
    assert agent.attempts == [1, 2, 3, 1]
    assert kinds()["recovery"] == 2
    errors = [one.metadata["loop"]["error"] for one in kinds.saved if one.kind == "recovery"]
    assert errors == ["ZeroDivisionError: by zero"] * 2
    assert [one.content for one in await Mailbox(manager, "bob").receive()] == ["half done"] * 2, (
        "once for each message"
    )


async def test_the_delay_after_an_error_grows_and_begins_again_after_a_success(manager, clock):
    agent = Failing()
    agent.failures = 5
    moments = []

    class Timed(Failing):
        failures = 5

        async def on_message(self, message, turn):
            moments.append(clock.now())
            await super().on_message(message, turn)

    loop = loop_of(Timed(), manager, clock, delay_seconds=2, delay_seconds_max=10, detector=Quiet())
    await loop.mailbox.send("one", sender="eve")
    await run_until(loop, clock, 600)
    assert [later - sooner for sooner, later in pairwise(moments)] == [2, 4, 8, 10, 10]
    loop.agent.failures, moments[:] = 1, []
    await loop.mailbox.send("two", sender="eve")
    await run_until(loop, clock, 600)
    assert [later - sooner for sooner, later in pairwise(moments)] == [2]
    assert loop.agent.heard == ["one", "two"]


class Quiet:
    """A detector that never speaks, and remembers what it was told."""

    def __init__(self):
        self.events = []

    def observe(self, event):
        self.events.append(event)

    def state(self):
        return {"seen": len(self.events)}

    def restore(self, state):
        self.events = self.events[: state.get("seen", 0)]


async def test_a_state_that_cant_be_kept_is_an_error_of_the_step(manager, clock):
    class Careless(Counter):
        async def on_message(self, message, turn):
            self.heard.append(object() if turn.attempt == 1 else message.content)

    loop = loop_of(Careless(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    await run_until(loop, clock, 60)
    assert loop.agent.heard == ["one"]


async def test_a_message_for_another_users_agent_is_an_error_of_the_step(manager, clock):
    await Mailbox(manager, "theirs", user_id="them").send("mine", sender="them")

    class Careless(Counter):
        async def on_message(self, message, turn):
            self.heard.append(turn.attempt)
            if turn.attempt == 1:
                turn.send("theirs", "hello")

    loop = loop_of(Careless(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    await run_until(loop, clock, 60)
    assert loop.agent.heard == [2]
    assert await Mailbox(manager, "theirs").waiting() == 1


# --- operations


class Deploying(Counter):
    fails = False
    caught = False

    async def on_message(self, message, turn):
        self.heard.append("before")
        turn.send("bob", "before")
        try:
            async with turn.operation("deploy", metadata={"to": "web-1"}) as operation:
                self.heard.append("during")
                turn.send("bob", "during")
                self.kinds = [one.kind for one in await self.manager.list_by_agent("ada")]
                self.operation = operation
                if self.fails:
                    self.fail()
        except ConnectionError:
            self.caught = True
        self.heard.append("after")

    def fail(self):
        raise ConnectionError("web-1 does not answer")


@pytest.mark.parametrize("fails", [False, True])
async def test_an_operation_has_a_checkpoint_while_it_goes_on_and_is_taken_back_when_it_fails(manager, clock, fails):
    agent = Deploying()
    agent.manager, agent.fails = manager, fails
    loop = loop_of(agent, manager, clock)
    await loop.mailbox.send("go", sender="eve")
    await run_until(loop, clock, 60)
    assert agent.kinds == ["pre_operation", "auto"]
    done = ["before", "after"] if fails else ["before", "during", "after"]
    assert agent.heard == done
    assert agent.caught == fails
    sent = [one.content for one in await Mailbox(manager, "bob").receive()]
    assert sent == (["before"] if fails else ["before", "during"])
    assert [one.kind for one in await manager.list_by_agent("ada")] == ["routine"]
    assert await manager.interrupted_operations() == []


async def test_the_place_that_a_step_began_at_is_kept_from_every_limit_while_an_operation_goes_on(clock):
    manager = CheckpointManager(InMemoryCheckpointStorage(max_checkpoints=2))
    manager.register(Counter)

    class Crowded(Counter):
        async def on_message(self, message, turn):
            place = (await manager.latest("ada")).id
            async with turn.operation("deploy"):
                for n in range(5):
                    await manager.save(Counter(f"other-{n}"))
                    await manager.save(Counter(f"other-{n}"))
                self.heard.append((await manager.load(place)).state)

    loop = loop_of(Crowded(), manager, clock)
    await loop.mailbox.send("go", sender="eve")
    await run_until(loop, clock, 60)
    assert len(loop.agent.heard) == 1
    assert [one.kind for one in await manager.list_by_agent("ada")] == ["routine"]


# --- ending


async def test_stopping_ends_it_after_the_step_that_it_is_at(manager, clock):
    class Stopping(Counter):
        async def on_message(self, message, turn):
            loop.stop()
            self.heard.append(message.content)

    loop = loop_of(Stopping(), manager, clock)
    ended = []
    manager.on("agent_stopped", lambda *told: ended.append(told))
    for word in ("one", "two"):
        await loop.mailbox.send(word, sender="eve")
    told = await loop.run()
    assert loop.agent.heard == ["one"]
    assert await loop.mailbox.waiting() == 1
    assert ended == [(told, loop.agent)]
    final = await manager.load(told.checkpoint_id)
    assert (final.kind, final.metadata["loop"]["why"], final.state["heard"]) == ("routine", "stopped", ["one"])
    assert (await manager.store.agent("ada")).owner is None
    await loop.run()
    assert loop.agent.heard == ["one", "two"], "a loop that ended may run again"


async def test_interrupting_takes_the_step_back(manager, clock):
    class Hanging(Counter):
        async def on_message(self, message, turn):
            self.heard.append(message.content)
            asyncio.get_running_loop().call_soon(loop.interrupt)
            await asyncio.Event().wait()

    loop = loop_of(Hanging(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    ended = await loop.run()
    assert ended.why == "stopped"
    assert loop.agent.heard == []
    assert await loop.mailbox.waiting() == 1


async def test_a_cancelled_loop_lets_its_agent_go_as_it_was(manager, clock):
    class Hanging(Counter):
        async def on_message(self, message, turn):
            self.heard.append(message.content)
            running.cancel()
            await asyncio.Event().wait()

    loop = loop_of(Hanging(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    running = asyncio.ensure_future(loop.run())
    with pytest.raises(asyncio.CancelledError):
        await running
    assert loop.agent.heard == []
    assert (await manager.store.agent("ada")).owner is None


async def test_what_an_agent_waits_for_may_be_cancelled_without_ending_the_loop(manager, clock):
    class Waiting(Counter):
        async def on_message(self, message, turn):
            if turn.attempt == 1:
                other = asyncio.ensure_future(asyncio.Event().wait())
                other.cancel()
                await other
            self.heard.append(message.content)

    loop = loop_of(Waiting(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    await run_until(loop, clock, 60)
    assert loop.agent.heard == ["one"]


async def test_a_loop_that_was_told_to_stop_before_it_ran_does_nothing(manager, clock):
    loop = loop_of(Counter(), manager, clock)
    await loop.mailbox.send("one", sender="eve")
    loop.stop()
    assert (await loop.run()).why == "stopped"
    assert await loop.mailbox.waiting() == 1


# --- ownership


async def test_an_agent_has_one_loop_in_a_process(manager, clock):
    loop, second = loop_of(Counter(), manager, clock), loop_of(Counter(), manager, clock)

    async def try_the_second():
        with pytest.raises(OwnedElsewhere, match="Another loop"):
            await second.run()

    clock.at(10, try_the_second)
    await run_until(loop, clock, 60)
    await run_until(second, clock, 60)


async def test_another_process_is_refused_while_the_loop_runs_and_may_take_over(tmp_path, clock):
    path = tmp_path / "store.db"
    async with (
        CheckpointManager(SQLiteCheckpointStorage(path)) as here,
        CheckpointManager(SQLiteCheckpointStorage(path)) as there,
    ):
        loop, other = loop_of(Counter(), here, clock), loop_of(Counter(), there, Clock())
        other.clock.at(0, other.stop)

        async def meanwhile():
            with pytest.raises(OwnedElsewhere):
                await other.run()
            await other.run(take_over=True)

        clock.at(10, meanwhile)
        with pytest.raises(StaleWriter):
            await run_until(loop, clock, DAY)
        assert clock.now() <= HOUR, "the next checkpoint is refused"

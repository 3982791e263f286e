"""What an orchestrator finds again after its process died, and what it does about messages that were cut off."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    AgentStatus,
    CheckpointManager,
    DiskFull,
    InputField,
    Orchestrator,
    OwnedElsewhere,
    SQLiteCheckpointStorage,
    StaleWriter,
    StandardAgent,
    UnknownAgentType,
)
from tests.unit.agents.orchestrator.samples import Booking, Paying, Weather, gated, started
from tests.unit.durable.samples import Agent, ThreeMethods


async def died(orchestrator):
    """The process of this orchestrator is killed: nothing that was on its way goes on."""
    tasks = list(orchestrator._tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_the_middle(orchestrator, gate, user_id="ada"):
    """The user's message that pays is being handled, and the process dies."""
    await orchestrator.handle_message(user_id, "pay")
    waiting = asyncio.ensure_future(orchestrator.handle_message(user_id, "5"))
    await gate.reached.wait()
    await died(orchestrator)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_every_user_s_active_agents_are_picked_up(any_storage):
    first = started(any_storage)
    for user_id in ("ada", "bob", "eve"):
        await first.handle_message(user_id, "book")
        await first.handle_message(user_id, str(len(user_id)))
    again = started(any_storage)
    for user_id in ("ada", "bob", "eve"):
        result = await again.handle_message(user_id, user_id.upper())
        assert result.raw_message == f"Booked for 3 on {user_id.upper()}!"
    assert await again.recover() == []


async def test_a_finished_agent_is_not_picked_up(storage):
    await started(storage).handle_message("ada", "weather")
    assert await started(storage).active_agents("ada") == []


async def test_a_message_that_was_cut_off_is_handled_again_with_the_same_id_and_the_next_attempt(any_storage):
    gate, cls = gated()
    await in_the_middle(started(any_storage, cls), gate)
    gate.reached.clear()
    await in_the_middle_again(started(any_storage, cls), gate)
    gate.open.set()
    again = started(any_storage, cls)
    await again.active_agents("ada")  # a storage of three methods can't list every user's agents
    [result] = await again.recover()
    assert (result.status, result.raw_message) == (AgentStatus.COMPLETED, "paid 5")
    assert [(content, attempt) for _, content, _, attempt in gate.effects] == [("5", 1), ("5", 2), ("5", 3)]
    assert {message_id for _, _, message_id, _ in gate.effects} == {result.message_id}
    assert await started(any_storage, cls).recover() == []
    assert len(gate.effects) == 3


async def in_the_middle_again(orchestrator, gate):
    await orchestrator.active_agents("ada")
    await gate.reached.wait()
    await died(orchestrator)


async def test_first_use_begins_the_recovery_of_all_users_and_waits_for_none(storage):
    gate, cls = gated()
    first = started(storage, cls)
    await in_the_middle(first, gate, "ada")
    gate.reached.clear()
    again = started(storage, cls)
    assert (await again.handle_message("bob", "pay")).raw_message == "How much?"
    await gate.reached.wait()
    assert gate.effects[-1][::3] == ("ada", 2)
    gate.open.set()
    await again.close()
    assert (await storage.list_by_user("ada", 1, 0))[0].status == "COMPLETED"


async def test_a_new_message_waits_until_the_one_that_was_cut_off_is_handled(storage):
    gate, cls = gated()
    await in_the_middle(started(storage, cls), gate)
    gate.reached.clear()
    again = started(storage, cls)
    new = asyncio.ensure_future(again.handle_message("ada", "once more"))
    await gate.reached.wait()
    assert not new.done()
    gate.open.set()
    assert (await new).raw_message == "How much?"  # the other agent is finished by then
    assert [attempt for _, _, _, attempt in gate.effects] == [1, 2]


async def test_the_history_has_a_message_once_however_often_it_was_handled(storage):
    gate, cls = gated()
    await in_the_middle(started(storage, cls), gate)
    gate.open.set()
    again = started(storage, cls)
    await again.recover()
    [info] = await storage.agents()
    said = [(r.type, r.content) for r in await storage.read(info.agent_id) if not r.internal]
    assert said[2:] == [("user_message", "5"), ("assistant_message", "paid 5")]
    newest = (await storage.list_by_agent(info.agent_id, 1, 0))[0]
    assert newest.metadata["attempt"] == 2


async def test_a_message_that_was_handled_is_never_handled_again(any_storage):
    gate, cls = gated()
    gate.open.set()
    orchestrator = started(any_storage, cls)
    await orchestrator.handle_message("ada", "pay")
    await orchestrator.handle_message("ada", "5")
    await died(orchestrator)
    again = started(any_storage, cls)
    await again.active_agents("ada")
    assert await again.recover() == []
    assert len(gate.effects) == 1


async def test_a_sender_who_stops_waiting_cuts_nothing_off(storage):
    gate, cls = gated()
    orchestrator = started(storage, cls)
    await orchestrator.handle_message("ada", "pay")
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "5"))
    await gate.reached.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open.set()
    await orchestrator.close()
    assert [attempt for _, _, _, attempt in gate.effects] == [1]
    assert (await storage.list_by_user("ada", 1, 0))[0].status == "COMPLETED"


async def test_a_message_that_fails_after_its_sender_left_is_in_the_log(storage, monkeypatch, caplog):
    gate, cls = gated()
    orchestrator = started(storage, cls)
    await orchestrator.handle_message("ada", "pay")
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "5"))
    await gate.reached.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    async def full(*changes):
        raise DiskFull("no room")

    monkeypatch.setattr(storage, "commit", full)
    gate.open.set()
    await orchestrator.close()
    assert "nobody waits for failed" in caplog.text
    assert "no room" in caplog.text


async def test_close_waits_for_the_messages_on_their_way(storage):
    orchestrator = started(storage)
    await orchestrator.handle_message("ada", "book")
    waiting = [asyncio.ensure_future(orchestrator.handle_message("ada", text)) for text in ("4", "Friday")]
    await asyncio.sleep(0)
    await orchestrator.close()
    assert [(await one).raw_message for one in waiting] == ["Which day?", "Booked for 4 on Friday!"]


async def test_an_agent_that_was_cut_off_while_it_began_begins_again(storage):
    gate, _ = gated()

    class Begins(Booking):
        async def on_initializing(self, msg):
            await gate.passed(self, msg)

    orchestrator = started(storage, Begins)
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "book"))
    await gate.reached.wait()
    assert [one.status for one in await storage.list_by_user("ada", 9, 0)] == ["INITIALIZING"]
    await died(orchestrator)
    assert waiting.cancelled()
    gate.open.set()
    again = started(storage, Begins)
    [result] = await again.recover()
    assert (result.raw_message, result.message_id) == ("How many guests?", gate.effects[0][2])
    assert gate.effects == [("ada", "book", result.message_id, 1), ("ada", "book", result.message_id, 2)]
    assert len(await again.active_agents("ada")) == 1


async def test_what_a_handler_saved_in_between_is_there_at_the_next_attempt(storage):
    gate, _ = gated()

    class Steps(StandardAgent):
        steps = 0

        def checkpoint_state(self):
            return {"steps": self.steps}

        def restore_state(self, state):
            self.steps = state["steps"]

        async def on_running(self, msg):
            self.steps += 1
            await self.checkpoint_manager.save(self)
            await gate.passed(self, msg)
            return self.make_result(status=AgentStatus.COMPLETED, raw_message=f"{self.steps} steps")

    orchestrator = started(storage, Steps)
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "go"))
    await gate.reached.wait()
    await died(orchestrator)
    assert waiting.cancelled()
    gate.open.set()
    again = started(storage, Steps)
    [result] = await again.recover()
    assert result.raw_message == "2 steps"


@pytest.mark.parametrize("dies", [True, False])
async def test_an_operation_in_a_handler_leaves_a_place_to_go_on_from(storage, dies):
    gate, _ = gated()

    class Deploys(Paying):
        async def on_running(self, msg):
            async with self.checkpoint_manager.operation(self, "deploy"):
                pass
            await gate.passed(self, msg)
            return self.make_result(raw_message=f"deployed {self.amount}")

    orchestrator = started(storage, Deploys)
    await orchestrator.handle_message("ada", "go")
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "5"))
    await gate.reached.wait()
    if dies:
        await died(orchestrator)
    gate.open.set()
    await asyncio.gather(waiting, return_exceptions=True)
    again = started(storage, Deploys)
    assert [result.raw_message for result in await again.recover()] == (["deployed 5"] if dies else [])
    assert (await again.handle_message("ada", "once more")).raw_message == "deployed 5"
    assert [attempt for _, _, _, attempt in gate.effects] == ([1, 2, 1] if dies else [1, 1])


async def test_an_agent_whose_newest_checkpoint_was_deleted_goes_on_from_the_one_before(storage):
    orchestrator = started(storage)
    await orchestrator.handle_message("ada", "book")
    await orchestrator.handle_message("ada", "4")
    manager = CheckpointManager(storage)
    [newest, _] = await manager.list_by_user("ada")
    await manager.delete(newest.id)
    again = started(storage)
    assert (await again.handle_message("ada", "6")).raw_message == "Which day?"
    assert (await again.handle_message("ada", "Friday")).raw_message == "Booked for 6 on Friday!"


async def test_recover_finds_what_another_process_left_since_it_was_called_last(tmp_path):
    path = tmp_path / "store.db"
    gate, cls = gated()
    mine = started(SQLiteCheckpointStorage(path), cls)
    await mine.handle_message("ada", "pay")
    store = SQLiteCheckpointStorage(path)
    theirs = started(store, cls)
    waiting = asyncio.ensure_future(theirs.handle_message("ada", "5"))
    await gate.reached.wait()
    gate.reached.clear()
    await theirs.handle_message("bob", "pay")
    other = asyncio.ensure_future(theirs.handle_message("bob", "6"))
    await gate.reached.wait()
    assert await mine.recover() == []
    await died(theirs)
    await store.close()
    await asyncio.gather(waiting, other, return_exceptions=True)
    gate.open.set()
    assert sorted(result.raw_message for result in await mine.recover()) == ["paid 5", "paid 6"]
    assert sorted(attempt for _, _, _, attempt in gate.effects) == [1, 1, 2, 2]
    await mine.checkpoint_manager.close()


# --- one at a time


async def test_messages_of_one_agent_are_handled_one_at_a_time_and_those_of_others_meanwhile(storage):
    running, most, seen = {}, {}, []

    class Busy(StandardAgent):
        async def on_running(self, msg):
            seen.append((self.user_id, msg.content, msg.attempt))
            running[self.user_id] = running.get(self.user_id, 0) + 1
            most[self.user_id] = max(most.get(self.user_id, 0), running[self.user_id])
            most["all"] = max(most.get("all", 0), sum(running.values()))
            for _ in range(20):
                await asyncio.sleep(0)
            running[self.user_id] -= 1
            return self.make_result(raw_message=msg.content)

    orchestrator = started(storage, Busy)
    texts = [f"{number}" for number in range(5)]
    users = ["ada", "bob", "eve"]
    results = await asyncio.gather(*(orchestrator.handle_message(user, text) for text in texts for user in users))
    assert [result.raw_message for result in results] == [text for text in texts for _ in users]
    assert [most[user] for user in users] == [1, 1, 1]
    assert most["all"] > 1
    assert sorted(seen) == sorted((user, text, 1) for text in texts for user in users)
    assert len({result.agent_id for result in results}) == 3


async def test_messages_to_one_agent_are_handled_in_their_order(storage):
    orchestrator = started(storage)
    results = await asyncio.gather(*(orchestrator.handle_message("ada", text) for text in ("book", "4", "Friday")))
    assert [result.raw_message for result in results] == ["How many guests?", "Which day?", "Booked for 4 on Friday!"]


async def test_messages_find_their_agents_one_after_the_other_however_long_that_takes(storage):
    class Thinks(Orchestrator):
        async def route_message(self, user_id, message, context):
            active = await self.active_agents(user_id)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return active[0] if active else Booking

    orchestrator = Thinks([Booking], CheckpointManager(storage))
    results = await asyncio.gather(*(orchestrator.handle_message("ada", text) for text in ("book", "4", "Friday")))
    assert [result.raw_message for result in results] == ["How many guests?", "Which day?", "Booked for 4 on Friday!"]


async def test_a_message_that_waited_for_an_agent_which_finished_starts_a_new_one(storage):
    gate, cls = gated()
    orchestrator = started(storage, cls)
    await orchestrator.handle_message("ada", "pay")
    first = asyncio.ensure_future(orchestrator.handle_message("ada", "5"))
    await gate.reached.wait()
    second = asyncio.ensure_future(orchestrator.handle_message("ada", "pay again"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.open.set()
    assert [(await one).raw_message for one in (first, second)] == ["paid 5", "How much?"]


# --- what goes wrong


async def test_a_handler_that_raises_keeps_the_agent_and_the_next_message_tries_again(any_storage):
    class Flaky(Booking):
        async def on_running(self, msg):
            if msg.content != "retry":
                raise ConnectionError("no line")
            return await super().on_running(msg)

    orchestrator = started(any_storage, Flaky)
    await orchestrator.handle_message("ada", "book")
    await orchestrator.handle_message("ada", "4")
    result = await orchestrator.handle_message("ada", "Friday")
    assert (result.status, result.error) == (AgentStatus.ERROR, "ConnectionError: no line")
    again = started(any_storage, Flaky)
    assert (await again.handle_message("ada", "retry")).raw_message == "Booked for 4 on Friday!"


async def test_a_class_that_has_another_name_now_is_named_with_what_to_do_and_nothing_is_lost(storage):
    class Tables(StandardAgent):
        guests = InputField("How many guests?", validator=int)

    orchestrator = started(storage, Tables)
    await orchestrator.handle_message("ada", "book")

    class Seating(Tables):
        pass

    from holdfast.durable import selfregistered

    del selfregistered._classes["Tables"]  # as in a process that never imported it
    manager = CheckpointManager(storage)
    renamed = Orchestrator([Seating], manager)
    with pytest.raises(UnknownAgentType, match="Tables") as error:
        await renamed.handle_message("ada", "4")
    assert "manager.register(NewName, name='Tables')" in error.value.hint
    assert (await renamed.handle_message("bob", "hi")).raw_message == "How many guests?"
    manager.register(Seating, name="Tables")
    result = await renamed.handle_message("ada", "4")
    assert (result.status, result.agent_type) == (AgentStatus.COMPLETED, "Seating")
    assert (await storage.list_by_user("ada", 1, 0))[0].agent_type == "Seating"


async def test_agents_of_other_programs_are_left_alone(storage):
    manager = CheckpointManager(storage)
    await manager.save(Agent("theirs", "ada"))
    await started(storage, Weather, Booking).handle_message("ada", "book")
    assert (await started(storage, Weather).handle_message("ada", "weather")).raw_message == "sunny"
    assert len(await storage.list_by_agent("theirs", 9, 0)) == 1


async def test_a_user_with_many_finished_agents_is_looked_up_by_what_is_new(storage):
    manager = CheckpointManager(storage)
    orchestrator = Orchestrator([Booking, Weather], manager)
    limits = []
    listed = storage.list

    async def noted(query):
        if query.agent_id is None and not query.kinds:  # retirement lists as well
            limits.append(query.limit)
        return await listed(query)

    storage.list = noted
    for _ in range(30):
        await orchestrator.handle_message("ada", "weather")
    assert limits == [None, *[50] * 29]
    for number in range(220):  # by somebody else, meanwhile
        await manager.save(Weather(f"w{number}", "ada"))
    limits.clear()
    assert (await orchestrator.handle_message("ada", "4")).raw_message == "sunny"
    assert limits == [50, 200, 800]
    assert len(await orchestrator.active_agents("ada")) == 219


async def test_a_storage_of_three_methods_loads_an_agent_again_after_a_failure():
    storage = ThreeMethods()
    orchestrator = started(storage)
    await orchestrator.handle_message("ada", "book")
    save = storage.save

    async def full(checkpoint):
        raise OSError("no room")

    storage.save = full
    with pytest.raises(OSError, match="no room"):
        await orchestrator.handle_message("ada", "4")
    storage.save = save
    assert (await orchestrator.handle_message("ada", "6")).raw_message == "Which day?"


async def test_a_commit_that_fails_leaves_the_agent_as_the_store_has_it(storage, monkeypatch):
    orchestrator = started(storage)
    await orchestrator.handle_message("ada", "book")

    async def full(*changes):
        raise DiskFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "commit", full)
        with pytest.raises(DiskFull):
            await orchestrator.handle_message("ada", "4")
        with pytest.raises(DiskFull):
            await orchestrator.handle_message("bob", "book")
    assert (await orchestrator.handle_message("ada", "6")).raw_message == "Which day?"
    assert (await orchestrator.active_agents("ada"))[0].guests == 6
    assert (await orchestrator.handle_message("bob", "book")).raw_message == "How many guests?"
    assert len(await storage.agents()) == 2


async def test_a_message_whose_end_could_not_be_saved_is_handled_again_before_the_next(storage, monkeypatch):
    gate, cls = gated()
    orchestrator = started(storage, cls)
    await orchestrator.handle_message("ada", "pay")
    waiting = asyncio.ensure_future(orchestrator.handle_message("ada", "5"))
    await gate.reached.wait()
    real = storage.commit

    async def full(*changes):
        if any(change.checkpoint for change in changes):
            raise DiskFull("no room")
        return await real(*changes)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "commit", full)
        gate.open.set()
        with pytest.raises(DiskFull) as error:
            await waiting
    assert any("handled again" in note for note in error.value.__notes__)
    assert [info.owner for info in await storage.agents()] == [None]
    assert (await orchestrator.handle_message("ada", "hello")).raw_message == "How much?"
    assert [attempt for _, _, _, attempt in gate.effects] == [1, 2]


async def test_two_processes_that_serve_one_user_go_on_from_each_other_s_work(tmp_path):
    stores = [SQLiteCheckpointStorage(tmp_path / "store.db") for _ in range(2)]
    one, other = (started(store) for store in stores)
    await one.handle_message("ada", "book")
    assert (await other.handle_message("ada", "4")).raw_message == "Which day?"
    assert (await one.handle_message("ada", "Friday")).raw_message == "Booked for 4 on Friday!"
    assert (await other.handle_message("ada", "weather")).raw_message == "sunny"
    [booking] = [info for info in await stores[0].agents() if info.agent_type == "Booking"]
    assert "rewind" not in [record.type for record in await stores[0].read(booking.agent_id)]
    for store in stores:
        await store.close()


async def test_an_agent_that_another_live_process_is_running_is_not_touched(tmp_path):
    stores = [SQLiteCheckpointStorage(tmp_path / "store.db") for _ in range(2)]
    gate, cls = gated()
    one, other = (started(store, cls) for store in stores)
    await one.handle_message("ada", "pay")
    waiting = asyncio.ensure_future(one.handle_message("ada", "5"))
    await gate.reached.wait()
    assert await other.recover() == []
    with pytest.raises(OwnedElsewhere):
        await other.handle_message("ada", "6")
    gate.open.set()
    assert (await waiting).raw_message == "paid 5"
    assert len(gate.effects) == 1
    for store in stores:
        await store.close()


async def test_an_agent_that_was_taken_over_in_the_middle_is_the_other_s_to_finish(tmp_path):
    stores = [SQLiteCheckpointStorage(tmp_path / "store.db") for _ in range(2)]
    gate, cls = gated()
    one = started(stores[0], cls)
    await one.handle_message("ada", "pay")
    waiting = asyncio.ensure_future(one.handle_message("ada", "5"))
    await gate.reached.wait()
    theirs = CheckpointManager(stores[1])
    theirs.register(cls)
    [info] = await stores[1].agents()
    taken = await theirs.restore(info.tip)
    await theirs.save(taken, take_over=True)
    gate.open.set()
    with pytest.raises(StaleWriter):
        await waiting
    assert len(gate.effects) == 1
    assert (await theirs.latest(info.agent_id)).id == (await stores[1].agent(info.agent_id)).tip
    for store in stores:
        await store.close()

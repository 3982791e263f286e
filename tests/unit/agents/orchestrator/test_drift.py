"""Drift of an orchestrator's agents: what is noticed, what is done about it, and what a restart keeps."""

from __future__ import annotations

import pytest

from holdfast import AgentStatus, CheckpointManager, InputField, Message, Orchestrator, StandardAgent
from holdfast.drift.detector import DriftDetector
from holdfast.errors import InvalidArgument
from tests.unit.agents.strict import Strict

REASON = "Guests.on_waiting_for_input was done 3 times in a row with the same outcome"


class Guests(StandardAgent):
    """Asks for two fields, and remembers by itself what it was asked."""

    guests = InputField("How many guests?", validator=int)
    day = InputField("Which day?", validator=int)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heard = []
        self.cache = "full"

    async def on_waiting_for_input(self, msg):
        self.heard.append(msg.content)
        if msg.content == "bang":
            raise ZeroDivisionError("bang")
        return await super().on_waiting_for_input(msg)

    def checkpoint_state(self):
        return {"heard": self.heard}

    def restore_state(self, state):
        self.heard = list(state["heard"])
        self.cache = "empty"


class World:
    """A process with an orchestrator on a storage."""

    def __init__(self, storage, *classes, **options):
        self.detectors = []
        self.told = []
        self.manager = CheckpointManager(storage)
        self.manager.on("drift_detected", lambda drift, agent: self.told.append((agent.agent_id, drift.reason)))
        self.orchestrator = Orchestrator(list(classes) or [Guests], self.manager, detector=self.detector, **options)

    def detector(self):
        self.detectors.append(Strict())
        return self.detectors[-1]

    async def say(self, *words):
        for word in words:
            result = await self.orchestrator.handle_message("eve", word)
        return result

    async def agent(self):
        [agent] = await self.orchestrator.active_agents("eve")
        return agent

    async def kinds(self):
        return [one.kind for one in reversed(await self.manager.list_by_user("eve"))]

    async def newest(self):
        return (await self.manager.list_by_user("eve"))[0]


async def test_each_message_is_an_event(storage):
    world = World(storage)
    await world.say("hi", "x", "4", "bang", "5")
    events = world.detectors[-1].events
    assert [(one.action, one.arguments, one.error, one.progress) for one in events] == [
        ("Guests.on_initializing", "hi", None, 0),
        ("Guests.on_waiting_for_input", "x", None, 0),
        ("Guests.on_waiting_for_input", "4", None, 1),
        ("Guests.on_waiting_for_input", "bang", "ZeroDivisionError: bang", 1),
        ("Guests.on_waiting_for_input", "5", None, None),
    ]
    assert events[1].outcome == "WAITING_FOR_INPUT: That is not a valid answer. How many guests?"
    assert all(one.duration_seconds >= 0 for one in events)


async def test_by_default_drift_is_told_and_nothing_else_happens(any_storage):
    world = World(any_storage)
    result = await world.say("hi", *["x"] * 5)
    assert result.status is AgentStatus.WAITING_FOR_INPUT
    agent = await world.agent()
    assert world.told == [(agent.agent_id, REASON)]
    assert set(await world.kinds()) == {"auto"}


async def test_each_agent_has_a_detector_of_its_own(storage):
    world = World(storage)
    for user_id in ("eve", "bob", "zoe"):
        await world.orchestrator.handle_message(user_id, "hi")
        await world.orchestrator.handle_message(user_id, "x")
        await world.orchestrator.handle_message(user_id, "x")
    assert world.told == []


async def test_checkpoint_saves_a_recovery_checkpoint_that_says_why(storage):
    world = World(storage, on_drift="checkpoint")
    await world.say("hi", *["x"] * 3)
    newest = await world.newest()
    assert (newest.kind, newest.metadata["drift"]["reason"]) == ("recovery", REASON)
    await world.say("4")
    newest = await world.newest()
    assert (newest.kind, "drift" in newest.metadata) == ("auto", False)


async def test_refresh_builds_the_agent_anew_with_a_clean_detector(any_storage):
    world = World(any_storage, on_drift="refresh")
    await world.say("hi")
    before = await world.agent()
    await world.say("x", "x", "x", "x", "x")
    after = await world.agent()
    assert after is not before
    assert (after.heard, after.cache) == (["x"] * 5, "empty")
    assert world.told == [(before.agent_id, REASON)], "two more are no three"
    assert (await world.kinds()).count("recovery") == 1
    assert (await world.say("4")).raw_message == "Which day?"


async def test_an_agent_that_can_be_refreshed_is(storage):
    class Forgetful(Guests):
        def refresh(self):
            self.heard = []

    world = World(storage, Forgetful, on_drift="refresh")
    await world.say("hi", "x", "x", "x")
    assert (await world.agent()).heard == []
    again = World(storage, Forgetful, on_drift="refresh")
    assert (await again.agent()).heard == [], "that is on disk, too"


async def test_two_refreshes_without_progress_stop_the_agent(any_storage):
    world = World(any_storage, on_drift="refresh")
    result = await world.say("hi", *["x"] * 6)
    assert (result.status, result.error) == (AgentStatus.CANCELLED, f"drift: {REASON}")
    assert result.raw_message.endswith(f"This was ended, because it got no further: {REASON}.")
    assert len(world.told) == 2
    assert await world.orchestrator.active_agents("eve") == []
    newest = await world.newest()
    assert (newest.status, newest.metadata["drift"]["reason"]) == ("CANCELLED", REASON)


async def test_with_progress_in_between_it_is_refreshed_again(storage):
    world = World(storage, on_drift="refresh")
    result = await world.say("hi", "x", "x", "x", "4", "x", "x", "x")
    assert result.status is AgentStatus.WAITING_FOR_INPUT
    assert (await world.kinds()).count("recovery") == 2


async def test_stop_cancels_the_agent_and_the_next_message_begins_another(any_storage):
    world = World(any_storage, on_drift="stop")
    await world.say("hi")
    first = await world.agent()
    assert (await world.say("x", "x", "x")).status is AgentStatus.CANCELLED
    assert (await world.say("again")).raw_message == "How many guests?"
    assert (await world.agent()).agent_id != first.agent_id


async def test_a_restart_keeps_what_the_detector_knew(any_storage):
    here = World(any_storage, on_drift="refresh")
    await here.say("hi", "x", "x", "x", "x", "x")
    states = []
    for world in (here, World(any_storage, on_drift="refresh")):
        watched = world.orchestrator._seating._watches.of(await world.agent())
        states.append((watched.watch.detector.state(), watched.watch.state()))
    assert states[0] == states[1]
    assert states[0][1]["rung"] == 1
    assert (await world.say("x")).status is AgentStatus.CANCELLED, "the third since the refresh, and the second drift"
    assert len(world.told) == 1


async def test_what_was_told_is_not_told_again_after_a_restart(storage):
    here = World(storage)
    await here.say("hi", "x", "x", "x", "x")
    assert len(here.told) == 1
    there = World(storage)
    await there.say("x")
    assert there.told == []


async def test_a_drift_about_which_nothing_was_done_is_told_after_a_restart(storage, monkeypatch):
    here = World(storage, on_drift="stop")
    await here.say("hi", "x", "x")

    async def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.agents.orchestrator.drifting.Drifting.answered", dies)
    agent = await here.agent()
    seat = here.orchestrator._rosters["eve"].seats[agent.agent_id]
    with pytest.raises(KeyboardInterrupt):
        await here.orchestrator._seating.reply(here.orchestrator._rosters["eve"], seat, agent, Message("x"))
    monkeypatch.undo()
    there = World(storage, on_drift="stop")
    assert (await there.say("x")).status is AgentStatus.CANCELLED


async def test_what_fails_about_a_drift_does_not_hide_the_answer(storage, monkeypatch):
    world = World(storage, on_drift="checkpoint")
    await world.say("hi", "x", "x")

    async def fails(*_):
        raise OSError("no")

    before = await world.agent()
    monkeypatch.setattr(world.manager, "save_each", fails)
    assert "How many guests?" in (await world.say("x")).raw_message
    monkeypatch.undo()
    assert await world.agent() is not before, "it is loaded as it was kept"
    assert (await world.say("4")).raw_message == "Which day?"


async def test_without_checkpoints_of_its_own_it_looks_as_well(storage):
    world = World(storage, auto_checkpoint=False)
    await world.say("hi", "x", "x", "x")
    assert len(world.told) == 1
    assert await world.kinds() == []


async def test_nobody_looks_without_a_policy(storage):
    world = World(storage, on_drift=None)
    await world.say("hi", *["x"] * 6)
    assert world.told == []
    assert set((await world.newest()).metadata) == {"message"}


def test_what_can_not_work_is_refused():
    with pytest.raises(InvalidArgument, match="not for an orchestrator"):
        Orchestrator([Guests], on_drift="ask")
    with pytest.raises(InvalidArgument, match="no policy"):
        Orchestrator([Guests], on_drift="panic")
    with pytest.raises(InvalidArgument, match="each agent needs its own"):
        Orchestrator([Guests], detector=DriftDetector())

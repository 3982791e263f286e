"""Drift: what the detector is told, and what is done when it speaks."""

from __future__ import annotations

import pytest

from holdfast import InvalidArgument, MissingMethod
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from holdfast.drift.detector import SIGNALS, DriftDetector
from holdfast.drift.protocol import Event
from tests.unit.agents.loop.samples import HOUR, Clock, Counter, Kinds, new_manager
from tests.unit.agents.strict import Strict


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def manager():
    return new_manager()


class Told:
    """What was told of drift and of the end, in order."""

    def __init__(self, manager):
        self.told = []
        manager.on("drift_detected", lambda drift, agent: self.told.append((drift.kind, drift.reason, agent.agent_id)))
        manager.on("agent_stopped", lambda ended, _: self.told.append((ended.why, ended.detail)))


async def hear(manager, loop, clock, *words, seconds=60):
    for word in words:
        await Mailbox(manager, "ada", user_id="u").send(word, sender="eve")
    clock.at(clock.time + seconds, loop.stop)
    return await loop.run()


def loop_of(manager, clock, agent=None, **options):
    options.setdefault("detector", Strict())
    return AgentLoop(agent or Counter(), manager, clock=clock, idle_seconds=300, **options)


REPEATED = ("repetition", "message was done 3 times in a row with the same outcome", "ada")


async def test_the_detector_is_told_everything_that_the_agent_does(manager, clock):
    class Busy(Counter):
        fails = True

        async def on_message(self, message, turn):
            turn.observe(Event(action="call", arguments={"tool": "fetch"}))
            await clock.sleep(7)
            if turn.attempt == 1:
                raise ZeroDivisionError("by zero")
            return {"answer": 42}

    loop = loop_of(manager, clock, Busy())
    await loop.tasks.add("count", content={"up to": 3})
    await hear(manager, loop, clock, "one")
    call = Event(action="call", arguments={"tool": "fetch"})
    arguments = {"sender": "eve", "content": "one"}
    told = loop.watch.detector.events
    assert told[:4] == [
        call,
        Event(action="message", arguments=arguments, error="ZeroDivisionError: by zero", duration_seconds=7, at=7),
        call,
        Event(action="message", arguments=arguments, outcome={"answer": 42}, duration_seconds=7, at=15),
    ]
    assert [(one.action, one.arguments, one.progress) for one in told[4:]] == [
        ("task count", {"up to": 3}, progress) for progress in (0.25, 0.5, 0.75, 1.0)
    ]


async def test_drift_is_told_with_a_reason_saved_and_refreshed(manager, clock):
    kinds, told = Kinds(manager), Told(manager)
    loop = loop_of(manager, clock)
    before = loop.agent
    ended = await hear(manager, loop, clock, "same", "same", "same", "other")
    assert told.told == [REPEATED, ("stopped", "")]
    assert ended.why == "stopped"
    [recovery] = [one for one in kinds.saved if one.kind == "recovery"]
    assert recovery.metadata["loop"]["drift"]["reason"] == REPEATED[1]
    assert loop.agent is not before
    assert (loop.agent.heard, loop.agent.context) == (["same", "same", "same", "other"], ["other"])


async def test_nobody_looks_without_a_policy(manager, clock):
    told = Told(manager)
    loop = loop_of(manager, clock, on_drift=None)
    await hear(manager, loop, clock, *["same"] * 6)
    assert told.told == [("stopped", "")]
    assert loop.watch.detector.events == []


async def test_after_a_refresh_the_detector_starts_clean(manager, clock):
    told = Told(manager)
    loop = loop_of(manager, clock)
    await hear(manager, loop, clock, *["same"] * 5)
    assert told.told[:-1] == [REPEATED], "two more are no three"


async def test_two_refreshes_without_progress_in_between_stop_the_agent(manager, clock):
    kinds, told = Kinds(manager), Told(manager)
    loop = loop_of(manager, clock)
    ended = await hear(manager, loop, clock, *["same"] * 20)
    assert (ended.why, ended.detail) == ("drift", REPEATED[1])
    assert told.told == [REPEATED, REPEATED, ("drift", REPEATED[1])]
    assert kinds.why(kind="recovery") == ["drift", "drift"]
    assert await loop.mailbox.waiting() == 14
    final = await manager.load(ended.checkpoint_id)
    assert (final.kind, final.metadata["loop"]["detail"]) == ("recovery", REPEATED[1])


async def test_an_agent_that_is_started_again_after_it_drifted_begins_anew(manager, clock):
    await hear(manager, loop_of(manager, clock), clock, *["same"] * 6)
    told = Told(manager)
    again = loop_of(manager, clock)
    await hear(manager, again, clock, "same", "same", "same")
    assert told.told == [REPEATED, ("stopped", "")]


async def test_with_progress_in_between_it_is_refreshed_again(manager, clock):
    told = Told(manager)
    loop = loop_of(manager, clock)
    for turn in range(4):
        for _ in range(3):
            clock.at(turn * 600 + 10, lambda: loop.mailbox.send("same", sender="eve"))
        clock.at(turn * 600 + 20, lambda: loop.tasks.add("count"))
    assert (await hear(manager, loop, clock, seconds=HOUR)).why == "stopped"
    assert told.told == [REPEATED] * 4 + [("stopped", "")]


async def test_a_whole_refresh_period_without_drift_counts_as_progress(manager, clock):
    told = Told(manager)
    loop = loop_of(manager, clock)
    for hours in (0, 2.5, 5):
        for word in ["same"] * 3:
            clock.at(hours * HOUR + 10, lambda word=word: loop.mailbox.send(word, sender="eve"))
    clock.at(6 * HOUR, loop.stop)
    assert (await loop.run()).why == "stopped"
    assert told.told.count(REPEATED) == 3


async def test_errors_without_end_stop_the_agent(manager, clock):
    class Broken(Counter):
        async def on_message(self, message, turn):
            raise ConnectionError("no model")

    told = Told(manager)
    manager.register(Broken)
    loop = loop_of(manager, clock, Broken(), detector=DriftDetector(repetition=None))
    ended = await hear(manager, loop, clock, "one", seconds=HOUR * 24)
    assert ended.why == "drift"
    kind, reason, agent_id = told.told[0]
    assert (kind in SIGNALS, agent_id) == (True, "ada")
    assert reason
    assert await loop.mailbox.waiting() == 1


async def test_the_detectors_state_is_part_of_the_checkpoint(manager, clock):
    told = Told(manager)
    await hear(manager, loop_of(manager, clock), clock, "same", "same")
    latest = await manager.latest("ada")
    assert latest.metadata["detector"]
    again = loop_of(manager, clock, await manager.restore(latest.id))
    await hear(manager, again, clock, "same")
    fresh = loop_of(manager, clock)
    await hear(manager, fresh, clock, "same", "same")
    assert told.told == [("stopped", ""), REPEATED, ("stopped", ""), ("stopped", "")]


async def test_a_detector_that_fails_is_logged_and_says_nothing(manager, clock, caplog):
    class Broken(DriftDetector):
        def observe(self, event):
            raise KeyError("broken")

    loop = loop_of(manager, clock, detector=Broken())
    await hear(manager, loop, clock, "one")
    assert loop.agent.heard == ["one"]
    assert "detector" in caplog.text


# --- policies


async def test_notify_tells_once_for_each_time_that_drift_begins(manager, clock):
    kinds, told = Kinds(manager), Told(manager)
    loop = loop_of(manager, clock, on_drift="notify")
    before = loop.agent
    await hear(manager, loop, clock, *["same"] * 6, "other", *["same"] * 4)
    assert told.told == [REPEATED, REPEATED, ("stopped", "")]
    assert "recovery" not in kinds()
    assert loop.agent is before


async def test_checkpoint_saves_and_goes_on(manager, clock):
    kinds, told = Kinds(manager), Told(manager)
    loop = loop_of(manager, clock, on_drift="checkpoint")
    before = loop.agent
    await hear(manager, loop, clock, *["same"] * 6)
    assert told.told == [REPEATED, ("stopped", "")]
    assert kinds.why(kind="recovery") == ["drift"]
    assert loop.agent is before


async def test_stop_stops_at_the_first_drift(manager, clock):
    told = Told(manager)
    loop = loop_of(manager, clock, on_drift="stop")
    assert (await hear(manager, loop, clock, *["same"] * 6)).why == "drift"
    assert told.told == [REPEATED, ("drift", REPEATED[1])]
    assert await loop.mailbox.waiting() == 3


async def test_ask_sends_a_nudge_then_refreshes_then_stops(manager, clock):
    class Stuck(Counter):
        async def on_message(self, message, turn):
            self.heard.append((message.sender, message.content))
            turn.send("ada", "again")

    kinds, told = Kinds(manager), Told(manager)
    manager.register(Stuck)
    loop = loop_of(manager, clock, Stuck(), on_drift="ask")
    ended = await hear(manager, loop, clock, "again")
    assert ended.why == "drift"
    nudge = f"You seem to be stuck: {REPEATED[1]}. Do something else, or say what keeps you."
    assert [heard for heard in loop.agent.heard if heard[0] == "holdfast"] == [("holdfast", nudge)]
    assert [one[0] for one in told.told] == ["repetition"] * 3 + ["drift"]
    assert kinds.why(kind="recovery") == ["drift"] * 3
    assert kinds.why().count("refreshed") == 1


def test_a_policy_that_is_none_and_an_agent_that_cant_be_asked_are_refused(manager):
    class Deaf:
        agent_id, user_id, status = "deaf", "u", ""

        def on_task(self, task, turn): ...

    class Idle:
        agent_id, user_id, status = "idle", "u", ""

    with pytest.raises(InvalidArgument, match="'panic' is no policy"):
        AgentLoop(Counter(), manager, on_drift="panic")
    with pytest.raises(MissingMethod, match="Deaf has no on_message"):
        AgentLoop(Deaf(), manager, on_drift="ask")
    with pytest.raises(MissingMethod, match="neither on_message nor on_task"):
        AgentLoop(Idle(), manager)

"""Drift of a model's agent: what is noticed, what is done about it, and that a restart changes nothing of that."""

from __future__ import annotations

import pytest

from holdfast.agents.model.drifting import Drifting
from holdfast.agents.model.journal import Journal
from holdfast.agents.model.limits import ModelLimits
from holdfast.drift.protocol import Event
from holdfast.durable.manager import CheckpointManager
from holdfast.durable.redaction import Redactor
from holdfast.durable.runs.tool import Tool
from holdfast.errors import InvalidArgument
from holdfast.history.records import ToolCall
from holdfast.storage.memory import InMemoryCheckpointStorage
from tests.openai_server import Says
from tests.unit.agents.model.conftest import Killed, types
from tests.unit.agents.strict import Strict

REASON = "poll was done 3 times in a row with the same outcome"
NOTES = ("drift", "drift_refresh", "drift_stop")


def poll() -> str:
    """Looks whether it is done."""
    return "queued"


POLL = Says("", [("c", "poll", {})])


def said(request):
    """The messages of users that a request holds."""
    return [one["content"] for one in request["messages"] if one["role"] == "user"]


def calls(request):
    return sum(one["role"] == "tool" for one in request["messages"])


@pytest.fixture
def stubborn(model):
    """A model that polls whatever it is told, and only ever answers what is called `enough`."""
    return model(script=lambda request: Says("done") if said(request)[-1] == "enough" else POLL)


@pytest.fixture
def manager(store):
    return CheckpointManager(store)


@pytest.fixture
def told(manager):
    told = []
    manager.on("drift_detected", lambda drift, agent: told.append((agent.agent_id, drift.reason)))
    return told


@pytest.fixture
def watched(agent_with):
    def make(policy, **options):
        return agent_with(poll, detector=Strict(), on_drift=policy, **options)

    return make


async def origins(store):
    return [one.origin for one in await store.read("a") if one.type == "user_message" and one.origin in NOTES]


async def recoveries(manager):
    return [one.metadata for one in await manager.list_by_agent("a") if one.kind == "recovery"]


def seen_by(conversation):
    """The events and the state of a detector that reads a conversation from its beginning."""
    drifting = Drifting(Strict(), "ask")
    drifting.found(conversation)
    return drifting.watch.detector.events, drifting.watch.detector.state(), drifting.watch.state()


def known_to(agent):
    """The same of a live agent."""
    drifting = agent._setting.drifting
    drifting.found(agent._setting.history.conversation)
    return drifting.watch.detector.events, drifting.watch.detector.state(), drifting.watch.state()


async def test_each_call_is_an_event_as_it_is_recorded(model, agent_with):
    def login(token: str) -> str:
        raise PermissionError("wrong")

    model(
        Says("", [("c1", "login", {"token": "sk-123"}), ("c2", "run_python", {"code": "1 + 1"})]),
        Says("", [("c3", "nothing", {})]),
        Says("done"),
    )
    detector = Strict()
    agent = agent_with(login, run_python=True, redact_arguments=Redactor(), detector=detector)
    await agent.run("Hi")
    events = {event.action: event for event in detector.events}
    first, second, third = events["login"], events["run_python"], events["nothing"]
    assert "sk-123" not in str(first.arguments)
    assert "PermissionError: wrong" in first.error
    assert (second.arguments, second.error) == ({"code": "1 + 1"}, None)
    assert "2" in str(second.outcome)
    assert "nothing" in third.error
    assert all(event.duration_seconds is not None and event.duration_seconds >= 0 for event in detector.events)
    assert [event.at for event in detector.events] == [None] * 3


async def test_by_default_it_is_asked_then_refreshed_then_stopped(stubborn, agent_with, store, manager, told):
    agent = agent_with(poll, detector=Strict(), checkpoint_manager=manager)
    result = await agent.run("Wait for it")
    assert (result.status, result.reason) == ("stopped", f"The work on this was stopped: {REASON}.")
    assert result.usage.requests == 9
    assert await origins(store) == list(NOTES)
    assert told == [("a", REASON)] * 3
    assert [one["drift"]["reason"] for one in await recoveries(manager)] == [REASON] * 3
    assert (await store.agent("a")).owner is None


async def test_a_model_that_is_asked_and_listens_goes_on(model, watched, store):
    def script(request):
        return Says("It hangs.") if "You seem to be stuck" in said(request)[-1] else POLL

    server = model(script=script)
    result = await watched("ask").run("Wait for it")
    assert (result.status, result.output) == ("complete", "It hangs.")
    assert REASON in said(server.requests[-1])[-1]
    asked = types(await store.read("a"))[-2:]
    assert asked == ["user_message", "assistant_message"], "the message was on record before the model was asked"


async def test_after_a_refresh_the_model_is_shown_the_prompts_a_note_and_nothing_of_the_loop(model, watched, store):
    def script(request):
        if said(request)[-1] == "Hello":
            return Says("Hi!")
        return Says("It hangs.") if "You were stuck" in said(request)[-1] else POLL

    server = model(script=script)
    agent = watched("refresh")
    await agent.run("Hello")
    result = await agent.run("Wait for it")
    assert result.output == "It hangs."
    assert result.usage.requests == 4, "what was dropped counts towards the limits"
    last = server.requests[-1]
    assert [one["role"] for one in last["messages"]] == ["user", "assistant", "user", "user"]
    assert said(last)[:2] == ["Hello", "Wait for it"]
    assert REASON in said(last)[2]
    assert "It was: poll (3)." in said(last)[2]
    assert types(await store.read("a")).count("tool_result") == 3, "the history has everything"


async def test_two_refreshes_without_progress_stop_the_agent(stubborn, watched, store):
    result = await watched("refresh").run("Wait for it")
    assert result.status == "stopped"
    assert await origins(store) == ["drift_refresh", "drift_stop"]
    assert max(map(calls, stubborn.requests)) == 2


async def test_forty_calls_without_drift_are_progress(model, agent_with, store):
    done = 0

    def work() -> str:
        nonlocal done
        done += 1
        return "queued" if done % 44 in (1, 2, 3) or done == 0 else f"{done} of 132"

    model(script=lambda request: Says("done") if done == 132 else Says("", [("c", "work", {})]))
    agent = agent_with(work, detector=Strict(), on_drift="refresh", limits=ModelLimits(requests_max=200))
    assert (await agent.run("Work")).status == "complete"
    assert await origins(store) == ["drift_refresh"] * 3


async def test_an_agent_that_was_stopped_goes_on_with_a_new_prompt(stubborn, watched, store):
    agent = watched("stop")
    result = await agent.run("Wait for it")
    assert (result.status, result.reason, agent.status) == (
        "stopped", f"The work on this was stopped: {REASON}.", "WAITING_FOR_INPUT",
    )  # fmt: skip
    assert len(stubborn.requests) == 3
    again = watched("stop")
    assert await again.recover() is None, "nothing is pending"
    assert (await again.run("enough")).output == "done"
    assert said(stubborn.requests[-1])[-2:] == [result.reason, "enough"]


async def test_a_prompt_after_a_kill_that_stops_what_was_pending_is_taken_up(stubborn, watched, monkeypatch):
    async def dies(*_):
        raise Killed

    first = watched("stop")
    monkeypatch.setattr(first._setting, "tell_drift", dies)
    with pytest.raises(Killed):
        await first.run("Wait for it")
    assert (await watched("stop").run("enough")).output == "done"
    assert [one[:15] for one in said(stubborn.requests[-1])] == ["Wait for it", "The work on thi", "enough"]


async def test_notify_tells_once_and_the_agent_goes_on(model, watched, store, manager, told):
    model(script=lambda request: Says("done") if calls(request) == 6 else POLL)
    result = await watched("notify", checkpoint_manager=manager).run("Wait for it")
    assert (result.status, told) == ("complete", [("a", REASON)])
    assert (await origins(store), await recoveries(manager)) == ([], [])


async def test_checkpoint_saves_a_recovery_checkpoint_that_one_can_go_back_to(model, watched, store, manager, told):
    model(script=lambda request: Says("done") if calls(request) == 6 or said(request)[-1] == "x" else POLL)
    agent = watched("checkpoint", checkpoint_manager=manager)
    assert (await agent.run("Wait for it")).status == "complete"
    [metadata] = await recoveries(manager)
    assert metadata["why"] == "drift"
    assert await origins(store) == []
    [saved] = [one for one in await manager.list_by_agent("a") if one.kind == "recovery"]
    assert len((await manager.load(saved.id)).state["messages"]) == 7
    await manager.restore_into(agent, saved.id)
    assert (await agent.recover()).output == "done"


async def test_a_recovery_checkpoint_in_a_run_that_began_further_back_has_where_the_agent_is(
    stubborn, watched, manager
):
    agent = watched("stop", checkpoint_manager=manager)
    await agent.run("enough")
    first = await manager.save(agent)
    await agent.run("enough")
    await manager.restore_into(agent, first)
    assert (await agent.run("Wait for it")).status == "stopped"
    [saved] = [one for one in await manager.list_by_agent("a") if one.kind == "recovery"]
    assert len((await manager.load(saved.id)).state["messages"]) == 2 + 7
    assert saved.parent_checkpoint_id == first


async def test_nobody_looks_without_a_policy(model, agent_with):
    model(script=lambda request: Says("done") if calls(request) == 9 else POLL)
    detector = Strict()
    assert (await agent_with(poll, detector=detector, on_drift=None).run("Wait")).status == "complete"
    assert detector.events == []


async def test_each_prompt_begins_anew(model, watched, store):
    model(script=lambda request: POLL if request["messages"][-1]["role"] == "user" else Says("queued"))
    agent = watched("stop")
    assert [(await agent.run("Is it done?")).status for _ in range(5)] == ["complete"] * 5


async def test_a_detector_knows_after_a_restart_what_it_knew(stubborn, agent_with):
    polled = []

    async def poll() -> str:
        polled.append(True)
        if len(polled) == 3:
            raise Killed
        return "queued"

    def agent():
        return agent_with(Tool(poll, on_restart="retry"), detector=Strict(), on_drift="stop")

    first = agent()
    with pytest.raises(Killed):
        await first.run("Wait for it")
    second = agent()
    assert (await second.recover()).status == "stopped"
    assert len(polled) == 4, "three calls, one of them twice"
    assert known_to(first)[0] == known_to(second)[0][:2]
    assert seen_by(await agent()._setting.history.refresh()) == known_to(second)


async def test_killed_at_any_commit_the_outcome_is_the_same(model, store, agent_with, monkeypatch):
    """After each that has news: a process that says only that it begins again would begin for ever."""
    model(script=lambda request: POLL)
    committed = Journal._commit

    async def dies(journal, records, *, hold):
        await committed(journal, records, hold=hold)
        if records and not any(isinstance(record, ToolCall) and record.attempt > 1 for record in records):
            raise Killed

    monkeypatch.setattr(Journal, "_commit", dies)
    deaths = 0
    with pytest.raises(Killed):
        await agent_with(poll_again(), detector=Strict()).run("Wait for it")
    while not (await origins(store))[2:]:
        deaths += 1
        assert deaths < 60
        with pytest.raises(Killed):
            await agent_with(poll_again(), detector=Strict()).recover()
    monkeypatch.undo()
    assert await origins(store) == list(NOTES)
    assert [type(one).__name__ for one in await store.read("a")].count("ToolResult") == 9
    assert await agent_with(poll_again(), detector=Strict()).recover() is None


def poll_again():
    return Tool(poll, on_restart="retry")


async def test_an_agent_that_goes_back_has_the_detector_of_then(model, watched, manager, store):
    model(script=lambda request: Says("done") if said(request)[-1] == "x" else POLL)
    agent = watched("stop", checkpoint_manager=manager)
    await agent.run("Wait for it")
    [recovery] = [one for one in await manager.list_by_agent("a") if one.kind == "recovery"]
    await agent.run("x")
    await manager.restore_into(agent, recovery.id)
    assert (await agent.recover()).status == "stopped", "there it had drifted"
    assert len(known_to(agent)[0]) == 6, "it read those three calls twice"
    read = await watched("stop")._setting.history.refresh()
    assert seen_by(read)[1:] == known_to(agent)[1:]


async def test_durations_are_of_calls_that_began_once(model, agent_with, store):
    killed = []

    async def slow() -> str:
        if not killed:
            killed.append(True)
            raise Killed
        return "there"

    model(Says("", [("c1", "slow", {})]), Says("done"))
    with pytest.raises(Killed):
        await agent_with(Tool(slow, on_restart="retry")).run("Hi")
    detector = Strict()
    await agent_with(Tool(slow, on_restart="retry"), detector=detector).recover()
    assert detector.events == [Event(action="slow", arguments={}, outcome="there")]


async def test_what_can_not_work_is_refused(store, agent_with):
    with pytest.raises(InvalidArgument, match="no policy"):
        agent_with(poll, on_drift="panic")
    with pytest.raises(InvalidArgument, match="needs a checkpoint_manager"):
        agent_with(poll, on_drift="checkpoint")
    with pytest.raises(InvalidArgument, match="must have the agent's storage"):
        agent_with(poll, checkpoint_manager=CheckpointManager(InMemoryCheckpointStorage()))

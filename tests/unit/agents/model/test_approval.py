"""Tool calls that a person must approve: the agent waits, for days if need be, in whichever process."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.agents.model.result import PendingCall
from holdfast.durable.manager import CheckpointManager
from holdfast.errors import InvalidArgument, ModelFailed, StillWaiting, UnknownCall
from holdfast.history.records import ToolApproval, ToolCall, ToolResult
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.openai_server import Fails, Says
from tests.unit.agents.model.conftest import errors, results, types, until

ASKS = (Says("May I?", [("c1", "pay", {"amount": 100}), ("c2", "look", {})]), Says("done"))


class Till:
    def __init__(self) -> None:
        self.paid: list[int] = []
        self.looked = 0

    def tools(self):
        def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        def look() -> str:
            self.looked += 1
            return "seen"

        return pay, look


async def test_a_call_that_needs_approval_waits_and_the_others_are_made(model, agent_with, store):
    server, till = model(*ASKS), Till()
    agent = agent_with(*till.tools(), needs_approval={"pay"})
    result = await agent.run("Hi")
    assert (result.status, result.output, agent.status) == ("waiting", "May I?", "WAITING_FOR_APPROVAL")
    assert result.waiting == (PendingCall(call_id="c1", tool_name="pay", arguments={"amount": 100}, agent_id="a"),)
    assert (till.paid, till.looked, len(server.requests)) == ([], 1, 1)
    assert (await store.agent("a")).owner is None
    assert [one.decision for one in await store.read("a") if isinstance(one, ToolApproval)] == ["asked"]


async def test_an_approved_call_is_made_in_another_process_days_later(model, agent_with, tmp_path):
    server, till = model(*ASKS), Till()
    await agent_with(*till.tools(), needs_approval={"pay"}).run("Hi")
    theirs = SQLiteCheckpointStorage(tmp_path / "store.db")
    agent = agent_with(*till.tools(), needs_approval={"pay"}, storage=theirs)
    waiting = await agent.recover()
    assert [one.call_id for one in waiting.waiting] == ["c1"]
    result = await agent.approve("c1")
    assert (result.status, result.output, till.paid) == ("complete", "done", [100])
    assert results(server.requests[1]) == [("c1", "paid 100"), ("c2", "seen")]
    assert types(await theirs.read("a"))[2:] == [
        "tool_call", "tool_approval", "tool_result", "tool_approval", "tool_call", "tool_result", "assistant_message",
    ]  # fmt: skip
    await theirs.close()


async def test_an_approval_survives_the_death_of_who_recorded_it(model, agent_with, store):
    server, till = model(*ASKS), Till()
    await agent_with(*till.tools(), needs_approval={"pay"}).run("Hi")
    await CheckpointManager(store).append("a", ToolApproval(tool_call_id="c1", decision="approved"))
    assert (await agent_with(*till.tools(), needs_approval={"pay"}).recover()).output == "done"
    assert till.paid == [100]
    assert len(server.requests) == 2


async def test_recovering_while_it_waits_writes_nothing(model, agent_with, store):
    model(*ASKS)
    till = Till()
    await agent_with(*till.tools(), needs_approval={"pay"}).run("Hi")
    before = await store.agent("a")
    assert (await agent_with(*till.tools(), needs_approval={"pay"}).recover()).status == "waiting"
    assert await store.agent("a") == before


async def test_a_denied_call_is_not_made_and_the_model_is_told_why(model, agent_with, store):
    server, till = model(*ASKS), Till()
    agent = agent_with(*till.tools(), needs_approval={"pay"})
    await agent.run("Hi")
    assert (await agent.deny("c1", "too much")).output == "done"
    assert till.paid == []
    assert errors({"messages": [one for one in server.requests[1]["messages"] if one.get("tool_call_id") == "c1"]}) == [
        "A person denied this call: too much"
    ]
    [*_, denied] = [one for one in await store.read("a") if isinstance(one, ToolApproval)]
    assert (denied.decision, denied.reason) == ("denied", "too much")


async def test_several_calls_are_decided_one_by_one(model, agent_with):
    calls = [("c1", "pay", {"amount": 1}), ("c2", "pay", {"amount": 2})]
    server, till = model(Says("", calls), Says("done")), Till()
    agent = agent_with(*till.tools(), needs_approval=True)
    await agent.run("Hi")
    result = await agent.approve("c2")
    assert ([one.call_id for one in result.waiting], till.paid) == (["c1"], [2])
    with pytest.raises(UnknownCall):
        await agent.approve("c2")
    assert (await agent.approve("c1")).output == "done"
    assert results(server.requests[1]) == [("c1", "paid 1"), ("c2", "paid 2")]


@pytest.mark.parametrize("call_id", ["c2", "c9"])
async def test_only_what_waits_can_be_decided(call_id, model, agent_with):
    model(*ASKS)
    agent = agent_with(*Till().tools(), needs_approval={"pay"})
    await agent.run("Hi")
    with pytest.raises(UnknownCall) as caught:
        await agent.approve(call_id)
    assert caught.value.tool_call_id == call_id


async def test_no_new_prompt_is_taken_while_a_call_waits(model, agent_with, store):
    model(*ASKS)
    agent = agent_with(*Till().tools(), needs_approval={"pay"})
    await agent.run("Hi")
    with pytest.raises(StillWaiting, match=r"pay \(call c1\) waits for a decision"):
        await agent.run("Hello?")
    assert types(await store.read("a")).count("user_message") == 1


async def test_a_person_may_decide_while_other_calls_are_under_way(model, agent_with, store):
    go_on = asyncio.Event()
    till = Till()

    async def look() -> str:
        await go_on.wait()
        return "seen"

    model(*ASKS)
    agent = agent_with(till.tools()[0], look, needs_approval={"pay"})
    running = asyncio.ensure_future(agent.run("Hi"))

    async def asked() -> bool:
        return "tool_approval" in types(await store.read("a"))

    await until(asked)
    approving = asyncio.ensure_future(agent.approve("c1"))
    await until(lambda: till.paid)
    with pytest.raises(UnknownCall):
        await agent.deny("c1")
    go_on.set()
    assert (await running) == (await approving)
    assert running.result().output == "done"


async def test_whoever_decides_while_a_turn_is_under_way_is_told_when_it_fails(model, agent_with, store):
    go_on = asyncio.Event()

    async def look() -> str:
        await go_on.wait()
        return "seen"

    model(script=lambda request: ASKS[0] if len(request["messages"]) == 1 else Fails(401, {"message": "no more"}))
    agent = agent_with(Till().tools()[0], look, needs_approval={"pay"})
    running = asyncio.ensure_future(agent.run("Hi"))

    async def asked() -> bool:
        return "tool_approval" in types(await store.read("a"))

    await until(asked)
    approving = asyncio.ensure_future(agent.approve("c1"))
    await until(lambda: agent._turn._decisions)
    go_on.set()
    for task in (running, approving):
        with pytest.raises(ModelFailed, match="no more"):
            await task


async def test_a_rule_sees_the_arguments(model, agent_with):
    model(Says("", [("c1", "pay", {"amount": 5}), ("c2", "pay", {"amount": 500})]), Says("done"))
    till = Till()

    async def over_100(call: PendingCall) -> bool:
        return call.tool_name == "pay" and call.arguments["amount"] > 100

    result = await agent_with(*till.tools(), needs_approval=over_100).run("Hi")
    assert ([one.call_id for one in result.waiting], till.paid) == (["c2"], [5])


async def test_a_rule_that_fails_has_not_said_yes(model, agent_with, caplog):
    model(*ASKS)
    till = Till()
    result = await agent_with(*till.tools(), needs_approval=lambda call: call.arguments["amount"] > 500).run("Hi")
    assert [one.call_id for one in result.waiting] == ["c2"]
    assert till.paid == [100]
    assert "needs approval could not be found out" in caplog.text


async def test_a_call_whose_arguments_are_wrong_asks_nobody(model, agent_with):
    server = model(Says("", [("c1", "pay", {"amount": "much"})]), Says("sorry"))
    assert (await agent_with(*Till().tools(), needs_approval=True).run("Hi")).output == "sorry"
    assert "wrong argument: amount" in errors(server.requests[1])[0]


async def test_programs_can_not_call_what_needs_approval(model, agent_with):
    server, till = model(Says("", [("c1", "run_python", {"code": "look()"})]), Says("done")), Till()
    await agent_with(*till.tools(), run_python=True, needs_approval={"pay"}).run("Hi")
    [python] = [one["function"] for one in server.requests[0]["tools"] if one["function"]["name"] == "run_python"]
    assert "def look" in python["description"]
    assert "def pay" not in python["description"]


async def test_a_rule_holds_in_programs_too(model, agent_with):
    code = "print(pay(amount=5))\ntry:\n  pay(amount=500)\nexcept Exception as error:\n  print(error)"
    server, till = model(Says("", [("c1", "run_python", {"code": code})]), Says("done")), Till()

    def over_100(call: PendingCall) -> bool:
        return call.tool_name == "pay" and call.arguments["amount"] > 100

    await agent_with(*till.tools(), run_python=True, needs_approval=over_100).run("Hi")
    assert till.paid == [5]
    assert "pay() needs a person's approval" in results(server.requests[1])[0][1]


async def test_a_program_itself_may_need_approval(model, agent_with):
    server, till = model(Says("", [("c1", "run_python", {"code": "pay(amount=7)"})]), Says("done")), Till()
    agent = agent_with(*till.tools(), run_python=True, needs_approval=True)
    assert (await agent.run("Hi")).waiting[0].arguments == {"code": "pay(amount=7)"}
    await agent.approve("c1")
    assert till.paid == [7]
    assert results(server.requests[1]) == [("c1", "paid 7")]


async def test_secrets_that_wait_are_known_in_their_process_alone(model, agent_with, store):
    def login(password: str) -> str:
        return f"in with {password}"

    model(Says("", [("c1", "login", {"password": "hunter2"}), ("c2", "login", {"password": "s3"})]), Says("done"))
    agent = agent_with(login, needs_approval=True)
    assert (await agent.run("Hi")).waiting[0].arguments == {"password": "hunter2"}
    await agent.approve("c1")
    await agent_with(login, needs_approval=True).recover()
    told = [
        (one.tool_call_id, one.content, one.is_error) for one in await store.read("a") if isinstance(one, ToolResult)
    ]
    assert told[0] == ("c1", "in with hunter2", False)
    assert told[1][2]
    assert "held secrets" in told[1][1]
    assert [one.tool_call_id for one in await store.read("a") if isinstance(one, ToolCall)] == ["c1"]


@pytest.mark.parametrize("wrong", [{"pya"}, "pay"])
async def test_a_tool_that_there_is_not_can_not_need_approval(wrong, agent_with):
    with pytest.raises(InvalidArgument, match=r"pya|one text"):
        agent_with(*Till().tools(), needs_approval=wrong)

"""Secrets are taken out before anything is stored; the live object keeps them."""

from __future__ import annotations

from holdfast import CheckpointManager, Redactor
from holdfast.history.records import AssistantMessage, RlmStart, RlmToolCall
from tests.unit.durable.samples import Agent

SECRET = "sk-abcdefghijklmnop0123"


async def test_a_redacted_state_says_where_and_the_live_agent_keeps_its_secrets(storage):
    manager = CheckpointManager(storage, redact=Redactor())
    agent = Agent()
    agent.state = {"login": {"user": "ada", "password": "hunter2"}, "notes": ["ok", f"use {SECRET}"]}
    agent.collected_fields = {"api_key": "k-1"}
    agent.context_summary = f"logs in with {SECRET}"
    found = await manager.load(await manager.save(agent, metadata={"label": "x"}))
    assert found.state == {"login": {"user": "ada", "password": "[redacted]"}, "notes": ["ok", "use [redacted]"]}
    assert (found.collected_fields, found.context_summary) == ({"api_key": "[redacted]"}, "logs in with [redacted]")
    assert found.metadata == {
        "label": "x",
        "redacted": ["state.login.password", "state.notes[1]", "collected_fields.api_key", "context_summary"],
    }
    assert agent.state["login"]["password"] == "hunter2"
    assert agent.collected_fields == {"api_key": "k-1"}


async def test_states_are_kept_as_they_are_unless_redaction_is_asked_for(manager):
    agent = Agent()
    agent.state = {"password": "hunter2"}
    found = await manager.load(await manager.save(agent))
    assert (found.state, found.metadata) == ({"password": "hunter2"}, {})


async def test_a_redaction_of_ones_own_is_used(storage):
    def forget_names(value, path):
        return (
            ({**value, "name": "?"}, [f"{path}.name"]) if isinstance(value, dict) and "name" in value else (value, [])
        )

    manager = CheckpointManager(storage, redact=forget_names)
    agent = Agent()
    agent.state = {"name": "Ada", "age": 36}
    found = await manager.load(await manager.save(agent))
    assert (found.state, found.metadata) == ({"name": "?", "age": 36}, {"redacted": ["state.name"]})


def call(**arguments):
    return RlmToolCall(
        tool_call_id="call_1", call_id=1, snapshot=None, print_output="", tool_call_count=1, tool_name="login",
        tool_args=arguments,
    )  # fmt: skip


async def test_secrets_in_tool_arguments_are_taken_out_of_records_which_say_so(manager):
    asked = AssistantMessage(
        content="", tool_calls=[{"id": "c", "name": "login", "arguments": {"user": "ada", "password": "hunter2"}}]
    )
    start = RlmStart(tool_call_id="call_1", code="login()", preamble="")
    await manager.append("ada", asked, start, call(token="t-1", url="x"), call(url="x"))
    message, _, first, second = await manager.history("ada")
    assert message.tool_calls[0]["arguments"] == {"user": "ada", "password": "[redacted]"}
    assert message.redacted == ["toolCalls[0].arguments.password"]
    assert (first.tool_args, first.redacted) == ({"token": "[redacted]", "url": "x"}, ["toolArgs.token"])
    assert (second.tool_args, second.redacted) == ({"url": "x"}, None)
    assert asked.tool_calls[0]["arguments"]["password"] == "hunter2"


async def test_arguments_are_kept_where_that_is_asked_for(storage):
    manager = CheckpointManager(storage, redact_arguments=None)
    await manager.append("ada", RlmStart(tool_call_id="call_1", code="", preamble=""), call(token="t-1"))
    assert (await manager.history("ada"))[1].tool_args == {"token": "t-1"}

"""Steps done by a `StandardAgent`: its fields are filled, and what it asks a person can be answered in any process."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AgentStatus, InputField, InvalidArgument, OutputField, StandardAgent, WorkflowExecutor
from tests.unit.agents.workflow.samples import states

seen = []


class TableAgent(StandardAgent):
    """Asks for what it needs, has it approved, and books."""

    guests = InputField("How many guests?", validator=int)
    day = InputField("Which day?")
    table = OutputField()

    def requires_approval(self):
        return self.guests > 6

    async def on_running(self, msg):
        seen.append(msg)
        self.table = f"table for {self.guests} on {self.day}"
        return self.make_result(status=AgentStatus.COMPLETED, raw_message="Booked!", data={"price": 9})


class Flaky(StandardAgent):
    attempts = 0

    async def on_running(self, msg):
        seen.append(msg)
        type(self).attempts += 1
        if type(self).attempts == 1:
            raise ConnectionError("the restaurant does not answer")
        return self.make_result(status=AgentStatus.COMPLETED, raw_message=str(msg.content))


class Unfinished(StandardAgent):
    async def on_running(self, msg):
        return self.make_result(status=AgentStatus.PAUSED, raw_message="Later.")


@pytest.fixture(autouse=True)
def _nothing_was_seen():
    seen.clear()
    Flaky.attempts = 0


def one(agent="TableAgent", more=""):
    return f"steps: [{{name: a, agent: {agent}, inputs: {{day: Monday, message: hello}}{more}}}]"


async def test_inputs_fill_fields_and_what_it_gives_is_the_output(manager, file):
    path = file("""
        steps:
          - {name: table, agent: TableAgent, inputs: {guests: "4", day: Monday, message: "a table, please"}}
          - {name: told, agent: Flaky, retry: {max_attempts: 2}, inputs: {message: "${table.output.table}"}}
    """)
    result = await WorkflowExecutor([TableAgent, Flaky], manager).run(path, user_id="ada")
    assert result.status is AgentStatus.COMPLETED
    assert result.outputs == {
        "table": {
            "guests": 4, "day": "Monday", "table": "table for 4 on Monday", "price": 9, "message": "Booked!"
        },
        "told": {"message": "table for 4 on Monday"},
    }  # fmt: skip
    assert [(msg.content, msg.id, msg.attempt) for msg in seen] == [
        ("a table, please", f"{result.agent_id}/table", 1),
        ("table for 4 on Monday", f"{result.agent_id}/told", 1),
        ("table for 4 on Monday", f"{result.agent_id}/told", 2),
    ]
    assert seen[0].context["inputs"]["guests"] == "4"
    assert seen[0].context["step"].step == "table"


async def test_without_a_message_the_inputs_are_the_content(manager, file):
    path = file("steps: [{name: a, agent: Flaky, retry: {max_attempts: 2}, inputs: {x: 1}}]")
    await WorkflowExecutor([Flaky], manager).run(path)
    assert seen[-1].content == {"x": 1}


async def test_a_step_that_waits_goes_on_with_the_answers(manager, file):
    path = file(f"{one()[:-1]}, {{name: b, agent: TableAgent, needs: [], inputs: {{guests: 2, day: Friday}}}}]")
    first = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r")
    assert (first.status, first.waiting) == (AgentStatus.WAITING_FOR_INPUT, {"a": "How many guests?"})
    assert first.steps == {"a": "waiting", "b": "done"}  # the others go on
    assert (await manager.latest("trip/r")).status == "WAITING_FOR_INPUT"

    unanswered = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r")
    assert (unanswered.waiting, unanswered.checkpoint_id) == (first.waiting, first.checkpoint_id)
    assert unanswered.checkpoint_ids == ()

    refused = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r", answers={"a": "many"})
    assert refused.waiting["a"].endswith("How many guests?")
    asked = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r", answers={"a": "8"})
    assert (asked.status, asked.waiting) == (
        AgentStatus.WAITING_FOR_APPROVAL, {"a": "day: Monday, guests: 8. Shall I go on? (yes/no)"},
    )  # fmt: skip
    done = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r", answers={"a": "yes"})
    assert done.ok
    assert done.outputs["a"]["table"] == "table for 8 on Monday"
    assert (seen[-1].content, seen[-1].id, seen[-1].attempt) == ("yes", "trip/r/a/answer-3", 1)


async def test_an_answer_is_durable_before_its_agent_gets_it(manager, file):
    hanging = asyncio.Event()

    class Slow(TableAgent):
        async def on_running(self, msg):
            seen.append(msg)
            hanging.set()
            await asyncio.Event().wait()

    path = file(one())
    await WorkflowExecutor({"TableAgent": Slow}, manager).run(path, run_id="r")
    answering = asyncio.ensure_future(
        WorkflowExecutor({"TableAgent": Slow}, manager).run(path, run_id="r", answers={"a": "4"})
    )
    await hanging.wait()
    answering.cancel()
    await asyncio.wait([answering])

    result = await WorkflowExecutor([TableAgent], manager).run(path, run_id="r")  # nobody answers again
    assert result.outputs["a"]["table"] == "table for 4 on Monday"
    assert [(msg.id, msg.attempt) for msg in seen] == [("trip/r/a/answer-1", 1), ("trip/r/a/answer-1", 2)]
    assert (await states(manager, "trip/r"))[-1][0] == "COMPLETED"


async def test_what_was_not_approved_has_failed_and_can_be_answered_otherwise(manager, file):
    path = file("steps: [{name: a, agent: TableAgent, inputs: {guests: 8, day: Monday}, retry: {max_attempts: 3}}]")
    executor = WorkflowExecutor([TableAgent], manager)
    await executor.run(path, run_id="r")
    refused = await executor.run(path, run_id="r", answers={"a": "no"})
    assert refused.errors == {
        "a": "TableAgent is CANCELLED, which is no end of a step: Not approved: nothing was done."
    }
    assert (await executor.run(path, run_id="r", answers={"a": "yes"})).ok


async def test_an_answer_to_a_step_that_asks_nothing_is_refused(manager, file):
    executor = WorkflowExecutor([TableAgent], manager)
    await executor.run(file(one()), run_id="r")
    with pytest.raises(InvalidArgument) as caught:
        await executor.run(file(one()), run_id="r", answers={"b": "4"})
    assert caught.value.hint == "Those that wait: a."


async def test_an_input_that_a_field_does_not_take_fails_the_step(manager, file):
    path = file("steps: [{name: a, agent: TableAgent, inputs: {guests: many}, retry: {max_attempts: 3}}]")
    result = await WorkflowExecutor([TableAgent], manager).run(path)
    assert result.errors == {"a": "Input guests is not what TableAgent takes: That is not a valid answer."}


async def test_an_agent_that_stops_elsewhere_is_a_failure(manager, file):
    result = await WorkflowExecutor([Unfinished], manager).run(file(one("Unfinished")))
    assert result.errors == {"a": "Unfinished is PAUSED, which is no end of a step: Later."}
    result = await WorkflowExecutor([Flaky], manager).run(file(one("Flaky"), "other.yaml"))
    assert result.errors == {"a": "ConnectionError: the restaurant does not answer"}


async def test_a_factory_gets_the_ids(manager, file):
    path = file(one(more=", needs: []"))

    def factory(agent_id, user_id):
        agent = TableAgent(agent_id, user_id)
        agent.guests = 3
        return agent

    for agents in ({"TableAgent": factory}, [("TableAgent", factory)]):
        result = await WorkflowExecutor(agents, manager).run(path, user_id="ada")
        assert result.outputs["a"]["table"] == "table for 3 on Monday"


async def test_a_secret_that_an_agent_keeps_while_it_waits_is_not_stored(manager, file, monkeypatch):
    monkeypatch.setenv("TRIP_KEY", "hunter2-hunter2")

    class Keyed(TableAgent):
        key = InputField("Which key?")

    path = file("steps: [{name: a, agent: Keyed, inputs: {key: '${env:TRIP_KEY}', day: 'on ${env:TRIP_KEY}'}}]")
    result = await WorkflowExecutor([Keyed], manager).run(path)
    assert result.waiting == {"a": "How many guests?"}
    kept = (await manager.load(result.checkpoint_id)).to_dict()
    assert "hunter2" not in str(kept)
    assert "on [env:TRIP_KEY]" in str(kept)

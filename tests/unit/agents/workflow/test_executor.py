"""A workflow runs as its file says: order, concurrency, conditions, retries, failures, and what is kept meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from holdfast import (
    CheckpointManager,
    InvalidArgument,
    InvalidWorkflow,
    MissingMethod,
    StepContext,
    StepStatus,
    WorkflowExecutor,
)
from tests.unit.agents.workflow.samples import Notes, states

TWO = """
    steps:
      - {name: search, agent: echo, inputs: {city: "${input.city}", hotels: [Alma, Rio]}}
      - {name: book, agent: echo, inputs: {hotel: "${search.output.hotels[1]}", text: "to ${search.output.city}"}}
"""


async def test_steps_run_one_after_the_other_and_give_their_outputs(manager, notes, file):
    result = await notes.executor(manager).run(file(TWO), inputs={"city": "Lisbon"})
    assert (result.status, result.ok, result.workflow) == ("COMPLETED", True, "trip")
    assert result.outputs == {
        "search": {"city": "Lisbon", "hotels": ["Alma", "Rio"]},
        "book": {"hotel": "Rio", "text": "to Lisbon"},
    }
    assert notes.done == ["search", "book"]
    assert (result.errors, result.skipped, result.waiting) == ({}, (), {})


async def test_a_beginning_and_an_end_are_each_in_a_checkpoint_of_the_run(manager, notes, file):
    result = await notes.executor(manager).run(file(TWO), inputs={"city": "Lisbon"}, user_id="ada")
    assert result.agent_id == f"trip/{result.run_id}"
    assert await states(manager, result.agent_id) == [
        ("RUNNING", ["search"], []),
        ("RUNNING", ["book"], ["search"]),  # one commit: nothing is begun before it
        ("COMPLETED", [], ["book"]),
    ]
    newest = await manager.latest(result.agent_id)
    assert (newest.kind, newest.agent_type, newest.user_id) == ("workflow", "Workflow", "ada")
    assert newest.id == result.checkpoint_id == result.checkpoint_ids[-1]
    assert newest.context_summary == "2 of 2 steps"
    assert len(result.checkpoint_ids) == 3


async def test_a_step_begins_only_after_what_it_needs_is_durable(manager, file):
    seen = []

    async def look(inputs, context):
        newest = await manager.latest(f"{context.workflow}/{context.run_id}")
        state = (await manager.load(newest.id)).state["steps"]
        seen.append({name: one["status"] for name, one in state.items()})

    await WorkflowExecutor([look], manager).run(file("steps: [{name: a, agent: look}, {name: b, agent: look}]"))
    assert seen == [{"a": "running", "b": "pending"}, {"a": "done", "b": "running"}]


async def test_independent_steps_run_at_the_same_time(manager, file):
    together = asyncio.Barrier(3)

    async def meet(inputs):
        await together.wait()

    steps = ", ".join(f"{{name: {name}, agent: meet, needs: []}}" for name in "abc")
    result = await WorkflowExecutor([meet], manager).run(file(f"steps: [{steps}]"))
    assert result.ok
    assert await states(manager, result.agent_id) == [
        ("RUNNING", ["a", "b", "c"], []), ("COMPLETED", [], ["a", "b", "c"]),
    ]  # fmt: skip


async def test_a_step_waits_for_all_that_it_needs(manager, notes, file):
    await notes.executor(manager).run(
        file("""
        steps:
          - {name: last, agent: echo, needs: [b, c]}
          - {name: b, agent: echo, needs: a}
          - {name: c, agent: echo, needs: [a]}
          - {name: a, agent: echo, needs: []}
        """)
    )
    assert notes.done == ["a", "b", "c", "last"]


async def test_a_condition_that_does_not_hold_skips_its_step_only(manager, notes, file):
    result = await notes.executor(manager).run(
        file("""
        steps:
          - {name: a, agent: echo, inputs: {n: 3}}
          - {name: b, agent: echo, when: "${a.output.n} > 5"}
          - {name: c, agent: echo, inputs: {b: "${b.output.n}", said: "${b.status}"}}
          - {name: d, agent: echo, when: "${b.status} == 'skipped'"}
        """)
    )
    assert notes.done == ["a", "c", "d"]
    assert result.skipped == ("b",)
    assert result.outputs["c"] == {"b": None, "said": "skipped"}
    assert result.steps == {"a": "done", "b": "skipped", "c": "done", "d": "done"}


async def test_a_failure_ends_the_workflow_and_lets_what_runs_come_to_its_end(manager, file):
    failed = asyncio.Event()

    async def broken(inputs):
        failed.set()
        raise ValueError("no such hotel")

    async def slow(inputs):
        await failed.wait()
        return "done all the same"

    result = await WorkflowExecutor([broken, slow], manager).run(
        file("""
        steps:
          - {name: a, agent: broken, needs: []}
          - {name: b, agent: slow, needs: []}
          - {name: c, agent: slow, needs: [b]}
        """)
    )
    assert (result.status, result.ok) == ("ERROR", False)
    assert result.errors == {"a": "ValueError: no such hotel"}
    assert result.outputs == {"b": "done all the same"}
    assert result.steps == {"a": "failed", "b": "done", "c": "pending"}


async def test_a_workflow_goes_on_after_a_failure_that_may_happen(manager, notes, file):
    notes.failures = 1
    result = await notes.executor(manager).run(
        file("""
        steps:
          - {name: a, agent: fail, on_error: continue}
          - {name: b, agent: echo, inputs: {a: "${a.output}", said: "${a.error}"}}
        """)
    )
    assert result.ok
    assert result.errors == {"a": "ConnectionError: no answer to {}"}
    assert result.outputs == {"b": {"a": None, "said": "ConnectionError: no answer to {}"}}


async def test_what_fails_is_tried_again_after_its_delay_with_the_same_key(manager, notes, file):
    notes.failures = 2
    result = await notes.executor(manager).run(
        file("steps: [{name: a, agent: fail, retry: {max_attempts: 3, delay_seconds: 1.5}}]")
    )
    assert result.outputs == {"a": "at last"}
    assert notes.naps == [1.5, 1.5]
    assert [(one.attempt, one.interrupted) for one in notes.contexts] == [(1, False), (2, False), (3, False)]
    assert {one.idempotency_key for one in notes.contexts} == {f"{result.agent_id}/a"}
    assert [status for status, *_ in await states(manager, result.agent_id)] == ["RUNNING"] * 5 + ["COMPLETED"]


async def test_the_last_attempt_that_fails_is_the_failure(manager, notes, file):
    notes.failures = 9
    result = await notes.executor(manager).run(file("steps: [{name: a, agent: fail, retry: {max_attempts: 2}}]"))
    assert (result.status, len(notes.contexts), notes.naps) == ("ERROR", 2, [])


async def test_a_failure_elsewhere_ends_the_rest_before_another_attempt(manager, file):
    resting = asyncio.Event()

    async def broken(inputs, context):
        if context.step == "b":
            await resting.wait()
        raise ValueError(context.step)

    async def rest(seconds):
        resting.set()
        await asyncio.Event().wait()

    result = await WorkflowExecutor([broken], manager, sleep=rest).run(
        file("""
        steps:
          - {name: a, agent: broken, needs: [], retry: {max_attempts: 2, delay_seconds: 60}}
          - {name: b, agent: broken, needs: []}
        """)
    )
    assert result.steps == {"a": "retrying", "b": "failed"}
    assert result.errors == {"a": "ValueError: a", "b": "ValueError: b"}


async def test_a_step_that_takes_too_long_fails(manager, notes, file):
    result = await notes.executor(manager).run(file("steps: [{name: a, agent: hang, timeout_seconds: 0.01}]"))
    assert result.errors == {"a": "TimeoutError: it took longer than 0.01 s"}


async def test_a_timeout_of_the_steps_own_is_told_as_such(manager, file):
    async def own(inputs):
        raise TimeoutError("the server is slow")

    result = await WorkflowExecutor([own], manager).run(file("steps: [{name: a, agent: own, timeout_seconds: 60}]"))
    assert result.errors == {"a": "TimeoutError: the server is slow"}


async def test_a_step_that_cancels_itself_has_failed(manager, file):
    async def gone(inputs):
        raise asyncio.CancelledError

    result = await WorkflowExecutor([gone], manager).run(file("steps: [{name: a, agent: gone}]"))
    assert result.status == "ERROR"


async def test_what_is_not_to_be_kept_goes_with_the_next_checkpoint(manager, notes, file):
    result = await notes.executor(manager).run(
        file("""
        workflow: {checkpoint: false}
        steps:
          - {name: a, agent: echo}
          - {name: b, agent: echo}
          - {name: c, agent: echo, checkpoint: true, inputs: {x: 1}}
          - {name: d, agent: echo}
          - {name: e, agent: echo}
        """)
    )
    assert await states(manager, result.agent_id) == [
        ("RUNNING", ["a"], []),  # the run itself
        ("RUNNING", ["c"], ["a", "b"]),
        ("RUNNING", ["d"], ["c"]),
        ("COMPLETED", [], ["d", "e"]),
    ]
    assert set((await manager.load(result.checkpoint_id)).state["steps"]["b"]) == {"status", "attempt", "output"}


async def test_an_output_is_kept_as_it_was_whatever_is_done_with_it_later(manager, file):
    given = {"hotels": ["Alma"]}

    async def give(inputs):
        return given

    async def spoil(inputs):
        inputs["hotels"].append("spoiled")
        given["hotels"].append("spoiled, too")

    result = await WorkflowExecutor([give, spoil], manager).run(
        file("steps: [{name: a, agent: give}, {name: b, agent: spoil, inputs: {hotels: '${a.output.hotels}'}}]")
    )
    assert result.outputs["a"] == {"hotels": ["Alma"]}


async def test_an_output_that_cannot_be_kept_is_a_failure_without_another_attempt(manager, file):
    calls = []

    async def odd(inputs):
        calls.append(1)
        return {"socket": object()}

    result = await WorkflowExecutor([odd], manager).run(
        file("steps: [{name: a, agent: odd, retry: {max_attempts: 3}}]")
    )
    assert len(calls) == 1
    assert result.errors["a"].startswith("UnknownValueType: output.socket ")


async def test_an_output_above_the_cap_is_a_failure_of_its_step(file):
    async def large(inputs):
        return "x" * 5_000

    manager = CheckpointManager(state_bytes_max=4_000, value_bytes_max=4_000)
    result = await WorkflowExecutor([large], manager).run(file("steps: [{name: a, agent: large}]"))
    assert (result.status, result.steps) == ("ERROR", {"a": "failed"})
    assert result.errors["a"].startswith("TooLarge: ")
    assert (await manager.latest(result.agent_id)).status == "ERROR"


async def test_nothing_is_built_on_an_output_that_could_not_be_kept(notes, file):
    async def large(inputs):
        return "x" * 5_000

    manager = CheckpointManager(state_bytes_max=4_000, value_bytes_max=4_000)
    result = await notes.executor(manager, large=large).run(
        file("""
        steps:
          - {name: a, agent: large, on_error: continue}
          - {name: b, agent: echo, inputs: {a: "${a.output}", said: "${a.status}"}}
        """)
    )
    assert (result.ok, result.outputs) == (True, {"b": {"a": None, "said": "failed"}})
    assert [(one.attempt, one.interrupted) for one in notes.contexts] == [(1, False)]


async def test_what_an_output_lacks_is_a_failure_of_the_step_that_asks_for_it(manager, notes, file):
    result = await notes.executor(manager).run(
        file("""
        steps:
          - {name: a, agent: echo, inputs: {n: 1}}
          - {name: b, agent: echo, inputs: {m: "${a.output.m}"}, on_error: continue}
          - {name: c, agent: echo, when: "${a.output.n} < 'x'"}
        """)
    )
    assert notes.done == ["a"]
    assert result.errors == {
        "b": "InvalidArgument: ${a.output.m}: there is no a.output.m",
        "c": "InvalidArgument: a number < a text: only two numbers or two texts have an order",
    }


async def test_what_is_missing_is_found_before_anything_runs(manager, notes, file, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    path = file("""
        steps:
          - {name: a, agent: echo, inputs: {x: "${input.x}"}}
          - {name: b, agent: echo, when: "${input.y.z}"}
          - {name: c, agent: echo, inputs: {key: "${env:NO_SUCH_KEY}"}}
    """)
    with pytest.raises(InvalidWorkflow) as caught:
        await notes.executor(manager).run(path, inputs={"y": {}})
    assert [str(problem) for problem in caught.value.problems] == [
        "line 3: a: ${input.x}: there is no input.x",
        "line 4: b: ${input.y.z}: there is no input.y.z",
        "line 5: c: ${env:NO_SUCH_KEY}: the environment has no NO_SUCH_KEY",
    ]
    assert caught.value.hint.startswith("Give the inputs")
    assert (notes.done, await manager.list_by_user("default")) == ([], [])


async def test_a_file_that_is_wrong_runs_nothing(manager, notes, file):
    path = file("steps: [{name: a, agent: echo}, {name: b, agent: ecko}]")
    with pytest.raises(InvalidWorkflow, match="there is no agent 'ecko'; did you mean echo"):
        await notes.executor(manager).run(path)
    assert notes.done == []


async def test_a_file_that_is_not_there_is_an_os_error(manager, notes, tmp_path):
    with pytest.raises(FileNotFoundError):
        await notes.executor(manager).run(tmp_path / "nowhere.yaml")


class Greeter:
    """An agent as a class."""

    async def run(self, inputs, context):
        assert isinstance(context, StepContext)
        return f"Hello {inputs['name']}, from {context.step}"


async def test_classes_functions_and_factories_do_steps(manager, file):
    async def shout(inputs):
        return inputs["text"].upper()

    path = file("""
        steps:
          - {name: a, agent: Greeter, inputs: {name: Ada}}
          - {name: b, agent: shout, inputs: {text: "${a.output}"}}
    """)
    result = await WorkflowExecutor([Greeter, shout], manager).run(path)
    assert result.outputs == {"a": "Hello Ada, from a", "b": "HELLO ADA, FROM A"}
    made = {"Greeter": partial(Greeter), "shout": shout}
    assert (await WorkflowExecutor(made, manager).run(path)).outputs == result.outputs


def test_what_can_do_no_step_is_refused_by_name():
    with pytest.raises(MissingMethod, match=r"Agent dict can't do a step: dict has no run\(inputs, context\)"):
        WorkflowExecutor([dict])
    with pytest.raises(InvalidArgument, match="has no name"):
        WorkflowExecutor([partial(Greeter)])
    with pytest.raises(InvalidArgument, match="two agents Greeter"):
        WorkflowExecutor([Greeter, type("Greeter", (Greeter,), {})])
    with pytest.raises(InvalidArgument, match="no class, factory or async function"):
        WorkflowExecutor({"a": 7})

    async def three(a, b, c): ...

    with pytest.raises(InvalidArgument, match=r"function of \(inputs\) or \(inputs, context\)"):
        WorkflowExecutor([three])


async def test_a_factory_of_what_can_do_no_step_fails_its_step(manager, file):
    result = await WorkflowExecutor({"odd": lambda: 7}, manager).run(file("steps: [{name: a, agent: odd}]"))
    assert result.errors["a"].startswith("MissingMethod: Agent odd can't do a step: int has no run")


async def test_progress_is_told_and_may_fail(manager, notes, file):
    notes.failures = 1
    path = file("steps: [{name: a, agent: fail, retry: {max_attempts: 2}}]")
    await notes.executor(manager).run(path)
    assert [(one.status, one.attempt) for one in notes.progress] == [
        (StepStatus.RUNNING, 1), (StepStatus.RETRYING, 1), (StepStatus.RUNNING, 2), (StepStatus.DONE, 2),
    ]  # fmt: skip

    def broken(told):
        raise RuntimeError("watcher")

    assert (await WorkflowExecutor({"fail": notes.fail}, manager, progress=broken).run(path)).ok


async def test_without_a_manager_it_runs_in_memory(notes, file):
    executor = WorkflowExecutor({"echo": notes.echo})
    result = await executor.run(file("steps: [{name: a, agent: echo}]"))
    assert (await executor.manager.load(result.checkpoint_id)).status == "COMPLETED"


async def test_a_scoped_manager_runs_for_its_user(notes, file):
    manager = CheckpointManager(user_id="ada")
    result = await notes.executor(manager).run(file("steps: [{name: a, agent: echo}]"))
    assert (await manager.load(result.checkpoint_id)).user_id == "ada"


async def test_a_large_workflow_comes_to_its_end(file):
    steps = "\n".join(
        f"  - {{name: s{n}, agent: echo, needs: [{f's{n - 20}' if n >= 20 else ''}]}}" for n in range(200)
    )
    notes = Notes()
    assert (await notes.executor().run(file(f"steps:\n{steps}"))).ok
    assert len(notes.done) == 200

"""A run goes on where it was: what is done is not done again, what was cut off is told so, what changed is noticed."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    CheckpointManager,
    InvalidArgument,
    OwnedElsewhere,
    SQLiteCheckpointStorage,
    StaleWriter,
    UnknownCheckpoint,
    WorkflowChanged,
    WrongAgent,
    WrongOwner,
)
from tests.unit.agents.workflow.samples import Notes, states
from tests.unit.durable.samples import Agent, ThreeMethods

FAILS_ONCE = """
    steps:
      - {name: a, agent: echo, inputs: {x: "${input.x}"}}
      - {name: b, agent: fail, inputs: {x: "${a.output.x}"}}
      - {name: c, agent: echo, inputs: {b: "${b.output}"}}
"""
HANGS = """
    steps:
      - {name: a, agent: echo, inputs: {x: 1}}
      - {name: b, agent: work, inputs: {x: "${a.output.x}"}}
"""


async def cut_off(executor, notes, path, **arguments):
    """Starts the workflow and cancels it while its agent hangs: what is stored is what a killed process leaves."""
    running = asyncio.ensure_future(executor.run(path, **arguments))
    await notes.hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_after_a_failure_the_rest_is_done(manager, notes, file):
    notes.failures = 1
    path = file(FAILS_ONCE)
    failed = await notes.executor(manager).run(path, inputs={"x": 7})
    assert (failed.status, notes.done) == ("ERROR", ["a", "b"])

    result = await notes.executor(manager).run(path, checkpoint_id=failed.checkpoint_id)
    assert notes.done == ["a", "b", "b", "c"]
    assert result.outputs == {"a": {"x": 7}, "b": "at last", "c": {"b": "at last"}}
    assert (result.run_id, result.errors) == (failed.run_id, {})
    assert (notes.contexts[2].attempt, notes.contexts[2].interrupted) == (2, False)


async def test_a_step_that_failed_has_all_its_attempts_again(manager, notes, file):
    path = file("steps: [{name: a, agent: fail, retry: {max_attempts: 2}}]")
    notes.failures = 3
    assert (await notes.executor(manager).run(path, run_id="r")).status == "ERROR"
    assert (await notes.executor(manager).run(path, run_id="r")).ok
    assert [one.attempt for one in notes.contexts] == [1, 2, 3, 4]


async def test_whether_a_step_is_wanted_is_decided_once(manager, notes, file, monkeypatch):
    monkeypatch.setenv("TRIP_MODE", "go")
    path = file("steps: [{name: a, agent: fail, when: \"${env:TRIP_MODE} == 'go'\"}]")
    notes.failures = 1
    assert (await notes.executor(manager).run(path, run_id="r")).status == "ERROR"
    monkeypatch.setenv("TRIP_MODE", "stay")
    assert (await notes.executor(manager).run(path, run_id="r")).steps == {"a": "done"}


async def test_what_another_did_before_the_run_was_taken_is_not_done_again(manager, notes, file):
    path = file(FAILS_ONCE)

    class Slow(CheckpointManager):
        """While it looks for the newest checkpoint, somebody else goes through the whole run."""

        async def latest(self, agent_id, kind=None):
            newest = await super().latest(agent_id, kind)
            if newest is None:
                await notes.executor(manager).run(path, {"x": 7}, run_id="r")
            return newest

    result = await notes.executor(Slow(manager.storage)).run(path, {"x": 7}, run_id="r")
    assert result.ok
    assert notes.done == ["a", "b", "c"]


async def test_a_finished_run_is_told_again_and_nothing_is_saved(manager, notes, file):
    path = file(FAILS_ONCE)
    first = await notes.executor(manager).run(path, inputs={"x": 7})
    again = await notes.executor(manager).run(path, checkpoint_id=first.checkpoint_id)
    assert (again.outputs, again.status, again.checkpoint_id) == (first.outputs, "COMPLETED", first.checkpoint_id)
    assert again.checkpoint_ids == ()
    assert notes.done == ["a", "b", "c"]
    assert len(await manager.list_by_agent(first.agent_id)) == len(first.checkpoint_ids)


async def test_a_step_that_was_cut_off_is_done_again_and_told_so(manager, notes, file):
    path = file(HANGS)
    await cut_off(notes.executor(manager, work=notes.hang), notes, path, run_id="nightly")
    newest = await manager.latest("trip/nightly")
    assert (newest.status, newest.metadata) == ("RUNNING", {"began": ["b"], "ended": ["a"]})

    result = await notes.executor(manager, work=notes.echo).run(path, run_id="nightly")
    assert result.outputs["b"] == {"x": 1}
    assert notes.done == ["a", "b", "b"]
    first, second = notes.contexts[1:]
    assert (first.attempt, first.interrupted, second.attempt, second.interrupted) == (1, False, 2, True)
    assert first.idempotency_key == second.idempotency_key == "trip/nightly/b"


async def test_that_a_step_was_cut_off_is_told_to_all_its_later_attempts(manager, notes, file):
    path = file(HANGS.replace("agent: work", "agent: work, retry: {max_attempts: 2}"))
    await cut_off(notes.executor(manager, work=notes.hang), notes, path, run_id="nightly")
    notes.failures = 1
    assert (await notes.executor(manager, work=notes.fail).run(path, run_id="nightly")).ok
    assert [(one.attempt, one.interrupted) for one in notes.contexts[1:]] == [(1, False), (2, True), (3, True)]


async def test_being_cut_off_is_no_failure(manager, notes, file):
    path = file(HANGS)
    for _ in range(3):
        notes.hanging.clear()
        await cut_off(notes.executor(manager, work=notes.hang), notes, path, run_id="nightly")
    assert (await notes.executor(manager, work=notes.echo).run(path, run_id="nightly")).ok


async def test_a_run_is_begun_once_and_then_gone_on_with(manager, notes, file):
    path = file(FAILS_ONCE)
    notes.failures = 1
    statuses = [(await notes.executor(manager).run(path, {"x": 7}, run_id="r1")).status for _ in range(3)]
    assert statuses == ["ERROR", "COMPLETED", "COMPLETED"]
    assert notes.done == ["a", "b", "b", "c"]


async def test_another_storage_object_goes_on(tmp_path, notes, file):
    path = file(FAILS_ONCE)
    notes.failures = 1
    async with CheckpointManager(SQLiteCheckpointStorage(tmp_path / "other.db")) as first:
        failed = await notes.executor(first).run(path, {"x": 7})
    async with CheckpointManager(SQLiteCheckpointStorage(tmp_path / "other.db")) as second:
        result = await notes.executor(second).run(path, checkpoint_id=failed.checkpoint_id)
    assert result.ok
    assert notes.done == ["a", "b", "b", "c"]


async def test_what_failed_and_was_passed_over_stays_so(manager, notes, file):
    notes.failures = 2
    path = file("""
        steps:
          - {name: a, agent: fail, on_error: continue}
          - {name: b, agent: fail}
    """)
    failed = await notes.executor(manager).run(path)
    result = await notes.executor(manager).run(path, checkpoint_id=failed.checkpoint_id)
    assert result.ok
    assert notes.done == ["a", "b", "b"]
    assert result.steps == {"a": "failed", "b": "done"}


async def test_going_on_from_an_older_checkpoint_is_another_way_with_keys_of_its_own(manager, notes, file):
    path = file(FAILS_ONCE)
    first = await notes.executor(manager).run(path, {"x": 7})
    older = first.checkpoint_ids[1]  # a is done, b began
    notes.contexts.clear()

    second = await notes.executor(manager).run(path, checkpoint_id=older)
    assert second.ok
    assert notes.done == ["b", "c"]
    assert [one.idempotency_key for one in notes.contexts] == [f"{first.agent_id}@{older}/{name}" for name in "bc"]
    branch = await manager.load(second.checkpoint_ids[0])
    assert branch.parent_checkpoint_id == older

    notes.contexts.clear()  # and the run goes on with the way that is newest
    assert (await notes.executor(manager).run(path, run_id=first.run_id)).checkpoint_id == second.checkpoint_id
    assert notes.done == []


async def test_a_fork_is_a_run_of_its_own(manager, notes, file):
    path = file(FAILS_ONCE)
    notes.failures = 1
    first = await notes.executor(manager).run(path, {"x": 7})
    await manager.fork(first.checkpoint_id, agent_id="trip/fork")
    notes.contexts.clear()
    result = await notes.executor(manager).run(path, run_id="fork")
    assert (result.ok, result.run_id) == (True, "fork")
    assert [one.idempotency_key for one in notes.contexts] == ["trip/fork/b", "trip/fork/c"]
    assert (await manager.latest(first.agent_id)).status == "ERROR"


async def test_a_file_that_changed_is_noticed_and_refused_unless_it_is_allowed(manager, notes, file):
    notes.failures = 1
    failed = await notes.executor(manager).run(file(FAILS_ONCE), {"x": 7})
    path = file(FAILS_ONCE.replace('{x: "${a.output.x}"}', "{x: 8}").replace("name: c", "name: d"))
    with pytest.raises(WorkflowChanged) as caught:
        await notes.executor(manager).run(path, checkpoint_id=failed.checkpoint_id)
    assert caught.value.steps == ("b", "c", "d")
    assert str(caught.value).endswith("step b was changed, c was removed, d was added")
    assert (caught.value.path, caught.value.checkpoint_id) == (str(path), failed.checkpoint_id)
    assert notes.done == ["a", "b"]

    result = await notes.executor(manager).run(path, checkpoint_id=failed.checkpoint_id, allow_changes=True)
    assert result.ok
    assert notes.done == ["a", "b", "b", "d"]
    again = await notes.executor(manager).run(path, checkpoint_id=result.checkpoint_id)  # it is the file now
    assert again.ok


async def test_a_step_that_is_added_to_a_finished_workflow_is_done(manager, notes, file):
    first = await notes.executor(manager).run(file("steps: [{name: a, agent: echo}]"))
    path = file("steps: [{name: a, agent: echo}, {name: b, agent: echo}]")
    assert (await notes.executor(manager).run(path, checkpoint_id=first.checkpoint_id, allow_changes=True)).ok
    assert notes.done == ["a", "b"]


async def test_other_inputs_are_refused_and_the_same_ones_are_not(manager, notes, file):
    notes.failures = 2
    path = file(FAILS_ONCE)
    failed = await notes.executor(manager).run(path, {"x": 7})
    with pytest.raises(InvalidArgument, match="began with other inputs"):
        await notes.executor(manager).run(path, {"x": 8}, failed.checkpoint_id)
    assert (await notes.executor(manager).run(path, {"x": 7}, failed.checkpoint_id)).status == "ERROR"


async def test_a_checkpoint_of_something_else_is_refused(manager, notes, file):
    path = file("steps: [{name: a, agent: echo}]")
    other = await notes.executor(manager).run(file("steps: [{name: a, agent: echo}]", "other.yaml"))
    manager.register(Agent)
    agents = await manager.save(Agent("trip/x", "default"))
    for checkpoint_id in (other.checkpoint_id, agents):
        with pytest.raises(WrongAgent):
            await notes.executor(manager).run(path, checkpoint_id=checkpoint_id)
    own = await notes.executor(manager).run(path, user_id="ada")
    with pytest.raises(WrongAgent):
        await notes.executor(manager).run(path, checkpoint_id=own.checkpoint_id, run_id="another")
    with pytest.raises(WrongOwner):
        await notes.executor(manager).run(path, checkpoint_id=own.checkpoint_id, user_id="bob")
    with pytest.raises(UnknownCheckpoint):
        await notes.executor(manager).run(path, checkpoint_id="chk_nowhere")
    with pytest.raises(InvalidArgument):
        await notes.executor(manager).run(path, run_id="a/b")
    with pytest.raises(InvalidArgument, match="does not wait for an answer"):
        await notes.executor(manager).run(path, checkpoint_id=own.checkpoint_id, answers={"a": "yes"})


async def test_one_run_is_gone_on_with_in_one_place_at_a_time(manager, notes, file):
    path = file(HANGS)
    running = asyncio.ensure_future(notes.executor(manager, work=notes.hang).run(path, run_id="nightly"))
    await notes.hanging.wait()
    with pytest.raises(OwnedElsewhere):
        await notes.executor(manager, work=notes.echo).run(path, run_id="nightly")
    other = CheckpointManager(manager.storage)
    with pytest.raises(OwnedElsewhere):
        await notes.executor(other, work=notes.echo).run(path, run_id="nightly")
    assert (await notes.executor(manager, work=notes.echo).run(path, run_id="weekly")).ok
    running.cancel()
    await asyncio.wait([running])
    assert (await notes.executor(manager, work=notes.echo).run(path, run_id="nightly")).ok


async def test_whoever_was_taken_over_begins_no_further_step(tmp_path, file):
    notes, release = Notes(), asyncio.Event()

    async def slow(inputs, context):
        notes.contexts.append(context)
        notes.hanging.set()
        await release.wait()

    path = file("steps: [{name: a, agent: slow}, {name: b, agent: slow}]")
    first = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "one.db"))
    second = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "one.db"))
    running = asyncio.ensure_future(notes.executor(first, slow=slow).run(path, run_id="r"))
    await notes.hanging.wait()
    with pytest.raises(OwnedElsewhere):
        await notes.executor(second, slow=notes.echo).run(path, run_id="r")
    assert (await notes.executor(second, slow=notes.echo).run(path, run_id="r", take_over=True)).ok
    release.set()
    with pytest.raises(StaleWriter):
        await running
    assert notes.done == ["a", "a", "b"]
    assert notes.contexts[1].interrupted
    await first.close()
    await second.close()


async def test_three_methods_are_enough_to_go_on(notes, file):
    manager = CheckpointManager(ThreeMethods())
    notes.failures = 1
    failed = await notes.executor(manager).run(file(FAILS_ONCE), {"x": 7})
    result = await notes.executor(manager).run(file(FAILS_ONCE), checkpoint_id=failed.checkpoint_id)
    assert result.ok
    assert notes.done == ["a", "b", "b", "c"]


async def test_a_checkpoint_of_a_run_can_be_restored_and_looked_at(manager, notes, file):
    result = await notes.executor(manager).run(file(FAILS_ONCE), {"x": 7})
    workflow = await manager.restore(result.checkpoint_id)
    assert (workflow.name, workflow.run_id, workflow.status) == ("trip", result.run_id, "COMPLETED")
    assert workflow.steps["b"].output == "at last"
    assert workflow.inputs == {"x": 7}


@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, (1, 2), b"raw", 1.5])
async def test_every_output_comes_back_as_it_was(manager, notes, file, output):
    async def give(inputs):
        return output

    path = file("steps: [{name: a, agent: give}, {name: b, agent: fail}]")
    notes.failures = 1
    failed = await notes.executor(manager, give=give).run(path)
    result = await notes.executor(manager, give=notes.hang).run(path, checkpoint_id=failed.checkpoint_id)
    assert result.outputs["a"] == output
    assert type(result.outputs["a"]) is type(output)


async def test_the_statuses_of_an_interrupted_run_are_in_its_checkpoints(manager, notes, file):
    path = file(FAILS_ONCE)
    notes.failures = 1
    failed = await notes.executor(manager).run(path, {"x": 7})
    await notes.executor(manager).run(path, checkpoint_id=failed.checkpoint_id)
    assert [status for status, *_ in await states(manager, failed.agent_id)] == [
        "RUNNING", "RUNNING", "ERROR", "RUNNING", "RUNNING", "COMPLETED",
    ]  # fmt: skip

"""What a dead process left goes on from the exact call, and no answer is asked for twice."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.durable.runs.journal import Journal
from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Unknown
from holdfast.durable.runs.tool import Tool
from holdfast.errors import OwnedElsewhere, UnknownRun
from holdfast.history.records import AssistantMessage, RlmToolCall, UserMessage
from holdfast.storage.protocol import Change
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.unit.durable.runs.conftest import Killed

LOOP = """
seen = []
for n in range(4):
    try:
        seen.append(step(n))
    except RuntimeError as error:
        seen.append(str(error))
print(len(seen))
seen
"""

DAMAGE = "UPDATE snapshots SET body = substr(body, 1, 30) || x'ff' || substr(body, 32)"


def types(records):
    return [record.type for record in records]


def stepping(calls, *, dies_at=None):
    """A tool that notes its calls, and dies in one of them."""

    def step(n: int) -> int:
        calls.append(n)
        if n == dies_at:
            raise Killed
        return n * 10

    return step


async def killed(runner, code, name="call_1", **options):
    with pytest.raises(Killed):
        await runner.run("a", code, name, **options)


async def test_a_call_without_a_result_is_an_error_in_the_program_and_all_others_keep_theirs(runner_with):
    calls = []
    await killed(runner_with(stepping(calls, dies_at=2)), LOOP)
    [result] = await runner_with(stepping(calls)).recover()
    assert result.output == [0, 10, "Process was restarted", 30]
    assert result.print_output == "4\n"
    assert result.recovered
    assert calls == [0, 1, 2, 3]
    assert await runner_with(stepping(calls)).recover() == []


async def test_one_run_is_recovered_by_its_name_and_the_others_stay(runner_with):
    for name in ("call_1", "call_2"):
        await killed(runner_with(stepping([], dies_at=2)), LOOP, name)
    [result] = await runner_with(stepping([])).recover(tool_call_id="call_2")
    assert result.tool_call_id == "call_2"
    [rest] = await runner_with(stepping([])).recover()
    assert rest.tool_call_id == "call_1"


async def test_the_records_of_a_recovered_run_go_on_where_they_stood(runner_with, store):
    await killed(runner_with(stepping([], dies_at=1)), LOOP)
    await runner_with(stepping([])).recover()
    records = await store.read("a")
    assert types(records) == [
        "rlm_start", "rlm_tool_call", "rlm_tool_result", "rlm_tool_call", "rlm_restart", "rlm_tool_result",
        "rlm_tool_call", "rlm_tool_result", "rlm_tool_call", "rlm_tool_result", "rlm_complete",
    ]  # fmt: skip
    assert records[5].tool_is_error
    assert records[5].tool_result == {"type": "RuntimeError", "message": "Process was restarted"}


async def test_running_the_same_name_again_recovers_it(runner_with):
    calls = []
    await killed(runner_with(stepping(calls, dies_at=2)), LOOP)
    result = await runner_with(stepping(calls)).run("a", LOOP, "call_1")
    assert result.output == [0, 10, "Process was restarted", 30]
    assert calls == [0, 1, 2, 3]


async def test_a_retried_tool_runs_again_under_the_same_call(runner_with, store):
    calls = []
    await killed(runner_with(Tool(stepping(calls, dies_at=2), on_restart="retry")), LOOP)
    [result] = await runner_with(Tool(stepping(calls), on_restart="retry")).recover()
    assert result.output == [0, 10, 20, 30]
    assert calls == [0, 1, 2, 2, 3]
    again = [r for r in await store.read("a") if isinstance(r, RlmToolCall) and r.tool_args == {"n": 2}]
    assert [record.attempt for record in again] == [None, 2]
    assert len({record.call_id for record in again}) == 1


@pytest.mark.parametrize(
    ("outcome", "told", "made"),
    [
        (Happened(99), [0, 10, 99, 30], [0, 1, 2, 3]),
        (DidNotHappen(), [0, 10, 20, 30], [0, 1, 2, 2, 3]),
        (Unknown(), [0, 10, "Process was restarted", 30], [0, 1, 2, 3]),
    ],
)
async def test_a_reconciled_tool_is_told_what_happened(runner_with, outcome, told, made):
    calls, asked = [], []

    async def reconcile(call):
        asked.append((call.tool_name, call.arguments, call.agent_id, call.attempt))
        return outcome

    def tool(**dying):
        return Tool(stepping(calls, **dying), on_restart="reconcile", reconcile=reconcile)

    await killed(runner_with(tool(dies_at=2)), LOOP)
    [result] = await runner_with(tool()).recover()
    assert (result.output, calls) == (told, made)
    assert asked == [("step", {"n": 2}, "a", 1)]


async def test_a_reconcile_that_fails_says_nothing(runner_with):
    def reconcile(call):
        raise ConnectionError("the ledger is away")

    calls = []
    await killed(runner_with(Tool(stepping(calls, dies_at=2), on_restart="reconcile", reconcile=reconcile)), LOOP)
    [result] = await runner_with(Tool(stepping(calls), on_restart="reconcile", reconcile=reconcile)).recover()
    assert result.output == [0, 10, "Process was restarted", 30]


async def test_a_run_that_made_no_call_is_not_run_again(runner_with, store):
    from holdfast.history.records import RlmStart

    await store.commit(Change(agent_id="a", user_id="default", records=(RlmStart(tool_call_id="call_1", code="1"),)))
    [result] = await runner_with().recover()
    assert result.is_error
    assert result.error == "Process was restarted before any tool call"
    assert types(await store.read("a")) == ["rlm_start", "rlm_restart", "rlm_complete"]


async def test_without_snapshots_the_run_is_replayed_from_its_beginning(runner_with, store):
    calls = []
    await killed(runner_with(stepping(calls, dies_at=3)), LOOP)
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))
    [result] = await runner_with(stepping(calls)).recover()
    assert result.output == [0, 10, 20, "Process was restarted"]
    assert calls == [0, 1, 2, 3]


async def test_a_damaged_snapshot_never_reaches_the_interpreter(runner_with, store, monkeypatch):
    calls, loaded = [], []
    await killed(runner_with(stepping(calls, dies_at=3)), LOOP)
    await store.write_side.alone(lambda session: session.db.execute(DAMAGE))
    from holdfast.durable.runs.interpreter import Interpreter

    original = Interpreter.restore
    monkeypatch.setattr(Interpreter, "restore", lambda *args: loaded.append(args) or original(*args))
    [result] = await runner_with(stepping(calls)).recover()
    assert result.output == [0, 10, 20, "Process was restarted"]
    assert loaded == []


async def test_a_snapshot_that_the_sandbox_refuses_is_passed_over(runner_with, monkeypatch):
    from holdfast.storage.sqlite import SQLiteCheckpointStorage

    calls = []
    await killed(runner_with(stepping(calls, dies_at=3)), LOOP)

    async def newer(self, agent_id, seq):
        return b"MONTY\0\xff\xff" + bytes(100)

    monkeypatch.setattr(SQLiteCheckpointStorage, "snapshot", newer)
    [result] = await runner_with(stepping(calls)).recover()
    assert result.output == [0, 10, 20, "Process was restarted"]


async def test_a_replay_that_diverges_is_parked_with_both_sides_shown(runner_with, store):
    code = "step(0)\nstep(1)"
    calls = []
    await killed(runner_with(stepping(calls, dies_at=1)), code)
    await store.write_side.alone(lambda session: session.db.execute("DELETE FROM snapshots"))
    from holdfast.durable.runs import drive

    # The record of the first call says something else than the program does.
    original = drive.Drive.__init__

    def altered(self, execution):
        execution.journal.log.calls[0] = execution.journal.log.calls[0].evolve(tool_args={"n": 77})
        original(self, execution)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drive.Drive, "__init__", altered)
        [result] = await runner_with(stepping(calls)).recover()
    assert result.status == "parked"
    assert "step(n=77)" in result.error
    assert "step(n=0)" in result.error
    assert calls == [0, 1], "a run that can't be repeated is neither guessed nor failed"
    [again] = await runner_with(stepping(calls)).recover()
    assert again.status == "parked"
    [forced] = await runner_with(stepping(calls)).recover(again=True)
    assert forced.status == "complete"


async def test_a_run_whose_tools_are_not_here_is_left_for_a_host_that_has_them(runner_with, store):
    await killed(runner_with(stepping([], dies_at=1)), LOOP)
    before = types(await store.read("a"))
    [left] = await runner_with().recover()
    assert left.status == "left"
    assert "step" in left.error
    assert types(await store.read("a")) == before
    [result] = await runner_with(stepping([])).recover()
    assert result.status == "complete"


@pytest.mark.parametrize("in_order", [False, True])
async def test_a_run_that_keeps_killing_its_host_is_parked(runner_with, tmp_path, monkeypatch, in_order):
    code = "while True:\n    try:\n        step(1)\n    except RuntimeError:\n        pass"
    calls = []
    if not in_order:  # whoever is killed lets go of nothing
        monkeypatch.setattr(Journal, "release", lambda self: asyncio.sleep(0))
    for _ in range(3):
        life = SQLiteCheckpointStorage(tmp_path / "store.db")
        await killed(runner_with(stepping(calls, dies_at=1), storage=life), code)
        await life.close()
    if in_order:
        await killed(runner_with(stepping(calls, dies_at=1)), code)
        assert calls == [1] * 4, "whoever cancels a run, or closes its runner, did not die of it"
        return
    [result] = await runner_with(stepping(calls, dies_at=1)).recover()
    assert result.status == "parked"
    assert "3 times" in result.error
    assert calls == [1] * 3


async def test_one_bad_run_does_not_keep_the_others_from_being_recovered(runner_with, store):
    await killed(runner_with(stepping([], dies_at=1)), LOOP, "bad")
    await killed(runner_with(stepping([], dies_at=1)), LOOP, "good")
    from holdfast.durable.runs.executor import Executor
    from holdfast.errors import Corrupt

    original = Executor.go_on

    async def failing(self, place, **options):
        if place.name == "bad":
            raise Corrupt("a record is damaged", agent_id="a")
        return await original(self, place, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "go_on", failing)
        outcomes = {result.tool_call_id: result.status for result in await runner_with(stepping([])).recover()}
    assert outcomes == {"bad": "parked", "good": "complete"}


async def test_a_run_of_a_live_process_is_refused_and_not_recovered(runner_with, tmp_path, store):
    from holdfast.storage.sqlite import SQLiteCheckpointStorage

    elsewhere = SQLiteCheckpointStorage(tmp_path / "store.db")
    refused = []

    async def step(n: int) -> int:
        other = runner_with(step, storage=elsewhere)
        with pytest.raises(OwnedElsewhere):
            await other.run("a", code, "call_1")
        refused.append(await other.recover())
        return n

    code = "await step(1)"
    assert (await runner_with(step).run("a", code, "call_1")).output == 1
    assert refused == [[]]
    await elsewhere.close()


async def test_a_recovered_run_of_an_assistant_message_tells_the_model(runner_with, store):
    asked = AssistantMessage(content="", tool_calls=[{"id": "call_1", "name": "run_python", "arguments": {}}])
    await store.commit(Change(agent_id="a", user_id="default", records=(UserMessage(content="go"), asked)))
    await killed(runner_with(stepping([], dies_at=3)), LOOP)
    await runner_with(stepping([])).recover()
    complete, answer, message = (await store.read("a"))[-3:]
    assert types([complete, answer, message]) == ["rlm_complete", "tool_result", "user_message"]
    assert answer.tool_call_id == "call_1"
    assert message.origin == "rlm_restore"
    assert message.content.startswith('<system_message origin="rlm_restore">')
    assert message.content.endswith("</system_message>")
    assert "Process was restarted" in message.content
    assert len({record.at for record in (complete, answer, message)}) == 1, "one commit"


async def test_a_sandbox_that_is_killed_is_replaced_and_the_run_goes_on(runner_with):
    calls = []

    def step(n: int) -> int:
        calls.append(n)
        if n in (1, 2):
            for seat in runner._executor.seats._made:
                seat.kill()
        return n * 10

    runner = runner_with(step)
    assert (await runner.run("a", LOOP, "call_1")).output == [0, 10, 20, 30]
    assert calls == [0, 1, 2, 3]


async def test_a_sandbox_that_crashes_again_and_again_fails_the_run(runner_with):
    def step(n: int) -> int:
        for seat in runner._executor.seats._made:
            seat.kill()
        if fails:
            raise ValueError(n)
        return n

    code = "for n in range(10):\n    try:\n        step(n)\n    except ValueError:\n        pass\n'over'"
    fails = True
    runner = runner_with(step)
    result = await runner.run("a", code, "call_1")
    assert result.is_error
    assert "crashed 3 times" in result.error
    fails = False
    assert (await runner.run("a", code, "call_2")).output == "over", "a tool's success begins the count anew"


async def test_the_owner_of_an_agent_goes_on_with_a_run_that_recover_leaves_alone(store, runner_with):
    died = []

    def act() -> str:
        if not died:
            died.append(1)
            raise Killed
        return "done"

    with pytest.raises(Killed):
        await runner_with(Tool(act, on_restart="retry")).run("a", "act()", "call_1")
    runner = runner_with(Tool(act, on_restart="retry"))
    await store.commit(Change(agent_id="a", user_id="default", hold=True))
    assert await runner.recover() == []
    assert (await runner.go_on("a", "call_1")).output == "done"
    assert (await runner.go_on("a", "call_1")).output == "done"  # as it is recorded
    with pytest.raises(UnknownRun):
        await runner.go_on("a", "call_2")


@pytest.mark.parametrize("choice", ["retry", "reconcile"])
async def test_a_call_whose_secrets_are_gone_is_not_made_again_without_them(runner_with, choice):
    seen = []

    async def login(name: str, password: str) -> str:
        seen.append(password)
        if len(seen) == 1:
            raise Killed
        return name

    reconcile = (lambda call: DidNotHappen()) if choice == "reconcile" else None
    tool = Tool(login, on_restart=choice, reconcile=reconcile)
    code = "try:\n    x = await login('a', password='s3cret')\nexcept RuntimeError as error:\n    x = str(error)\nx"
    await killed(runner_with(tool, type_check=False), code)
    [result] = await runner_with(tool, type_check=False).recover()
    assert result.output == "Process was restarted"
    assert seen == ["s3cret"]

"""What a full store promises about order: numbers, rewinds, what is pending, inboxes."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

from typing import Any, Final

import pytest

from holdfast.errors import UnknownValueType, WrongOwner
from holdfast.history.fold import live_path
from holdfast.history.records import (
    AssistantMessage,
    CheckpointDeleted,
    CheckpointSaved,
    Record,
    Rewind,
    RlmComplete,
    RlmRestart,
    RlmStart,
    RlmToolCall,
    RlmToolResult,
    ToolApproval,
    ToolCall,
    ToolResult,
    UserMessage,
)
from holdfast.storage.heads import digest_of
from holdfast.storage.protocol import Change, Outgoing, Query
from holdfast.testing.samples import FullStore, commit, continued, save, saving

CALL: Final[dict[str, Any]] = {"id": "call", "name": "run_python", "arguments": {"code": "1"}}
RECORDS: Final[tuple[Record, ...]] = (
    UserMessage(content="hello", session="s"),
    AssistantMessage(content="", tool_calls=[CALL], model="m", usage={"input_tokens": 3}, details={"parts": [{}]}),
    ToolApproval(tool_call_id="call", decision="approved", reason="why not"),
    ToolCall(tool_call_id="call", tool_name="fetch", attempt=1),
    RlmStart(tool_call_id="call", code="fetch(1)", preamble="x = 1", feed=2),
    RlmToolCall(
        tool_call_id="call",
        call_id=1,
        snapshot=b"\x00" * 5000,
        print_output="",
        tool_call_count=1,
        tool_name="fetch",
        tool_args=[1, ("a",)],
        os_answers=[["now", 1.5]],
    ),
    RlmToolResult(tool_call_id="call", call_id=1, tool_name="fetch", tool_result={"exact": (1, b"")}, attempt=2),
    RlmRestart(tool_call_id="call", attempt=1, reason="killed"),
    RlmComplete(tool_call_id="call", output=(1, 2), print_output="done", tool_call_count=1, snapshot=b"\x01" * 5000),
    ToolResult(tool_call_id="call", content="(1, 2)"),
    UserMessage(content="restored", origin="rlm_restore"),
)


def begun(name: str = "run") -> RlmStart:
    return RlmStart(tool_call_id=name, code="1")


def ended(name: str = "run") -> RlmComplete:
    return RlmComplete(tool_call_id=name, output=1, print_output="", tool_call_count=0)


class HistoryClaims:
    """A history is numbered without gaps, never changes, and what counts of it is a fold."""

    # --- records and numbers

    async def test_records_come_back_as_they_were_numbered_from_one(self, storage: FullStore) -> None:
        done = await commit(storage, records=RECORDS)
        assert (done.first_seq, done.last_seq) == (1, len(RECORDS))
        read = await storage.read("agent")
        assert [record.seq for record in read] == list(range(1, len(RECORDS) + 1))
        assert all(record.at is not None and record.at.tzinfo is not None for record in read)
        assert [record.evolve(seq=0, at=None) for record in read] == list(RECORDS)

    async def test_reading_goes_on_after_a_number(self, storage: FullStore) -> None:
        await commit(storage, records=RECORDS)
        assert [record.seq for record in await storage.read("agent", after=3, limit=2)] == [4, 5]
        assert [record.seq for record in await storage.read("agent", after=len(RECORDS) - 1)] == [len(RECORDS)]
        assert await storage.read("agent", after=100) == []
        assert await storage.read("unknown") == []

    async def test_one_commit_has_one_number_and_numbers_only_grow(self, storage: FullStore) -> None:
        one, two = await storage.commit(saving("one"), saving("two"))
        later = await save(storage, "one")
        assert one.commit_number == two.commit_number < later.commit_number
        assert later.position == 2
        listed = await storage.list(Query())
        assert [each.commit_number for each in listed] == [later.commit_number, two.commit_number, one.commit_number]

    async def test_results_are_in_the_order_of_the_changes(self, storage: FullStore) -> None:
        done = await storage.commit(saving("z"), saving("a"), Change(agent_id="m", user_id="user", records=RECORDS))
        assert [each.agent_id for each in done] == ["z", "a", "m"]
        assert [each.last_seq for each in done] == [1, 1, len(RECORDS)]

    async def test_a_checkpoints_record_binds_its_content(self, storage: FullStore) -> None:
        saved = await save(storage, state={"a": (1,)}, metadata={"label": "x"}, kind="routine")
        await commit(storage, pin={saved.id: True})
        [record] = await storage.read("agent")
        found = await storage.fetch(saved.id)
        assert isinstance(record, CheckpointSaved)
        assert found is not None
        assert (record.id, record.kind, record.parent) == (saved.id, "routine", None)
        assert record.digest == digest_of(*found)

    # --- the live path

    async def test_going_on_from_the_newest_writes_no_rewind(self, storage: FullStore) -> None:
        first = await save(storage)
        second = await save(storage, parent=first.id)
        third = await continued(storage)
        assert (second.parent_checkpoint_id, third.parent_checkpoint_id) == (first.id, second.id)
        assert [type(record) for record in await storage.read("agent")] == [CheckpointSaved] * 3

    async def test_going_on_from_an_older_one_writes_a_rewind_first(self, storage: FullStore) -> None:
        first = await save(storage)
        await commit(storage, records=RECORDS[:2])
        await continued(storage)
        [done] = await storage.commit(saving(parent=first.id, records=(RECORDS[0],)))
        records = await storage.read("agent")
        assert [type(record) for record in records[done.first_seq - 1 :]] == [Rewind, UserMessage, CheckpointSaved]
        assert records[done.first_seq - 1] == Rewind(to=1, seq=5, at=records[4].at)
        assert [record.seq for record in live_path(records)] == [1, 6, 7]
        assert done.last_seq == 7
        branch = await continued(storage)
        assert done.checkpoint is not None
        assert branch.parent_checkpoint_id == done.checkpoint.id

    async def test_a_rewind_among_the_records_decides_what_the_newest_is(self, storage: FullStore) -> None:
        """Whoever restores and writes records first rewinds by himself; his next checkpoint must not rewind again."""
        first = await save(storage)
        await continued(storage)
        await commit(storage, records=(Rewind(to=first.position), RECORDS[0]))
        info = await storage.agent("agent")
        assert info is not None
        assert info.tip == first.id
        branch = await save(storage, parent=first.id)
        assert branch.position == 5, "a second rewind would have dropped the record before it"
        assert [record.seq for record in live_path(await storage.read("agent"))] == [1, 4, 5]

    async def test_a_parent_of_another_agent_rewinds_nothing(self, storage: FullStore) -> None:
        elsewhere = await save(storage, "other")
        await save(storage)
        saved = await save(storage, parent=elsewhere.id)
        assert saved.parent_checkpoint_id == elsewhere.id
        assert [type(record) for record in await storage.read("agent")] == [CheckpointSaved] * 2

    async def test_going_on_from_a_deleted_newest_rewinds_nothing(self, storage: FullStore) -> None:
        first = await save(storage)
        operation = await save(storage, parent=first.id, kind="pre_operation")
        await commit(storage, records=RECORDS[:1])
        await commit(storage, delete=(operation.id,))
        saved = await save(storage, parent=operation.id)
        types = [type(record) for record in await storage.read("agent")]
        assert types == [CheckpointSaved, CheckpointSaved, UserMessage, CheckpointDeleted, CheckpointSaved]
        assert saved.parent_checkpoint_id == operation.id

    # --- what is pending

    async def test_a_run_is_pending_until_it_is_complete(self, storage: FullStore) -> None:
        started = await commit(storage, records=(begun("one"), begun("two")), hold=True)
        assert [(one.what, one.name, one.agent_id, one.user_id, one.seq) for one in await storage.pending("run")] == [
            ("run", "one", "agent", "user", 1),
            ("run", "two", "agent", "user", 2),
        ]
        assert all(one.owner_alive for one in await storage.pending("run"))
        await commit(storage, records=(ended("one"),), epoch=started.epoch)
        [left] = await storage.pending("run")
        assert (left.name, left.owner_alive) == ("two", False)
        await commit(storage, records=(ended("two"),))
        assert await storage.pending("run") == []

    async def test_a_run_begun_again_is_pending_once(self, storage: FullStore) -> None:
        await commit(storage, records=(begun(),))
        await commit(storage, records=(begun(),))
        assert [(one.name, one.seq) for one in await storage.pending("run")] == [("run", 2)]
        await commit(storage, records=(ended(),))
        assert await storage.pending("run") == []

    async def test_an_operation_is_pending_until_its_checkpoint_is_deleted(self, storage: FullStore) -> None:
        saved = await save(storage, kind="pre_operation", operation="deploy")
        [pending] = await storage.pending("operation")
        assert (pending.name, pending.seq) == (saved.id, saved.position)
        assert await storage.pending("run") == []
        await commit(storage, delete=(saved.id,))
        assert await storage.pending("operation") == []

    async def test_pending_is_asked_for_by_user_and_agent(self, storage: FullStore) -> None:
        await commit(storage, "one", records=(begun(),))
        await commit(storage, "two", user_id="them", records=(begun(),))
        assert [one.agent_id for one in await storage.pending("run", user_id="them")] == ["two"]
        assert [one.agent_id for one in await storage.pending("run", agent_id="one")] == ["one"]
        assert await storage.pending("run", user_id="user", agent_id="two") == []

    async def test_what_was_begun_after_a_rewind_is_no_longer_pending(self, storage: FullStore) -> None:
        first = await save(storage)
        await commit(storage, records=(begun(),))
        await save(storage, parent=first.id, kind="pre_operation")
        assert await storage.pending("run") != []
        last = await save(storage, parent=first.id)
        assert last.position == 5
        assert await storage.pending("run") == []
        assert await storage.pending("operation") == []

    async def test_a_run_whose_end_was_rewound_is_pending_again(self, storage: FullStore) -> None:
        await commit(storage, records=(begun(),))
        during = await save(storage)
        await commit(storage, records=(ended(),))
        await continued(storage)
        assert await storage.pending("run") == []
        await save(storage, parent=during.id)
        assert [one.name for one in await storage.pending("run")] == ["run"]

    async def test_a_finished_operation_stays_finished_after_a_rewind(self, storage: FullStore) -> None:
        """Its checkpoint is gone whatever path counts now."""
        await commit(storage, records=(begun(), ended()))
        operation = await save(storage, kind="pre_operation")
        during = await continued(storage)
        await commit(storage, delete=(operation.id,))
        await continued(storage)
        await save(storage, parent=during.id)
        assert await storage.pending("operation") == []

    # --- inboxes

    async def test_an_inbox_is_read_in_order_until_acknowledged(self, storage: FullStore) -> None:
        numbers = [await storage.send("agent", "user", {"n": (n,)}, sender="me") for n in range(3)]
        assert numbers == [1, 2, 3]
        inbox = await storage.inbox("agent")
        assert [(message.number, message.sender, message.content) for message in inbox] == [
            (n + 1, "me", {"n": (n,)}) for n in range(3)
        ]
        assert all(message.at.tzinfo is not None for message in inbox)
        await commit(storage, acknowledge=2)
        assert [message.number for message in await storage.inbox("agent")] == [3]
        info = await storage.agent("agent")
        assert info is not None
        assert (info.inbox_last, info.inbox_acknowledged) == (3, 2)
        assert await storage.send("agent", "user", "next", sender="me") == 4
        assert [message.number for message in await storage.inbox("agent", limit=1)] == [3]
        assert await storage.inbox("unknown") == []

    async def test_acknowledging_goes_neither_back_nor_ahead(self, storage: FullStore) -> None:
        for _ in range(2):
            await storage.send("agent", "user", "hello", sender="me")
        await commit(storage, acknowledge=100)
        assert await storage.send("agent", "user", "new", sender="me") == 3
        await commit(storage, acknowledge=1)
        assert [message.number for message in await storage.inbox("agent")] == [3]

    async def test_a_message_that_cant_be_kept_is_refused_by_its_path(self, storage: FullStore) -> None:
        with pytest.raises(UnknownValueType):
            await storage.send("agent", "user", {"it": object()}, sender="me")
        assert await storage.inbox("agent") == []

    async def test_a_message_does_not_need_the_agents_ownership(self, storage: FullStore) -> None:
        held = await commit(storage, records=RECORDS[:1], hold=True)
        await storage.send("agent", "user", "hello", sender="me")
        await commit(storage, records=RECORDS[:1], epoch=held.epoch, acknowledge=1)
        assert await storage.inbox("agent") == []

    async def test_a_change_sends_in_its_own_commit(self, storage: FullStore) -> None:
        sent = tuple(
            Outgoing(to=to, user_id="user", content=[to], sender="agent") for to in ("other", "agent", "other")
        )
        saved = await save(storage, send=sent)
        for agent_id, count in (("agent", 1), ("other", 2)):
            inbox = await storage.inbox(agent_id)
            assert [(one.number, one.sender, one.content) for one in inbox] == [
                (number, "agent", [agent_id]) for number in range(1, count + 1)
            ]
        assert [one.id for one in await storage.list(Query())] == [saved.id]
        await commit(storage, send=sent[:1])  # the commit numbers of later ones go on
        assert (await continued(storage)).commit_number > saved.commit_number
        assert len(await storage.inbox("other")) == 3
        assert (await storage.verify()).ok

    async def test_a_commit_that_cant_send_everything_does_nothing(self, storage: FullStore) -> None:
        await save(storage, "theirs", user_id="them")
        mine = Outgoing(to="mine", user_id="user", content=1, sender="agent")
        for refused, error in (
            (Outgoing(to="theirs", user_id="user", content=1, sender="agent"), WrongOwner),
            (Outgoing(to="mine", user_id="them", content=1, sender="agent"), WrongOwner),
            (Outgoing(to="mine", user_id="user", content=object(), sender="agent"), UnknownValueType),
        ):
            with pytest.raises(error):
                await commit(storage, records=RECORDS[:1], send=(mine, refused))
            assert [info.agent_id for info in await storage.agents()] == ["theirs"]
            assert await storage.inbox("mine") == []
        await commit(storage, send=(mine,))
        assert len(await storage.inbox("mine")) == 1

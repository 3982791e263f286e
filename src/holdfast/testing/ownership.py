"""What a full store promises about who may write: owners, epochs, users, and nothing of a refused commit."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from holdfast.errors import DuplicateId, InvalidArgument, Moved, OwnedElsewhere, StaleWriter, WrongOwner
from holdfast.history.records import UserMessage
from holdfast.storage.protocol import Change, Query
from holdfast.testing.samples import FullStore, commit, continued, save, saving

HELLO = UserMessage(content="hello")


class OwnershipClaims:
    """Set `multi_process` when two open objects of the store are two writers, as two processes would be."""

    multi_process: ClassVar[bool] = True

    @pytest.fixture
    def other(self, open_store: Callable[[], FullStore], storage: FullStore) -> FullStore:
        """Another writer of the same store; `storage` was opened before it."""
        if not self.multi_process:
            pytest.skip("this store has one writer only")
        return open_store()

    # --- operations of one writer

    async def test_an_operation_owns_the_agent_from_its_first_commit_to_its_last(self, storage: FullStore) -> None:
        begun = await commit(storage, records=(HELLO,), hold=True)
        during = await storage.agent("agent")
        assert during is not None
        assert (during.epoch, during.owner_alive) == (begun.epoch, True)
        assert during.owner is not None
        await commit(storage, records=(HELLO,), epoch=begun.epoch, hold=True)
        await commit(storage, records=(HELLO,), epoch=begun.epoch)
        after = await storage.agent("agent")
        assert after is not None
        assert (after.owner, after.owner_alive, after.epoch) == (None, False, begun.epoch)

    async def test_a_checkpoint_that_must_follow_the_newest_is_refused_when_there_is_a_newer_one(
        self, storage: FullStore
    ) -> None:
        first = await save(storage, only_newest=True)
        second = await continued(storage)
        before = await storage.agent("agent")
        for hold in (False, True):
            with pytest.raises(StaleWriter) as refused:
                await save(storage, parent=first.id, only_newest=True, hold=hold)
            assert refused.value.checkpoint_id == second.id
        with pytest.raises(StaleWriter):
            await save(storage, only_newest=True)
        assert await storage.agent("agent") == before
        assert (await save(storage, parent=second.id, only_newest=True)).parent_checkpoint_id == second.id

    async def test_each_operation_has_a_higher_epoch(self, storage: FullStore) -> None:
        first = await commit(storage, hold=True)
        await commit(storage, epoch=first.epoch)
        second = await commit(storage, hold=True)
        assert second.epoch > first.epoch >= 1

    async def test_an_operation_that_ended_may_not_write(self, storage: FullStore) -> None:
        begun = await commit(storage, records=(HELLO,), hold=True)
        await commit(storage, epoch=begun.epoch)
        with pytest.raises(StaleWriter) as refused:
            await commit(storage, records=(HELLO,), epoch=begun.epoch)
        assert (refused.value.agent_id, refused.value.epoch) == ("agent", begun.epoch)
        await commit(storage, hold=True)
        with pytest.raises(StaleWriter):
            await commit(storage, records=(HELLO,), epoch=begun.epoch)
        assert len(await storage.read("agent")) == 1

    async def test_an_epoch_that_never_was_may_not_write(self, storage: FullStore) -> None:
        with pytest.raises(StaleWriter):
            await commit(storage, records=(HELLO,), epoch=7)
        assert await storage.agent("agent") is None

    async def test_a_save_within_a_run_does_not_end_the_run(self, storage: FullStore) -> None:
        run = await commit(storage, records=(HELLO,), hold=True)
        await continued(storage)
        await commit(storage, records=(HELLO,), epoch=run.epoch, hold=True)
        during = await storage.agent("agent")
        assert during is not None
        assert during.owner_alive

    async def test_the_first_of_two_joined_operations_to_end_does_not_end_the_other(self, storage: FullStore) -> None:
        one = await commit(storage, hold=True)
        two = await commit(storage, hold=True)
        await commit(storage, records=(HELLO,), epoch=one.epoch)
        await commit(storage, records=(HELLO,), epoch=two.epoch, hold=True)
        await commit(storage, records=(HELLO,), epoch=two.epoch)
        after = await storage.agent("agent")
        assert after is not None
        assert after.owner is None

    async def test_a_change_can_depend_on_what_was_read(self, storage: FullStore) -> None:
        begun = await commit(storage, records=(HELLO,), after=0)
        await commit(storage, records=(HELLO,), after=begun.last_seq)
        for stale in (0, begun.last_seq, begun.last_seq + 2):
            with pytest.raises(Moved) as refused:
                await commit(storage, records=(HELLO,), after=stale, hold=True)
            assert (refused.value.agent_id, refused.value.seq) == ("agent", begun.last_seq + 1)
        with pytest.raises(Moved):
            await commit(storage, agent_id="unknown", records=(HELLO,), after=1)
        after = await storage.agent("agent")
        assert after is not None
        assert (after.owner, len(await storage.read("agent"))) == (None, 2), "a refused change takes nothing"

    # --- two writers

    async def test_a_live_owner_keeps_others_out(self, storage: FullStore, other: FullStore) -> None:
        begun = await commit(storage, records=(HELLO,), hold=True)
        with pytest.raises(OwnedElsewhere) as refused:
            await commit(other, records=(HELLO,))
        assert (refused.value.agent_id, refused.value.epoch) == ("agent", begun.epoch)
        assert len(await other.read("agent")) == 1
        await commit(storage, epoch=begun.epoch)
        await commit(other, records=(HELLO,))
        await other.close()

    async def test_reading_deleting_and_pinning_need_no_ownership(self, storage: FullStore, other: FullStore) -> None:
        first = await save(storage)
        second = await save(storage, parent=first.id, hold=True)
        assert await other.fetch(second.id) is not None
        assert len(await other.list(Query(agent_id="agent"))) == 2
        done = await commit(other, delete=(first.id,), pin={second.id: True})
        assert done.deleted == 1
        during = await other.agent("agent")
        assert during is not None
        assert during.owner_alive
        await other.close()

    async def test_who_was_taken_over_writes_no_more(self, storage: FullStore, other: FullStore) -> None:
        begun = await commit(storage, records=(HELLO,), hold=True)
        taken = await commit(other, records=(HELLO,), hold=True, take_over=True)
        assert taken.epoch > begun.epoch
        with pytest.raises(StaleWriter):
            await commit(storage, records=(HELLO,), epoch=begun.epoch)
        with pytest.raises(OwnedElsewhere):
            await commit(storage, records=(HELLO,))
        await commit(other, records=(HELLO,), epoch=taken.epoch)
        assert len(await storage.read("agent")) == 3
        await commit(storage, records=(HELLO,))
        await other.close()

    async def test_a_dead_owner_is_taken_over_at_once(self, storage: FullStore, other: FullStore) -> None:
        begun = await commit(other, records=(HELLO,), hold=True)
        await other.close()
        left = await storage.agent("agent")
        assert left is not None
        assert left.owner is not None
        assert not left.owner_alive
        taken = await commit(storage, records=(HELLO,), hold=True)
        assert taken.epoch > begun.epoch

    # --- users

    async def test_an_agent_belongs_to_the_user_of_its_first_write(self, storage: FullStore) -> None:
        mine = await save(storage, user_id="me")
        for attempt in (
            saving(user_id="them"),
            Change(agent_id="agent", user_id="them", delete=(mine.id,)),
            Change(agent_id="agent", user_id="them", pin={mine.id: True}),
            Change(agent_id="agent", user_id="them", erase=True),
        ):
            with pytest.raises(WrongOwner) as refused:
                await storage.commit(attempt)
            assert (refused.value.agent_id, refused.value.user_id) == ("agent", "them")
        with pytest.raises(WrongOwner):
            await storage.send("agent", "them", "hello", sender="them")
        position = await storage.position(mine.id)
        assert position == mine

    # --- all or nothing

    async def test_of_a_refused_commit_nothing_is_left(self, storage: FullStore) -> None:
        await save(storage, "theirs", user_id="them")
        kept = await save(storage, "mine")
        await storage.send("mine", "user", "hello", sender="me")
        before = [await storage.agents(), await storage.list(Query()), await storage.read("mine")]
        with pytest.raises(WrongOwner):
            await storage.commit(
                saving("mine", delete=(kept.id,), acknowledge=1, hold=True), saving("new"), saving("theirs")
            )
        assert [await storage.agents(), await storage.list(Query()), await storage.read("mine")] == before
        assert len(await storage.inbox("mine")) == 1
        assert await storage.agent("new") is None
        await continued(storage, "mine")

    async def test_an_id_is_given_once(self, storage: FullStore) -> None:
        taken = await save(storage, state={"kept": True})
        for agent_id in ("agent", "other"):
            with pytest.raises(DuplicateId) as refused:
                await storage.commit(saving(agent_id, id=taken.id))
            assert refused.value.checkpoint_id == taken.id
        with pytest.raises(DuplicateId):
            await storage.commit(saving("one", id="chk_same"), saving("two", id="chk_same"))
        found = await storage.fetch(taken.id)
        assert found is not None
        assert found[1].decode() == {"kept": True}
        assert [info.agent_id for info in await storage.agents()] == ["agent"]

    async def test_a_deleted_checkpoints_id_stays_its_agents(self, storage: FullStore) -> None:
        taken = await save(storage)
        await commit(storage, delete=(taken.id,))
        with pytest.raises(DuplicateId):
            await storage.commit(saving("other", id=taken.id))
        again = await continued(storage, id=taken.id, state={"again": True})
        found = await storage.fetch(again.id)
        assert found is not None
        assert found[1].decode() == {"again": True}
        await commit(storage, erase=True)
        assert await storage.position(taken.id) is None
        assert (await save(storage, "other", id=taken.id)).agent_id == "other"

    async def test_a_commit_changes_an_agent_once(self, storage: FullStore) -> None:
        with pytest.raises(InvalidArgument):
            await storage.commit(saving(), saving())
        assert await storage.agents() == []

    async def test_an_unknown_kind_is_refused(self, storage: FullStore) -> None:
        with pytest.raises(InvalidArgument):
            await storage.commit(saving(kind="sometimes"))
        assert await storage.list(Query()) == []

    async def test_a_commit_that_finds_nothing_to_do_makes_no_agent(self, storage: FullStore) -> None:
        done = await commit(storage, delete=("chk_unknown",), pin={"chk_unknown": True})
        assert done.deleted == 0
        assert await storage.agents() == []
        await commit(storage, erase=True)
        assert await storage.agents() == []
        await save(storage, user_id="somebody else")

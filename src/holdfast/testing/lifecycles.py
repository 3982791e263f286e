"""What a full store promises about ends and beginnings: deletions, pins, forks, groups, erased agents."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

import pytest

from holdfast.errors import DuplicateId, UnknownCheckpoint, WrongOwner
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, UserMessage
from holdfast.storage.protocol import Query
from holdfast.testing.samples import FullStore, commit, continued, save, saving


def growing(turns: int) -> dict[str, object]:
    """The state of a conversation: each is a beginning of the next, as stores expect it."""
    return {"turn": turns, "messages": [{"role": "user", "content": f"message {turn} " * 5} for turn in range(turns)]}


async def state_of(store: FullStore, checkpoint_id: str) -> object:
    found = await store.fetch(checkpoint_id)
    assert found is not None, f"{checkpoint_id} is gone"
    return found[1].decode()


class LifecycleClaims:
    """Deleting never breaks what stays."""

    # --- deletions

    async def test_a_deletion_erases_the_content_and_leaves_the_position(self, storage: FullStore) -> None:
        first = await save(storage, context_summary="secret", metadata={"secret": 1})
        second = await continued(storage)
        done = await commit(storage, delete=(first.id, first.id, "chk_unknown"))
        assert done.deleted == 1
        assert await storage.fetch(first.id) is None
        assert [one.id for one in await storage.list(Query())] == [second.id]
        left = await storage.position(first.id)
        assert left is not None
        assert left.deleted
        assert (left.id, left.agent_id, left.user_id, left.kind) == (first.id, "agent", "user", "manual")
        assert (left.position, left.commit_number) == (first.position, first.commit_number)
        assert (left.context_summary, left.metadata, left.state) == ("", {}, None)
        last = (await storage.read("agent"))[-1]
        assert isinstance(last, CheckpointDeleted)
        assert last.id == first.id
        info = await storage.agent("agent")
        assert info is not None
        assert info.checkpoints == 1

    async def test_a_second_deletion_does_nothing(self, storage: FullStore) -> None:
        saved = await save(storage)
        await commit(storage, delete=(saved.id,))
        again = await commit(storage, delete=(saved.id,))
        assert (again.deleted, again.last_seq) == (0, 2)
        assert len(await storage.read("agent")) == 2

    async def test_a_deletion_reaches_its_own_agent_only(self, storage: FullStore) -> None:
        theirs = await save(storage, "other")
        await save(storage)
        done = await commit(storage, delete=(theirs.id,), pin={theirs.id: True})
        assert done.deleted == 0
        position = await storage.position(theirs.id)
        assert position == theirs

    async def test_every_state_loads_whichever_others_are_deleted(self, storage: FullStore) -> None:
        saved = [await continued(storage, state=growing(turns)) for turns in range(0, 200, 2)]
        gone = [one for index, one in enumerate(saved) if index % 3 == 0]
        await commit(storage, delete=tuple(one.id for one in gone))
        await storage.collect_garbage()
        for index, one in enumerate(saved):
            if index % 3 == 0:
                assert await storage.fetch(one.id) is None
            else:
                assert await state_of(storage, one.id) == growing(2 * index)
        assert (await storage.verify()).ok

    async def test_an_id_replaced_in_one_commit_is_never_absent_from_the_history(self, storage: FullStore) -> None:
        first = await save(storage, state={"turn": 1})
        [done] = await storage.commit(saving(id=first.id, state={"turn": 2}, delete=(first.id,)))
        assert done.deleted == 1
        assert await state_of(storage, first.id) == {"turn": 2}
        records = await storage.read("agent")
        assert [type(record) for record in records] == [CheckpointSaved, CheckpointDeleted, CheckpointSaved]
        position = await storage.position(first.id)
        assert position == done.checkpoint

    # --- pins

    async def test_a_pin_is_seen_everywhere_and_taken_off_again(self, storage: FullStore) -> None:
        saved = await save(storage, metadata={"a": 1})
        for pinned in (True, False):
            await commit(storage, pin={saved.id: pinned})
            expected = saved.evolve(pinned=pinned)
            assert await storage.position(saved.id) == expected
            assert await storage.list(Query()) == [expected]
            found = await storage.fetch(saved.id)
            assert found is not None
            assert found[0] == expected

    # --- forks

    async def test_a_fork_begins_a_history_of_its_own(self, storage: FullStore) -> None:
        first = await save(storage, state=growing(40))
        await continued(storage, state=growing(42))
        fork = await save(storage, "fork", state=growing(40), fork_of=first.id, parent=first.id)
        assert (fork.position, fork.parent_checkpoint_id) == (1, first.id)
        [record] = await storage.read("fork")
        assert record.forked_from == {"agentId": "agent", "seq": first.position, "checkpointId": first.id}
        info, original = await storage.agent("fork"), await storage.agent("agent")
        assert info is not None
        assert original is not None
        assert info.forked_from == ("agent", first.position)
        assert (original.last_seq, original.forked_from) == (2, None)
        later = await continued(storage, "fork", state=growing(44))
        assert await state_of(storage, later.id) == growing(44)

    async def test_a_fork_outlives_what_it_came_from(self, storage: FullStore) -> None:
        first = await save(storage, state=growing(100))
        fork = await save(storage, "fork", state=growing(100), fork_of=first.id, parent=first.id)
        later = await continued(storage, "fork", state=growing(101))
        await commit(storage, delete=(first.id,))
        await storage.collect_garbage()
        assert await state_of(storage, fork.id) == growing(100)
        await commit(storage, erase=True)
        await storage.collect_garbage()
        assert await state_of(storage, fork.id) == growing(100)
        assert await state_of(storage, later.id) == growing(101)
        assert (await storage.verify()).ok

    async def test_only_a_new_agent_can_be_a_fork(self, storage: FullStore) -> None:
        first = await save(storage)
        await save(storage, "there")
        with pytest.raises(DuplicateId) as refused:
            await save(storage, "there", fork_of=first.id)
        assert refused.value.agent_id == "there"
        with pytest.raises(UnknownCheckpoint):
            await save(storage, "new", fork_of="chk_unknown")
        assert await storage.agent("new") is None

    async def test_nobody_forks_another_users_checkpoint(self, storage: FullStore) -> None:
        theirs = await save(storage, "theirs", user_id="them")
        with pytest.raises(UnknownCheckpoint):
            await save(storage, "mine", user_id="me", fork_of=theirs.id)
        assert await storage.agents("me") == []

    # --- groups

    async def test_a_group_is_one_commit(self, storage: FullStore) -> None:
        done = await storage.commit(*(saving(name, group_id="grp_one") for name in ("z", "a")))
        ids = [each.checkpoint.id for each in done if each.checkpoint is not None]
        await save(storage, "z")
        assert sorted(await storage.group("grp_one")) == sorted(ids)
        assert len({each.commit_number for each in done}) == 1
        assert await storage.group("grp_unknown") == []

    async def test_of_a_refused_group_nothing_is_left(self, storage: FullStore) -> None:
        await save(storage, "theirs", user_id="them")
        with pytest.raises(WrongOwner):
            await storage.commit(*(saving(name, group_id="grp_one") for name in ("mine", "theirs")))
        assert await storage.group("grp_one") == []

    async def test_a_group_that_lost_a_member_shows_it(self, storage: FullStore) -> None:
        """Restoring the others alone would be no consistent cut: each one says how many there were."""
        one, two = await storage.commit(
            saving("one", group_id="grp_one", group_place=(0, 2)), saving("two", group_id="grp_one", group_place=(1, 2))
        )
        assert one.checkpoint is not None
        assert two.checkpoint is not None
        await commit(storage, "one", delete=(one.checkpoint.id,))
        [left] = await storage.group("grp_one")
        position = await storage.position(left)
        assert position is not None
        assert (position.id, position.group_place) == (two.checkpoint.id, (1, 2))

    # --- erased agents

    async def test_an_erased_agent_is_gone_from_every_answer(self, storage: FullStore) -> None:
        saved = await save(storage, kind="pre_operation")
        await continued(storage)
        await storage.send("agent", "user", "hello", sender="me")
        stays = await save(storage, "stays")
        done = await commit(storage, erase=True)
        assert done.deleted == 2
        assert await storage.agent("agent") is None
        assert [info.agent_id for info in await storage.agents()] == ["stays"]
        assert await storage.read("agent") == []
        assert await storage.list(Query(agent_id="agent")) == []
        assert (await storage.fetch(saved.id), await storage.position(saved.id)) == (None, None)
        assert await storage.pending("operation") == []
        assert await storage.inbox("agent") == []
        assert await storage.list(Query()) == [stays]
        assert (await storage.verify()).ok

    async def test_numbers_go_on_after_an_erasure(self, storage: FullStore) -> None:
        """A number that was given once never means something else, or an old reference would lie."""
        await save(storage)
        await continued(storage)
        await storage.send("agent", "user", "hello", sender="me")
        await commit(storage, erase=True)
        again = await continued(storage)
        assert (again.position, again.parent_checkpoint_id) == (3, None)
        assert [record.seq for record in await storage.read("agent")] == [3]
        assert await storage.send("agent", "user", "hello", sender="me") == 2
        info = await storage.agent("agent")
        assert info is not None
        assert (info.last_seq, info.checkpoints, info.tip) == (3, 1, again.id)

    async def test_an_erased_agent_may_begin_again_with_anything(self, storage: FullStore) -> None:
        for beginning in ({"records": (UserMessage(content="again"),)}, {"hold": True}, {"acknowledge": 0}):
            await save(storage)
            await commit(storage, erase=True)
            assert await storage.agent("agent") is None
            await commit(storage, **beginning)
            assert [(info.agent_id, info.agent_type) for info in await storage.agents()] == [("agent", "")]
            assert await storage.agent("agent") is not None
        await commit(storage, erase=True)
        await storage.send("agent", "user", "hello", sender="me")
        assert await storage.agent("agent") is not None

    async def test_an_erased_agent_still_belongs_to_its_user(self, storage: FullStore) -> None:
        await save(storage)
        await commit(storage, erase=True)
        with pytest.raises(WrongOwner):
            await save(storage, user_id="them")

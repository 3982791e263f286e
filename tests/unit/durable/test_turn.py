"""A turn: one message to an agent, durable from its first commit to its last, and nobody else's meanwhile."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, InMemoryCheckpointStorage, OwnedElsewhere, Redactor, StaleWriter
from holdfast.durable.turn import turns_of
from holdfast.history.records import AssistantMessage, UserMessage
from tests.unit.durable.samples import Agent, ThreeMethods

ASKED = UserMessage(content="book")
ANSWERED = AssistantMessage(content="booked", tool_calls=[])


async def types_of(manager, agent_id="ada"):
    return [record.type for record in await manager.history(agent_id)]


async def test_a_turn_of_one_commit_has_the_records_and_the_checkpoint(manager):
    agent = Agent()
    await turns_of(manager).of(agent).end(ASKED, ANSWERED, metadata={"message": "m"})
    assert await types_of(manager) == ["user_message", "assistant_message", "checkpoint"]
    [checkpoint] = await manager.list_by_agent("ada")
    assert (checkpoint.kind, checkpoint.metadata) == ("auto", {"message": "m"})
    assert (await manager.store.agent("ada")).owner is None


async def test_a_turn_holds_the_agent_from_its_first_commit_to_its_last(manager):
    agent = Agent()
    turn = turns_of(manager).of(agent)
    await turn.keep(ASKED)
    assert (await manager.store.agent("ada")).owner_alive
    assert turns_of(manager).under_way("ada")
    await turn.keep()
    await turn.end(ANSWERED)
    assert (await manager.store.agent("ada")).owner is None
    assert not turns_of(manager).under_way("ada")
    assert await types_of(manager) == ["user_message", "checkpoint", "checkpoint", "assistant_message", "checkpoint"]


async def test_what_the_agent_saves_meanwhile_belongs_to_the_turn(manager):
    agent = Agent()
    turn = turns_of(manager).of(agent)
    await turn.keep()
    await manager.save(agent.step("a"))
    async with manager.operation(agent, "deploy"):
        await manager.append("ada", ASKED, user_id="u")
    assert (await manager.store.agent("ada")).owner_alive
    await turn.end()
    assert (await manager.store.agent("ada")).owner is None
    assert "rewind" not in await types_of(manager)


@pytest.mark.parametrize("commit", ["keep", "end"])
async def test_a_turn_does_not_begin_from_an_object_that_others_went_past(manager, commit):
    await manager.save(first := Agent())
    other = await manager.restore((await manager.latest("ada")).id)
    await manager.save(other.step("theirs"))
    before = await types_of(manager)
    with pytest.raises(StaleWriter, match="advanced by somebody else") as error:
        await getattr(turns_of(manager).of(first), commit)(ASKED)
    assert error.value.checkpoint_id == (await manager.latest("ada")).id
    assert await types_of(manager) == before
    assert (await manager.store.agent("ada")).owner is None
    assert not turns_of(manager).under_way("ada")


async def test_a_turn_of_a_new_agent_is_refused_where_there_is_one_of_its_name(manager):
    await manager.save(Agent())
    with pytest.raises(StaleWriter):
        await turns_of(manager).of(Agent()).end()


async def test_a_turn_that_is_given_up_gives_the_agent_back_as_it_was_kept_last(manager):
    agent = Agent().step("kept")
    turn = turns_of(manager).of(agent)
    await turn.keep(ASKED)
    agent.step("not kept")
    await turn.give_up()
    await turn.give_up()
    assert (await manager.store.agent("ada")).owner is None
    assert (await manager.load((await manager.latest("ada")).id)).state == {"steps": ["kept"]}


async def test_a_turn_that_is_left_keeps_the_agent_from_others_while_its_process_lives(tmp_path):
    from holdfast import SQLiteCheckpointStorage

    mine = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db"))
    theirs = CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db"))
    theirs.register(Agent)
    turn = turns_of(mine).of(Agent())
    await turn.keep()
    turn.leave()
    found = await theirs.restore((await theirs.latest("ada")).id)
    with pytest.raises(OwnedElsewhere):
        await turns_of(theirs).of(found).keep()
    await mine.close()
    await turns_of(theirs).of(found).end()
    await theirs.close()


async def test_what_is_said_is_redacted_as_states_are():
    manager = CheckpointManager(InMemoryCheckpointStorage(), redact=Redactor())
    secret = UserMessage(content="my key is sk-abcdefghijklmnop0123")
    await turns_of(manager).of(Agent()).end(secret, ANSWERED)
    record, answer, _ = await manager.history("ada")
    assert (record.content, record.redacted) == ("my key is [redacted]", ["content"])
    assert (answer.content, answer.redacted) == ("booked", None)


async def test_a_storage_of_checkpoints_only_keeps_the_checkpoints_of_a_turn():
    manager = CheckpointManager(ThreeMethods())
    agent = Agent()
    turn = turns_of(manager).of(agent)
    await turn.keep(ASKED)
    await turn.end(ANSWERED)
    assert [checkpoint.kind for checkpoint in await manager.list_by_user("u")] == ["auto", "auto"]
    stale = Agent()
    with pytest.raises(StaleWriter):
        await turns_of(manager).of(stale).end()

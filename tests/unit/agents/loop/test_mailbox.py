"""Mailboxes without a loop: sending, receiving, and acknowledging with the state that a message changed."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, FileCheckpointStorage, InMemoryCheckpointStorage, MissingMethod, WrongOwner
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import Counter, new_manager


async def test_a_message_waits_until_it_is_acknowledged_with_the_state_that_it_changed():
    manager = new_manager()
    mailbox, agent = Mailbox(manager, "ada", user_id="u"), Counter()
    assert [await mailbox.send(word, sender="eve") for word in ("one", "two")] == [1, 2]
    [first, _] = await mailbox.receive()
    assert (first.content, first.sender) == ("one", "eve")
    agent.heard.append(first.content)
    checkpoint_id = await mailbox.acknowledge(first, agent, metadata={"why": "mail"})
    saved = await manager.load(checkpoint_id)
    assert (saved.kind, saved.state["heard"], saved.metadata) == ("auto", ["one"], {"why": "mail"})
    assert [message.content for message in await mailbox.receive()] == ["two"]
    assert await mailbox.waiting() == 1


async def test_a_new_agent_belongs_to_the_user_who_is_named_and_others_cant_send_to_it():
    storage = InMemoryCheckpointStorage()
    mine, theirs = CheckpointManager(storage, user_id="me"), CheckpointManager(storage, user_id="them")
    await Mailbox(mine, "ada").send("hello", sender="me")
    with pytest.raises(WrongOwner):
        await Mailbox(theirs, "ada").send("hello", sender="them")
    await Mailbox(CheckpointManager(storage), "ada").send("hello", sender="admin")
    assert (await storage.agent("ada")).user_id == "me"
    assert await Mailbox(mine, "ada").waiting() == 2
    assert await Mailbox(theirs, "ada").waiting() == 0
    assert await Mailbox(theirs, "ada").receive() == []


def test_a_loop_on_a_storage_without_inboxes_is_refused_at_once(tmp_path):
    with pytest.raises(MissingMethod, match="full store"):
        AgentLoop(Counter(), CheckpointManager(FileCheckpointStorage(tmp_path)))

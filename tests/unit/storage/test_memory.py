"""What is the in-memory store's own; what every store promises is in tests/conformance."""

import asyncio

import pytest

from holdfast.errors import UnknownValueType
from holdfast.history.image import Image
from holdfast.storage.memory import InMemoryCheckpointStorage
from holdfast.storage.protocol import Query, Store
from holdfast.testing.samples import checkpoint, commit, continued, save


def test_it_is_a_full_store():
    assert isinstance(InMemoryCheckpointStorage(), Store)


async def test_saving_keeps_to_the_limit_and_spares_the_pinned_and_the_newest():
    storage = InMemoryCheckpointStorage(max_checkpoints=3)
    quiet = await storage.save(checkpoint("quiet"))
    pinned = await storage.save(checkpoint(pinned=True))
    ids = [await storage.save(checkpoint()) for _ in range(5)]
    assert [one.id for one in await storage.list(Query(limit=None))] == [*ids[:1:-1], pinned, quiet]


async def test_routine_and_recovery_checkpoints_fall_under_no_limit_of_the_storage():
    storage = InMemoryCheckpointStorage(max_checkpoints=1)
    for kind in ("routine", "recovery", "pre_operation"):
        await storage.save(checkpoint(kind=kind))
    assert len(await storage.list(Query())) == 3


async def test_a_limit_of_none_limits_nothing():
    storage = InMemoryCheckpointStorage(max_checkpoints=None)
    for _ in range(3):
        await storage.save(checkpoint())
    assert len(await storage.list(Query())) == 3


async def test_a_writer_is_alive_for_its_own_object_only():
    one, two = InMemoryCheckpointStorage(), InMemoryCheckpointStorage()
    assert one.alive(one.writer)
    assert not one.alive(two.writer)


async def test_a_saved_object_may_change_afterwards():
    storage = InMemoryCheckpointStorage()
    saved = checkpoint(state={"list": [1]}, metadata={"list": [1]})
    await storage.save(saved)
    saved.state["list"].append(2)
    saved.metadata["list"].append(2)
    for _ in range(2):
        loaded = await storage.load(saved.id)
        assert (loaded.state, loaded.metadata) == ({"list": [1]}, {"list": [1]})
        loaded.state["list"].append(3)
        loaded.metadata["list"].append(3)


async def test_unchanged_parts_of_a_state_are_kept_once():
    storage = InMemoryCheckpointStorage()
    messages = [{"content": "x" * 100} for _ in range(640)]
    first = Image.of({"messages": messages})
    messages.append({"content": "y"})
    second = Image.of({"messages": messages}, first)
    for turn, image in enumerate((first, second)):
        await commit(storage, f"agent-{turn}", checkpoint=checkpoint(f"agent-{turn}", state=None), image=image)
    kept = [(await storage.fetch(one.id))[1] for one in await storage.list(Query(oldest_first=True))]
    [before], [after] = kept[0].strands, kept[1].strands
    assert [one is other for one, other in zip(before.chunks, after.chunks, strict=False)] == [True] * 10


async def test_a_value_that_cant_be_kept_leaves_nothing_behind():
    storage = InMemoryCheckpointStorage()
    with pytest.raises(UnknownValueType):
        await save(storage, metadata={"it": object()})
    assert await storage.agents() == []
    assert (await storage.stats()) == {"agents": 0, "records": 0, "checkpoints": 0, "bytes": 0}


async def test_deleted_content_is_freed():
    storage = InMemoryCheckpointStorage()
    saved = await continued(storage, state={"text": "x" * 1000})
    assert (await storage.stats())["bytes"] > 1000
    await commit(storage, delete=(saved.id,))
    assert (await storage.stats())["bytes"] == 0


async def test_one_store_serves_several_event_loops():
    storage = InMemoryCheckpointStorage()
    for turn in range(2):
        await asyncio.to_thread(asyncio.run, continued(storage, state={"turn": turn}))
    assert [one.position for one in await storage.list(Query())] == [2, 1]

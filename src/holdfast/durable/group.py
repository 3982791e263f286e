"""Groups of checkpoints that were saved in one commit: only a whole one is a consistent cut."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import UnknownGroup
from holdfast.history.checkpoint import Kind
from holdfast.storage.ids import new_id
from holdfast.storage.protocol import Change, ReceiveAgain

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.storage.protocol import Committed, Store


async def members(store: Store, group_id: str, user_id: str | None) -> list[tuple[Checkpoint, Image]]:
    """The checkpoints in the order in which their agents were given; `user_id` scopes. One that is lost is named."""
    fetched = [await store.fetch(checkpoint_id) for checkpoint_id in await store.group(group_id)]
    found = [item for item in fetched if item is not None and user_id in (None, item[0].user_id)]
    if not found or len(found) < len(fetched):  # another user's agent is in it
        raise UnknownGroup(f"There is no group {group_id}", group_id=group_id)
    by_place = {(checkpoint.group_place or (0, 1))[0]: (checkpoint, image) for checkpoint, image in found}
    size = max((checkpoint.group_place or (0, 1))[1] for checkpoint, _ in found)
    lost = [str(place + 1) for place in range(size) if place not in by_place]
    if lost:
        raise UnknownGroup(
            f"Group {group_id} has lost its checkpoint number {', '.join(lost)} of {size}",
            group_id=group_id,
            hint="They were deleted or retired; pin the checkpoints of groups that must stay.",
        )
    return [by_place[place] for place in range(size)]


async def put_back(store: Store, members: list[tuple[Checkpoint, Image]], now: datetime) -> list[Committed]:
    """Puts the inboxes of a group back to its cut, in one commit; [] when none of them changed since.

    What members sent to each other after the cut is taken back, as they are: they will send it again. What others
    sent waits again. In the same commit each member is saved as it was at the cut, for whoever looks for its newest
    checkpoint must not find one that has received what waits again. A live process that holds one of the agents is
    `OwnedElsewhere`, and nothing is changed.
    """
    agent_ids = frozenset(checkpoint.agent_id for checkpoint, _ in members)
    again = {
        checkpoint.agent_id: ReceiveAgain(acknowledged=numbers[0], last=numbers[1], without=agent_ids)
        for checkpoint, _ in members
        if (numbers := checkpoint.inbox or (0, 0)) != await _inbox(store, checkpoint.agent_id)
    }
    if not again:
        return []
    return await store.commit(*(_change(*member, again.get(member[0].agent_id), now) for member in members))


async def _inbox(store: Store, agent_id: str) -> tuple[int, int]:
    info = await store.agent(agent_id)
    return (0, 0) if info is None else (info.inbox_acknowledged, info.inbox_last)


def _change(checkpoint: Checkpoint, image: Image, again: ReceiveAgain | None, now: datetime) -> Change:
    draft = checkpoint.evolve(
        id=new_id(), parent_checkpoint_id=checkpoint.id, timestamp=now, kind=Kind.RECOVERY, operation=None,
        group_id=None, group_place=None, inbox=None, pinned=False,
        metadata={**checkpoint.metadata, "restored_group": checkpoint.group_id},
    )  # fmt: skip
    return Change(
        agent_id=checkpoint.agent_id, user_id=checkpoint.user_id, agent_type=checkpoint.agent_type, checkpoint=draft,
        image=image, id_is_new=True, receive_again=again,
    )  # fmt: skip

"""Groups of checkpoints that were saved in one commit: only a whole one is a consistent cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UnknownGroup
from holdfast.storage.protocol import Change, ReceiveAgain

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.storage.protocol import Store


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


async def inboxes_back(store: Store, checkpoints: list[Checkpoint]) -> None:
    """Puts the inboxes of a group back to its cut, in one commit; one that did not change since is left alone.

    What members sent to each other after the cut is taken back, as they are: they will send it again. What others
    sent waits again. A live process that holds one of the agents is `OwnedElsewhere`, and nothing is changed.
    """
    agent_ids = frozenset(checkpoint.agent_id for checkpoint in checkpoints)
    changes = []
    for checkpoint in checkpoints:
        info = await store.agent(checkpoint.agent_id)
        acknowledged, last = checkpoint.inbox or (0, 0)
        if info is not None and (info.inbox_acknowledged, info.inbox_last) != (acknowledged, last):
            again = ReceiveAgain(acknowledged=acknowledged, last=last, without=agent_ids)
            changes.append(Change(agent_id=checkpoint.agent_id, user_id=checkpoint.user_id, receive_again=again))
    if changes:
        await store.commit(*changes)

"""Groups of checkpoints that were saved in one commit: only a whole one is a consistent cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UnknownGroup

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

"""What a store gave back for a commit that saved a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import Committed


def checkpoint_of(done: Committed) -> Checkpoint:
    if done.checkpoint is None:
        raise RuntimeError("a commit with a checkpoint gave none back")
    return done.checkpoint

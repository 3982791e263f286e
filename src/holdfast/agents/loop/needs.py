"""What a loop needs of an agent and of a storage.

An agent for a loop is one for a `CheckpointManager` (`agent_id`, `user_id`, `status`, `checkpoint_state`,
`restore_state`) with one of the first two of these methods at least; each may be plain or async:

- `on_message(message, turn)`: a message came (`message.content`, `.sender`, `.at`).
- `on_task(task, turn)`: a slice of the task that the agent has claimed (`task.name`, `.content`). It is called again
  and again until `turn.complete()`.
- `refresh()`, optional: drop what need not be kept (a conversation, caches), to go on with a clean context.
- `recover()`, optional: take up what a dead process left; called before anything else.
- `on_interrupted(checkpoint, turn)`, optional: a process died within the operation `checkpoint.operation`. Find out
  what became of it.

What a method changes in the agent, what it does through its `Turn`, and that its message is dealt with are one commit,
when it returns. When it raises, all of that is as if it had not been, and it is called again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import MissingMethod
from holdfast.storage.adapter import StorageAdapter

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager


def check(agent: Any, manager: CheckpointManager, on_drift: str | None) -> None:
    """Refuses what a loop can't work with, before it begins."""
    name = type(agent).__name__
    if not hasattr(agent, "on_message") and not hasattr(agent, "on_task"):
        raise MissingMethod(
            f"{name} has neither on_message nor on_task, so a loop has nothing to call",
            method="on_message",
            hint="Give it on_message(message, turn), on_task(task, turn) or both.",
        )
    if on_drift == "ask" and not hasattr(agent, "on_message"):
        raise MissingMethod(f"{name} has no on_message, by which it could be asked about drift", method="on_message")
    if isinstance(manager.store, StorageAdapter):
        raise MissingMethod(
            f"{manager.storage!r} keeps checkpoints only; a loop's mailbox needs a full store",
            hint="Use SQLiteCheckpointStorage or InMemoryCheckpointStorage.",
        )

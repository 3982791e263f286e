"""The durable place of an agent between two of its steps: how it is saved, and how the agent is brought back to it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

from holdfast.durable.saving import Purpose
from holdfast.errors import StorageFailed, UnknownCheckpoint
from holdfast.history.checkpoint import Kind

if TYPE_CHECKING:
    from holdfast.agents.watch import Watch
    from holdfast.durable.manager import CheckpointManager
    from holdfast.durable.operation import Operation
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import Outgoing

log = logging.getLogger("holdfast")


class Place:
    """Where an agent stands: the checkpoint after its last whole step, which agrees with its inbox.

    The checkpoint of a step (kind `auto`) goes with the commit of the next one, so that an agent which runs for days
    leaves one of them. Its metadata says `loop`: what the loop must know again. What is saved within a step, by an
    operation or by the agent itself, names the place that the step began at: whoever finds it begins the step again.
    """

    def __init__(self, manager: CheckpointManager, agent: Any, watch: Watch) -> None:
        self.manager = manager
        self.agent = agent
        self.agent_id: str = agent.agent_id
        self.user_id: str = agent.user_id
        self.watch = watch
        self.completed = 0  # tasks, ever: what progress is told by
        self.checkpoint_id: str | None = None
        self._kind = ""
        self._step: str | None = None  # the last step's checkpoint, which the next one replaces
        self._pinned: str | None = None  # a step's checkpoint that this pinned itself
        self._gone: list[str] = []  # what goes with the next commit

    # --- the beginning

    async def begin(self, *, anew: bool) -> None:
        """Finds the place to go on from, and brings the agent there.

        An agent that was restored by somebody goes on from there, as it is now. Any other, and every one `anew`, is
        brought to its newest place. The first has none, and begins with what the agent is now.
        """
        here = None if anew else self.manager.came_from(self.agent)
        if here is None:
            found = await self.manager.latest(self.agent_id)
        else:
            found = await self.manager.store.position(here)
        if found is not None and (began_at := _began_at(found)) is not None:
            place = await self.manager.store.position(began_at)
            if place is not None and not place.deleted and place.agent_id == self.agent_id:
                here, found = None, place
            elif here is None:
                raise self._gone_place(began_at)
        if found is None:
            await self.save(Kind.AUTO, {"why": "the beginning"})
            return
        self._know(found.metadata)
        self.watch.restore((found.metadata.get("loop") or {}).get("watch") or {}, found.metadata.get("detector") or {})
        if _is_step(found) and not found.pinned:
            self._step = found.id
        self.checkpoint_id, self._kind = found.id, found.kind
        if here is None:
            await self.back()
        else:
            await self.save(Kind.AUTO, {"why": "the beginning"})  # it may have been changed since

    def _gone_place(self, checkpoint_id: str) -> UnknownCheckpoint:
        return UnknownCheckpoint(
            f"The checkpoint {checkpoint_id} at which agent {self.agent_id} began its last step is gone",
            agent_id=self.agent_id,
            checkpoint_id=checkpoint_id,
            hint="Restore a checkpoint that you choose, and start the loop with that agent.",
        )

    def _know(self, metadata: dict[str, Any]) -> None:
        kept = metadata.get("loop")
        self.completed = kept.get("completed", 0) if isinstance(kept, dict) else 0

    # --- a step's end

    async def save(
        self,
        kind: Kind,
        about: dict[str, Any],
        *,
        acknowledge: int | None = None,
        send: tuple[Outgoing, ...] = (),
        completed: int = 0,
        settles: str | None = None,
    ) -> None:
        """Saves the agent as it is now, which is its place from now on.

        Who is cancelled meanwhile is so afterwards: whether it was saved must be known.
        """
        saving = asyncio.ensure_future(self._save(kind, about, acknowledge, send, completed, settles))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait([saving])
            if not saving.cancelled() and saving.exception() is not None:
                log.warning("Agent %s was not saved: %s", self.agent_id, saving.exception())
            raise

    async def _save(
        self,
        kind: Kind,
        about: dict[str, Any],
        acknowledge: int | None,
        send: tuple[Outgoing, ...],
        completed: int,
        settles: str | None,
    ) -> None:
        purpose = Purpose(
            kind=kind,
            metadata=self._metadata(about, completed),
            acknowledge=acknowledge,
            send=send,
            replaces=(*self._gone, *await self._replaced(), *([settles] if settles else [])),
        )
        [saved] = await self.manager.save_each((self.agent, purpose))
        self.completed += completed
        self.saved(saved)

    async def of_group(self, kind: Kind, group_id: str, metadata: dict[str, Any] | None) -> Purpose:
        """For what the agent is to be saved with others; what comes of it is to be told by `saved`."""
        return Purpose(
            kind=kind,
            metadata={**(metadata or {}), **self._metadata({"why": "group"}, 0)},
            group_id=group_id,
            replaces=(*self._gone, *await self._replaced()),
        )

    def saved(self, checkpoint: Checkpoint) -> None:
        """The agent's place is this checkpoint now."""
        self.checkpoint_id, self._kind = checkpoint.id, checkpoint.kind
        self._gone = []
        self._step = checkpoint.id if _is_step(checkpoint) else None
        self._pinned = None

    async def _replaced(self) -> list[str]:
        """The last step's checkpoint, unless somebody pinned it."""
        if self._step is None:
            return []
        found = await self.manager.store.position(self._step)
        if found is None or found.deleted or (found.pinned and self._pinned != self._step):
            return []
        return [self._step]

    def _metadata(self, about: dict[str, Any], completed: int) -> dict[str, Any]:
        loop = {"completed": self.completed + completed, "watch": self.watch.state(), **about}
        return {"loop": loop, "detector": self.watch.detector.state()}

    # --- back

    async def back(self) -> None:
        """Brings the agent back to its place: what it did since is as if it had not been."""
        if self.checkpoint_id is not None:
            await self.manager.restore_into(self.agent, self.checkpoint_id)

    async def anew(self) -> None:
        """Builds the agent anew at its place; one of a type that nobody registered is only brought back."""
        if self.checkpoint_id is None or not self.manager.types.knows(type(self.agent).__name__):
            await self.back()
        else:
            self.agent = await self.manager.restore(self.checkpoint_id)

    # --- operations within a step

    def within(self) -> AbstractContextManager[None]:
        """Marks what is saved of the agent in this block, a step, as no place to go on from."""
        return self.manager.noting(self.agent_id, {"loop": {"within": self.checkpoint_id}})

    def operation(self, name: str, metadata: dict[str, Any]) -> AbstractAsyncContextManager[Operation]:
        return self.manager.operation(self.agent, name, metadata=metadata)

    async def keep(self) -> None:
        """Keeps the place from the limits of a policy while something newer is there."""
        if self._kind == Kind.AUTO and self.checkpoint_id is not None and self._pinned != self.checkpoint_id:
            await self.manager.pin(self.checkpoint_id)
            self._pinned = self.checkpoint_id

    async def taken_back(self, operation: Operation, error: BaseException) -> None:
        """After an operation failed: the agent is as before it, and the operation's checkpoint has served."""
        try:
            await self.manager.restore_into(self.agent, operation.checkpoint_id)
        except StorageFailed as failure:  # the step goes the same way then, from its own place
            log.warning("Agent %s could not be brought back to %s", self.agent_id, operation.checkpoint_id)
            error.add_note(f"Agent {self.agent_id} could not be brought back to {operation.checkpoint_id}: {failure}")
        self._gone.append(operation.checkpoint_id)


def _is_step(checkpoint: Checkpoint) -> bool:
    return checkpoint.kind == Kind.AUTO and "loop" in checkpoint.metadata and checkpoint.group_id is None


def _began_at(checkpoint: Checkpoint) -> str | None:
    """The place at which the step began that this checkpoint was saved in; None when it was saved between steps."""
    loop = checkpoint.metadata.get("loop")
    return loop.get("within") if isinstance(loop, dict) else None

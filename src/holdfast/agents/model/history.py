"""The history of one agent, read on from where it was read last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.agents.model.conversation import NEEDED, SAYS, Conversation
from holdfast.durable.past import Past
from holdfast.errors import WrongAgent
from holdfast.history.fold import live_path
from holdfast.history.records import CheckpointSaved, Record, Rewind

if TYPE_CHECKING:
    from holdfast.storage.protocol import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Return:
    """The way back to a state: the record that takes it, the checkpoint and the conversation it then goes on from."""

    rewind: Rewind
    checkpoint_id: str | None
    conversation: Conversation


class History:
    """What the conversation of an agent is a fold over: its records, and the past that a fork shares."""

    def __init__(self, store: Store, agent_id: str) -> None:
        self.store = store
        self.agent_id = agent_id
        self.conversation = Conversation(())
        self.position = 0  # of the last record that was read
        self.known = False
        self._past: list[Record] = []
        self._own: list[Record] = []
        self._turns = asyncio.Lock()

    async def refresh(self) -> Conversation:
        """The conversation as it is now."""
        async with self._turns:
            if not self.known:
                await self._begin()
            new = await self.store.read(self.agent_id, after=self.position, snapshots=False)
            if new:
                self._take_in(new)
            return self.conversation

    def _take_in(self, new: list[Record]) -> None:
        self.position = new[-1].seq
        needed = _needed(new)
        self._own += needed
        if any(isinstance(record, Rewind) for record in needed):
            self.conversation = Conversation(self._past + self._own)
            return
        for record in needed:
            self.conversation.add(record)

    def back_to(self, state: dict[str, Any]) -> Return | None:
        """What brings the live path back to a checkpoint's state. None where nothing was said since."""
        position = self._position_of(state)
        then = [record for record in self._own if record.seq <= position]
        if _said(live_path(then)) == _said(live_path(self._own)):
            return None
        # The checkpoint itself was saved after its state was taken; it stays on the path if nothing was said between.
        for record in [record for record in self._own if record.seq > position]:
            if not isinstance(record, CheckpointSaved):
                break
            position = record.seq
        path = live_path([record for record in self._own if record.seq <= position])
        saved = [record.id for record in path if isinstance(record, CheckpointSaved)]
        return Return(
            rewind=Rewind(to=position), checkpoint_id=saved[-1] if saved else None,
            conversation=Conversation(live_path(self._past) + path),
        )  # fmt: skip

    async def _begin(self) -> None:
        """Reads the past that a fork shares; it never changes."""
        info = await self.store.agent(self.agent_id)
        if info is not None and info.forked_from is not None:
            past = await Past(self.store).history(self.agent_id, snapshots=False)
            own = await self.store.read(self.agent_id, snapshots=False)
            self._past = _needed(past[: len(past) - len(own)])
            self.conversation = Conversation(self._past)
        self.known = True

    def _position_of(self, state: dict[str, Any]) -> int:
        if state["agent_id"] == self.agent_id:
            return int(state["position"])
        if self._past and self._own:
            return self._own[0].seq  # a fork begins with its copy of the checkpoint
        raise WrongAgent(
            f"This state is agent {state['agent_id']}'s, and this is agent {self.agent_id}", agent_id=self.agent_id
        )


def _needed(records: list[Record]) -> list[Record]:
    return [record for record in records if isinstance(record, NEEDED)]


def _said(path: list[Record]) -> list[int]:
    return [record.seq for record in path if isinstance(record, SAYS)]

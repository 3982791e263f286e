"""The storage seam: what a user implements (`CheckpointStorage`), and what a full store is as well (`Store`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from holdfast.errors import MissingMethod

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.image import Image
    from holdfast.history.records import Record


class CheckpointStorage(ABC):
    """What a custom backend implements: three methods are enough, the optional ones make more calls work.

    Contract: `save` returns the checkpoint's id once it is as durable as this storage gets, and saving an id
    again replaces it. `load` returns a checkpoint with its state, or None. `list_by_user` returns the newest
    saved first. A checkpoint handed over is the storage's own: nobody changes it afterwards.
    """

    @abstractmethod
    async def save(self, checkpoint: Checkpoint) -> str: ...

    @abstractmethod
    async def load(self, checkpoint_id: str) -> Checkpoint | None: ...

    @abstractmethod
    async def list_by_user(self, user_id: str, limit: int, offset: int) -> list[Checkpoint]: ...

    async def list_by_agent(self, agent_id: str, limit: int, offset: int) -> list[Checkpoint]:
        """Optional: the agent's checkpoints, newest saved first."""
        raise self._missing("list_by_agent")

    async def delete(self, checkpoint_id: str) -> bool:
        """Optional: remove a checkpoint; False when there was none."""
        raise self._missing("delete")

    async def close(self) -> None:
        """Optional: release what is held. Idempotent."""

    def _missing(self, method: str) -> MissingMethod:
        return MissingMethod(f"{type(self).__name__} has no method {method}(), which this call needs", owner=method)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiveAgain:
    """Puts an agent's inbox back to an earlier moment: what came after `acknowledged` is waiting again.

    What the senders in `without` sent after `last` is left out: they were put back as well, and will send it again.
    """

    acknowledged: int
    last: int
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """A message that a change sends: it is in the inbox of `to` when the change is committed, and else not at all."""

    to: str
    user_id: str  # whom the recipient belongs to; another's is `WrongOwner`
    content: Any
    sender: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What one commit does to one agent.

    Ownership: `epoch=None` begins anew (refused with `OwnedElsewhere` while a live other process owns the agent,
    unless `take_over`); a number continues the operation that it names (`StaleWriter` when that was taken over).
    `hold` keeps the agent owned after this commit; without it, this commit releases it. A change that only
    deletes, pins, sends or erases advances nobody and needs no ownership.

    `after` makes it depend on what was read: refused with `Moved` when the agent's last position is another by now.

    `room_bytes` is how much more must stay free for what follows this commit and can't be done without: refused with
    `DiskFull` when there is not that much. Less than 0: so much is given back, and this commit may use it; after a
    `DiskFull`, it still is kept. A store that knows nothing of its room passes over it.
    """

    agent_id: str
    user_id: str
    agent_type: str = ""
    records: tuple[Record, ...] = ()
    checkpoint: Checkpoint | None = None  # state=None: its content is `image`
    image: Image | None = None
    id_is_new: bool = False  # made just now by `new_id`: no store need look whether it has it
    continue_newest: bool = False  # the parent is the agent's newest checkpoint, whichever that is
    only_newest: bool = False  # refused with `StaleWriter` unless the parent is the agent's newest (None: it has none)
    fork_of: str | None = None  # the checkpoint that a new agent's past ends with
    delete: tuple[str, ...] = ()  # ids that are gone already are passed over
    pin: Mapping[str, bool] = field(default_factory=dict)
    acknowledge: int | None = None  # inbox messages up to this number have been dealt with
    receive_again: ReceiveAgain | None = None
    send: tuple[Outgoing, ...] = ()  # put into inboxes after all changes of the commit, in their order
    erase: bool = False  # the whole agent; a signed tombstone stays
    epoch: int | None = None
    hold: bool = False
    take_over: bool = False
    after: int | None = None
    room_bytes: int = 0

    @property
    def advances(self) -> bool:
        """Whether this moves the agent on, and so needs its ownership."""
        numbers = (self.epoch, self.acknowledge, self.receive_again)
        return bool(self.records or self.checkpoint or self.hold) or any(number is not None for number in numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What a change became: numbers that only the store could give."""

    agent_id: str
    commit_number: int
    first_seq: int  # of the records written, rewind and checkpoint records included
    last_seq: int
    epoch: int
    checkpoint: Checkpoint | None = None  # complete, state=None
    deleted: int = 0  # checkpoints that this change removed


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which checkpoints to list. Newest first means by commit number, never by a clock."""

    user_id: str | None = None
    agent_id: str | None = None
    kinds: tuple[str, ...] = ()  # empty: all
    oldest_first: bool = False
    limit: int | None = 50
    offset: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentInfo:
    """What a store knows of an agent without reading its history."""

    agent_id: str
    user_id: str
    agent_type: str
    last_seq: int
    commit_number: int
    epoch: int
    owner: str | None  # the writer that holds it now
    owner_alive: bool
    checkpoints: int  # live ones
    tip: str | None  # the newest checkpoint on the live path
    forked_from: tuple[str, int] | None  # agent id and position where its own history begins
    inbox_last: int = 0
    inbox_acknowledged: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessage:
    """A message that somebody sent to an agent; `number` is the inbox's own sequence.

    A message that is received again, after its agent was put back, has a new number; `original` stays.
    """

    number: int
    original: int
    sender: str
    content: Any
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """Something that was begun and not ended: an operation (by its checkpoint id) or a run (by its call id)."""

    what: str  # "operation" or "run"
    name: str
    agent_id: str
    user_id: str
    seq: int
    owner_alive: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlace:
    """Where a run stands in its agent's history, on the live path."""

    name: str  # its tool call id
    agent_id: str
    user_id: str
    session: str | None
    start: int  # the position of its rlm_start
    end: int | None  # of its rlm_complete; None while it is pending, and for ever when its name was begun again
    owner_alive: bool  # of the agent, as in Pending


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """One thing that failed its authentication."""

    kind: str  # "record", "checkpoint", "state", "agent", "listing", "inbox", "store"
    id: str
    agent_id: str | None
    seq: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What `verify` found: everything damaged by name, and which checkpoints are still whole."""

    damaged: tuple[Damage, ...]
    whole: tuple[str, ...]
    records: int = 0
    checkpoints: int = 0

    @property
    def ok(self) -> bool:
        return not self.damaged


Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done and how many there are."""


@runtime_checkable
class Store(Protocol):
    """A full store: histories, checkpoints, inboxes and what is pending, behind one write verb."""

    async def commit(self, *changes: Change) -> list[Committed]:
        """Everything or nothing, durable when it returns; the results are in the order of the changes.

        Raises `OwnedElsewhere`, `StaleWriter`, `WrongOwner`, `Moved`, `DuplicateId`, `DiskFull`, `Poisoned`, `Corrupt`.
        """

    async def read(
        self, agent_id: str, *, after: int = 0, limit: int | None = None, snapshots: bool = True
    ) -> list[Record]:
        """The agent's own records in order, authenticated; [] for an unknown agent.

        Without `snapshots` none is read: a record says b"" where one is kept, and None where none is.
        """

    async def snapshot(self, agent_id: str, seq: int) -> bytes | None:
        """The snapshot that is kept with the record at this position, or None. A damaged one is `Corrupt`."""

    async def runs(
        self,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        session: str | None = None,
        user_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunPlace]:
        """The runs on the live paths for which everything given holds, by an index. That there is none is certain, too.

        An agent's newest comes first, and the agent that was new last comes before the others. A fork has its own
        runs only. Of a name that was begun twice there are both, and an end belongs to the one that was begun last.
        """

    async def fetch(self, checkpoint_id: str) -> tuple[Checkpoint, Image] | None:
        """A checkpoint (state=None) and its content, authenticated; None when unknown or deleted."""

    async def position(self, checkpoint_id: str) -> Checkpoint | None:
        """A checkpoint without its content: whole but for `state`, or, when it was deleted, its bare position."""

    async def agents(self, user_id: str | None = None) -> list[AgentInfo]:
        """Every agent, or one user's; erased ones are left out."""

    async def agent(self, agent_id: str) -> AgentInfo | None: ...

    async def group(self, group_id: str) -> list[str]:
        """The ids of the checkpoints that `save_group` made in one commit; [] when unknown."""

    async def pending(self, what: str, *, user_id: str | None = None, agent_id: str | None = None) -> list[Pending]:
        """What was begun and not ended, by an index."""

    async def send(self, agent_id: str, user_id: str, content: Any, *, sender: str) -> int:
        """Puts a message into the agent's inbox, durable when it returns; any process may."""

    async def inbox(self, agent_id: str, *, limit: int = 100) -> list[InboxMessage]:
        """The messages that are not acknowledged yet, oldest first."""

    async def verify(self, progress: Progress | None = None) -> Report: ...

    async def stats(self) -> dict[str, Any]: ...

    async def collect_garbage(self, progress: Progress | None = None) -> dict[str, int]:
        """Erases what deletions left behind and gives the space back."""

    async def close(self) -> None: ...

    # The last one, because below it `list` names this method.
    async def list(self, query: Query) -> list[Checkpoint]:
        """Checkpoints with state=None, without reading one state."""

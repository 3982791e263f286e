"""The rules that every store applies to a change before it writes: ownership, order and the rewind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from holdfast.errors import InvalidArgument, Moved, OwnedElsewhere, StaleWriter, UnknownCheckpoint, WrongOwner
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, Record, Rewind

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import Change, ReceiveAgain


class Head(NamedTuple):
    """Where an agent's history ends now. Stores keep one per agent and replace it with every commit.

    A tuple, because every save makes several, and copying a dataclass takes four times as long.
    """

    user_id: str
    agent_type: str = ""
    seq: int = 0
    commit_number: int = 0
    epoch: int = 0
    owner: str | None = None
    tip_seq: int = 0  # the newest checkpoint on the live path; 0: none
    tip_id: str | None = None
    live: int = 0  # checkpoints that were not deleted
    runs: int = 0  # run records ever written: a rewind must look at them only when there are some
    floor: int = 0  # everything up to here was erased
    origin: tuple[str, int] | None = None  # the agent and position where a fork's own history begins
    inbox_last: int = 0
    inbox_acknowledged: int = 0

    def evolve(self, **changes: Any) -> Self:
        return self._replace(**changes)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a checkpoint stands."""

    agent_id: str
    seq: int


def check_owner(change: Change, head: Head | None) -> None:
    """An agent belongs to the user of its first write."""
    if head is not None and head.user_id != change.user_id:
        raise WrongOwner(
            f"Agent {change.agent_id} belongs to another user than {change.user_id}",
            agent_id=change.agent_id,
            user_id=change.user_id,
        )


def claim(
    change: Change, head: Head, *, writer: str, joined: bool, alive: Callable[[str], bool]
) -> tuple[int, str | None]:
    """The epoch and owner after this change, or the refusal.

    `joined` says that another operation of this same writer goes on after the change: it stays the owner.
    """
    _check_newest(change, head)
    owner_after = writer if change.hold or joined else None
    if change.epoch is not None:
        if head.epoch != change.epoch or head.owner != writer:
            raise StaleWriter(
                f"Agent {change.agent_id} was taken over: this operation has epoch {change.epoch}, "
                f"the agent is at {head.epoch}",
                agent_id=change.agent_id,
                epoch=change.epoch,
            )
        return head.epoch, owner_after
    if head.owner is None:
        return head.epoch + 1 if change.hold else head.epoch, owner_after
    if head.owner == writer:
        return head.epoch, owner_after if joined or change.hold else head.owner
    if alive(head.owner) and not change.take_over:
        raise OwnedElsewhere(
            f"Agent {change.agent_id} is being advanced by another live process (writer {head.owner})",
            agent_id=change.agent_id,
            owner=head.owner,
            epoch=head.epoch,
        )
    return head.epoch + 1, owner_after


def check_position(change: Change, head: Head) -> None:
    """Nothing was written to the agent since the change's maker read it, if the change says up to where that was."""
    if change.after is not None and change.after != head.seq:
        raise Moved(
            f"Agent {change.agent_id} is at position {head.seq}, not at {change.after} as when it was read",
            agent_id=change.agent_id,
            seq=head.seq,
        )


def _check_newest(change: Change, head: Head) -> None:
    """Who went on from another checkpoint than the newest would leave somebody's work behind."""
    if change.only_newest and change.checkpoint is not None and change.checkpoint.parent_checkpoint_id != head.tip_id:
        raise StaleWriter(
            f"Agent {change.agent_id} was advanced by somebody else: its newest checkpoint is {head.tip_id}, "
            f"not {change.checkpoint.parent_checkpoint_id}",
            agent_id=change.agent_id,
            checkpoint_id=head.tip_id,
            epoch=head.epoch,
        )


def parent_of(change: Change, head: Head) -> str | None:
    """The id of the new checkpoint's parent."""
    if change.checkpoint is None:
        return None
    return head.tip_id if change.continue_newest else change.checkpoint.parent_checkpoint_id


def origin_of(change: Change, place_of: Callable[[str], Place | None]) -> tuple[str, int] | None:
    """Where a fork's past ends. Only an agent's first commit can be a fork."""
    if change.fork_of is None:
        return None
    place = place_of(change.fork_of)
    if place is None:
        raise UnknownCheckpoint(f"There is no checkpoint {change.fork_of} to fork", checkpoint_id=change.fork_of)
    return place.agent_id, place.seq


def records_of(
    change: Change, head: Head, *, place_of: Callable[[str], Place | None], deleted: tuple[str, ...], digest: bytes
) -> list[Record]:
    """The records that this change appends, numbered: deletions, a rewind if it branches, its own, the checkpoint's.

    `deleted` are the ids of `change.delete` that really are there to delete.
    """
    records: list[Record] = [CheckpointDeleted(id=id_) for id_ in deleted]
    parent = parent_of(change, head)
    if parent is not None and parent != head.tip_id:
        place = place_of(parent)
        if place is not None and place.agent_id == change.agent_id and place.seq > head.floor:
            records.append(Rewind(to=place.seq))
    records.extend(change.records)
    records = [record.evolve(seq=head.seq + offset) for offset, record in enumerate(records, start=1)]
    if change.checkpoint is not None:
        saved = CheckpointSaved(
            seq=head.seq + len(records) + 1,
            id=change.checkpoint.id,
            kind=str(change.checkpoint.kind),
            parent=parent,
            digest=digest,
            forked_from=_forked_from(change, place_of),
        )
        records.append(saved)
    return records


def received_again(messages: Iterable[tuple[int, str, int]], again: ReceiveAgain) -> list[int]:
    """Which of the messages (number, sender, original number) wait again, in order; each original once.

    Those that waited at that moment, and those that were sent later by anybody whose sending is not undone. What had
    been dealt with by then may have a later number as well, from an inbox that was put back to a time before that.
    """
    listed = [*messages]
    waited = {original for number, _, original in listed if again.acknowledged < number <= again.last}
    numbers: dict[int, int] = {}
    for number, sender, original in listed:
        later = original > again.last and sender not in again.without
        if original in waited or later:
            numbers.setdefault(original, number)
    return list(numbers.values())


def _forked_from(change: Change, place_of: Callable[[str], Place | None]) -> dict[str, Any] | None:
    origin = origin_of(change, place_of)
    if origin is None:
        return None
    return {"agentId": origin[0], "seq": origin[1], "checkpointId": change.fork_of}


def with_inbox(checkpoint: Checkpoint, head: Head) -> Checkpoint:
    """A group's checkpoint says where its agent's inbox stood: the cut is consistent with the messages, too."""
    if checkpoint.group_id is None or not head.inbox_last:
        return checkpoint
    return checkpoint.evolve(inbox=(head.inbox_acknowledged, head.inbox_last))


def check_recipients(changes: tuple[Change, ...], head_of: Callable[[str], Head | None]) -> None:
    """A message may only go to an agent of the user that it names; an agent that is new to the store is that user's."""
    users = {change.agent_id: change.user_id for change in changes}
    for change in changes:
        for message in change.send:
            head = head_of(message.to)
            user_id = users.setdefault(message.to, message.user_id) if head is None else head.user_id
            if user_id != message.user_id:
                raise WrongOwner(
                    f"Agent {message.to} belongs to another user than {message.user_id}",
                    agent_id=message.to,
                    user_id=message.user_id,
                )


def completed(
    change: Change, checkpoint: Checkpoint, *, parent: str | None, seq: int, commit_number: int
) -> Checkpoint:
    """The checkpoint as it is listed from now on: with the numbers that only the store could give."""
    return checkpoint.evolve(
        user_id=change.user_id,
        parent_checkpoint_id=parent,
        position=seq,
        commit_number=commit_number,
        state=None,
    )


def check_distinct(changes: tuple[Change, ...]) -> None:
    """One commit changes an agent once: two changes to one agent would need an order of their own."""
    seen: set[str] = set()
    for change in changes:
        if change.agent_id in seen:
            raise InvalidArgument(f"One commit has two changes for agent {change.agent_id}", agent_id=change.agent_id)
        seen.add(change.agent_id)

"""`Turn`: one message to an agent, from the first commit, which takes the agent, to the last, which gives it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.durable.operation import Operation
from holdfast.durable.saving import Purpose
from holdfast.errors import HoldfastError
from holdfast.history.checkpoint import Kind
from holdfast.history.records import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.durable.operation import Operations
    from holdfast.durable.redaction import Redact
    from holdfast.history.records import Record
    from holdfast.storage.protocol import Committed


def turns_of(manager: CheckpointManager) -> Turns:
    """The turns of a manager's agents: no method of it, because only what runs agents needs them."""
    return manager._turns()  # noqa: SLF001 - of the same package


class Turns:
    """Makes the turns of a manager's agents."""

    def __init__(
        self,
        *,
        save: Callable[[Sequence[Any], Purpose], Awaitable[list[Committed]]],
        release: Callable[..., Awaitable[None]],
        operations: Operations,
        in_turn: set[str],
        redact: Redact | None,
        with_records: bool,
    ) -> None:
        self._save = save
        self._release = release
        self._operations = operations
        self._in_turn = in_turn
        self._redact = redact
        self._with_records = with_records

    def of(self, agent: Any) -> Turn:
        """A new turn of this agent."""
        return Turn(self, agent)

    def under_way(self, agent_id: str) -> bool:
        """Whether this process holds the agent for a message now, by whichever manager of this storage."""
        return agent_id in self._in_turn

    async def save(self, agent: Any, purpose: Purpose, records: tuple[Record, ...]) -> Committed:
        """One commit of a turn. What is said is stored without what the manager takes out of states."""
        kept = tuple(map(self._redacted, records)) if self._with_records else ()
        [done] = await self._save([agent], replace(purpose, records=kept))
        return done

    async def release(self, operation: Operation) -> None:
        await self._release(operation, delete=False)

    def began(self, operation: Operation) -> None:
        self._operations.begin(operation)
        self._in_turn.add(operation.agent_id)

    def ended(self, operation: Operation) -> None:
        self._operations.end(operation)
        self._in_turn.discard(operation.agent_id)

    def _redacted(self, record: Record) -> Record:
        if self._redact is None or not isinstance(record, UserMessage | AssistantMessage):
            return record
        content, found = self._redact(record.content, "content")
        return record.evolve(content=content, redacted=found) if found else record


class Turn:
    """Made by `turns_of(manager).of(agent)`. What the agent's code saves meanwhile belongs to it.

    Each commit is a checkpoint of the agent as it is then, together with records (a storage of checkpoints only has
    no place for those). The first is refused with `StaleWriter` when somebody else advanced the agent since the
    object was loaded, and with `OwnedElsewhere` while another process is handling a message of it.
    """

    def __init__(self, turns: Turns, agent: Any) -> None:
        self.turns = turns
        self.agent = agent
        self.operation: Operation | None = None

    async def keep(self, *records: Record, metadata: dict[str, Any] | None = None) -> None:
        """A checkpoint on the way; the agent is held from the first on."""
        if self.operation is not None:
            await self.turns.save(self.agent, Purpose(kind=Kind.AUTO, metadata=metadata), records)
            return
        begins = Purpose(kind=Kind.AUTO, metadata=metadata, hold=True, only_newest=True)
        self.operation = Operation.begun_with([await self.turns.save(self.agent, begins, records)], "message")
        self.turns.began(self.operation)

    async def end(self, *records: Record, metadata: dict[str, Any] | None = None) -> None:
        """The last checkpoint, the only one maybe; the agent is given back in the same commit."""
        held = self.operation is not None
        ends = Purpose(kind=Kind.AUTO, metadata=metadata, release=held, only_newest=not held)
        await self.turns.save(self.agent, ends, records)
        self.leave()

    async def give_up(self) -> None:
        """Gives the agent back as it was kept last, if that is still possible."""
        operation = self.leave()
        if operation is not None:
            try:
                await self.turns.release(operation)
            except HoldfastError:
                return  # whoever took it over has it, or the place does not work: what went wrong before says so

    def leave(self) -> Operation | None:
        """Forgets the turn, without a word to the store: for others the agent stays taken while this process lives."""
        operation, self.operation = self.operation, None
        if operation is not None:
            self.turns.ended(operation)
        return operation

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
    from holdfast.durable.operation import Operations
    from holdfast.durable.redaction import Redact
    from holdfast.history.records import Record
    from holdfast.storage.protocol import Committed


class Turn:
    """Made by `manager.turn(agent)`. What the agent's code saves meanwhile belongs to it.

    Each commit is a checkpoint of the agent as it is then, together with records (a storage of checkpoints only has
    no place for those). The first is refused with `StaleWriter` when somebody else advanced the agent since the
    object was loaded, and with `OwnedElsewhere` while another process is handling a message of it.
    """

    def __init__(
        self,
        agent: Any,
        *,
        save: Callable[[Sequence[Any], Purpose], Awaitable[list[Committed]]],
        release: Callable[..., Awaitable[None]],
        operations: Operations,
        in_turn: set[str],
        redact: Redact | None,
        with_records: bool,
    ) -> None:
        self.agent = agent
        self.operation: Operation | None = None
        self._save = save
        self._release = release
        self._operations = operations
        self._in_turn = in_turn
        self._redact = redact
        self._with_records = with_records

    async def keep(self, *records: Record, metadata: dict[str, Any] | None = None) -> None:
        """A checkpoint on the way; the agent is held from the first on."""
        if self.operation is not None:
            await self._commit(records, Purpose(kind=Kind.AUTO, metadata=metadata))
            return
        begins = Purpose(kind=Kind.AUTO, metadata=metadata, hold=True, only_newest=True)
        self.operation = Operation.begun_with(await self._commit(records, begins), "message")
        self._operations.begin(self.operation)
        self._in_turn.add(self.operation.agent_id)

    async def end(self, *records: Record, metadata: dict[str, Any] | None = None) -> None:
        """The last checkpoint, the only one maybe; the agent is given back in the same commit."""
        held = self.operation is not None
        await self._commit(records, Purpose(kind=Kind.AUTO, metadata=metadata, release=held, only_newest=not held))
        self.leave()

    async def give_up(self) -> None:
        """Gives the agent back as it was kept last, if that is still possible."""
        operation = self.leave()
        if operation is not None:
            try:
                await self._release(operation, delete=False)
            except HoldfastError:
                return  # whoever took it over has it, or the place does not work: what went wrong before says so

    def leave(self) -> Operation | None:
        """Forgets the turn, without a word to the store: for others the agent stays taken while this process lives."""
        operation, self.operation = self.operation, None
        if operation is not None:
            self._operations.end(operation)
            self._in_turn.discard(operation.agent_id)
        return operation

    async def _commit(self, records: tuple[Record, ...], purpose: Purpose) -> list[Committed]:
        kept = tuple(map(self._redacted, records)) if self._with_records else ()
        return await self._save([self.agent], replace(purpose, records=kept))

    def _redacted(self, record: Record) -> Record:
        """What is said, without what the manager takes out of states."""
        if self._redact is None or not isinstance(record, UserMessage | AssistantMessage):
            return record
        content, found = self._redact(record.content, "content")
        return record.evolve(content=content, redacted=found) if found else record

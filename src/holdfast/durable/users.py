"""Who uses a storage, and what they must know together: the last one to let go closes it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.durable.identity import ByIdentity
from holdfast.errors import OwnedElsewhere

if TYPE_CHECKING:
    from holdfast.storage.protocol import CheckpointStorage


class Users:
    """The managers and runners of one storage, where live objects came from, which runs go on, which agents are busy.

    One that was forgotten without being closed uses nothing any more.
    """

    def __init__(self) -> None:
        self.lineage: ByIdentity[str] = ByIdentity()
        self.in_turn: set[str] = set()  # agents that are handling a message now
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()
        self._busy: set[tuple[str, ...]] = set()  # runs and agents that something here is at
        self._lock = threading.Lock()

    def join(self, user: Any) -> None:
        self._users.add(user)

    def leave(self, user: Any) -> bool:
        """Whether nobody uses the storage now."""
        self._users.discard(user)
        return not self._users

    def executing(self, agent_id: str, run: str) -> AbstractContextManager[None]:
        """While a run is executed here: the store keeps other processes out, and this everybody else in this one."""
        refusal = OwnedElsewhere(
            f"Run {run} of agent {agent_id} is being executed in this process already",
            agent_id=agent_id, tool_call_id=run, hint="Wait for its end, then ask for its result.",
        )  # fmt: skip
        return self._alone((agent_id, run), refusal)

    def advancing(self, agent_id: str) -> AbstractContextManager[None]:
        """The same while something here advances an agent through several commits."""
        refusal = OwnedElsewhere(
            f"Agent {agent_id} is being advanced by something else in this process", agent_id=agent_id,
            hint="Wait until that ends: an agent does one thing after another.",
        )  # fmt: skip
        return self._alone((agent_id,), refusal)

    @contextmanager
    def _alone(self, name: tuple[str, ...], refusal: OwnedElsewhere) -> Iterator[None]:
        with self._lock:
            if name in self._busy:  # the store would let its own writer in
                raise refusal
            self._busy.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(name)


_by_storage: ByIdentity[Users] = ByIdentity()


def users_of(storage: CheckpointStorage) -> Users:
    return _by_storage.setdefault(storage, Users())

"""Who uses a storage, and what they must know together: the last one to let go closes it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from holdfast.durable.identity import ByIdentity

if TYPE_CHECKING:
    from holdfast.storage.protocol import CheckpointStorage


class Users:
    """The managers of one storage, and which checkpoint each live object came from.

    One that was forgotten without being closed uses nothing any more.
    """

    def __init__(self) -> None:
        self.lineage: ByIdentity[str] = ByIdentity()
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()

    def join(self, user: Any) -> None:
        self._users.add(user)

    def leave(self, user: Any) -> bool:
        """Whether nobody uses the storage now."""
        self._users.discard(user)
        return not self._users


_by_storage: ByIdentity[Users] = ByIdentity()


def users_of(storage: CheckpointStorage) -> Users:
    return _by_storage.setdefault(storage, Users())

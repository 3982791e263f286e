"""A folder of checkpoint files as the command line sees it: the checkpoints of all users at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.adapter import StorageAdapter
from holdfast.storage.files import FileCheckpointStorage
from holdfast.storage.protocol import Query


class FolderStore(StorageAdapter):
    """The adapter for three methods can't list all users; whoever may read the folder may."""

    def __init__(self, files: FileCheckpointStorage) -> None:
        super().__init__(files)
        self.files = files

    async def stats(self) -> dict[str, Any]:
        listed = await self.list(Query(limit=None))
        return {
            "path": str(self.files.directory),
            "users": len({one.user_id for one in listed}),
            "agents": len({one.agent_id for one in listed}),
            "checkpoints": len(listed),
            "checkpoints_by_kind": dict(Counter(str(one.kind) for one in listed)),
            "bytes": {"files": await asyncio.to_thread(self._size)},
        }

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self.files.entries())

    async def _page(self, query: Query, limit: int, offset: int) -> list[Checkpoint]:
        if query.user_id is None and query.agent_id is None:
            return await asyncio.to_thread(self._everyone, limit, offset)
        return await super()._page(query, limit, offset)

    def _everyone(self, limit: int, offset: int) -> list[Checkpoint]:
        return self.files._page(None, None, limit, offset)  # noqa: SLF001 - the same page, of all users

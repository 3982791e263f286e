"""What may be on a disk after its power was cut: any part of what was not synced, torn at sectors of 512 bytes.

Names are kept in their order: of those made and deleted since the folder was synced, the first so and so many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum

from tests.faults.disk import Event, FolderSynced, Named, Renamed, Synced, Told, Truncated, Wrote

SECTOR = 512
Image = dict[str, bytes]


class _Certainty(Enum):
    WAITS = "waits for a sync"
    DOUBTFUL = "its sync failed: it is there or not, and no later sync changes that"
    SURE = "synced"


@dataclass(slots=True)
class _File:
    """One inode: the bytes that are there for certain, and everything since the first that is not."""

    certain: bytearray = field(default_factory=bytearray)
    changes: list[list] = field(default_factory=list)  # [Wrote | Truncated, _Certainty]

    def sync(self, *, failed: bool) -> None:
        for change in self.changes:
            if change[1] is _Certainty.WAITS:
                change[1] = _Certainty.DOUBTFUL if failed else _Certainty.SURE
        while self.changes and self.changes[0][1] is _Certainty.SURE:
            _apply(self.certain, self.changes.pop(0)[0])

    def content(self, keep) -> bytes:
        found = bytearray(self.certain)
        for change, certainty in self.changes:
            for part in [change] if certainty is _Certainty.SURE else keep(change):
                _apply(found, part)
        return bytes(found)


class Remains:
    """Follows the events; at any of them it can say what a cut would leave."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}
        self._unsynced_names: list[Named | Renamed] = []

    def follow(self, event: Event) -> None:
        if isinstance(event, Wrote | Truncated):
            self._files.setdefault(event.inode, _File()).changes.append([event, _Certainty.WAITS])
        elif isinstance(event, Synced):
            self._files.setdefault(event.inode, _File()).sync(failed=event.failed)
        elif isinstance(event, Named | Renamed):
            self._unsynced_names.append(event)
        elif isinstance(event, FolderSynced):
            for named in self._unsynced_names:
                _name(self._names, named)
            self._unsynced_names.clear()
        else:
            assert isinstance(event, Told)

    @property
    def is_certain(self) -> bool:
        """Whether a cut would leave one image only."""
        return not self._unsynced_names and not any(file.changes for file in self._files.values())

    def least(self) -> Image:
        """Nothing that was not synced."""
        return self._image(lambda _: [], 0)

    def most(self) -> Image:
        """Everything, as after a killed process."""
        return self._image(lambda change: [change], len(self._unsynced_names))

    def some(self, chance: random.Random) -> Image:
        """Any part."""
        bias = chance.choice((0.1, 0.5, 0.9))

        def keep(change: Wrote | Truncated) -> list[Wrote | Truncated]:
            if isinstance(change, Wrote) and chance.random() < 0.3:
                return [sector for sector in _sectors(change) if chance.random() < 0.5]
            return [change] if chance.random() < bias else []

        return self._image(keep, chance.randint(0, len(self._unsynced_names)))

    def _image(self, keep, names: int) -> Image:
        found = dict(self._names)
        for named in self._unsynced_names[:names]:
            _name(found, named)
        contents: dict[int, bytes] = {}
        for inode in found.values():
            if inode not in contents:
                contents[inode] = self._files.get(inode, _File()).content(keep)
        return {name: contents[inode] for name, inode in found.items()}


def _apply(content: bytearray, change: Wrote | Truncated) -> None:
    if isinstance(change, Truncated):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    end = change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.offset : end] = change.data


def _sectors(change: Wrote) -> list[Wrote]:
    """The write as the sectors that it touches; each is written whole or not at all."""
    found, at = [], change.offset
    end = change.offset + len(change.data)
    while at < end:
        until = min(end, (at // SECTOR + 1) * SECTOR)
        found.append(Wrote(change.inode, at, change.data[at - change.offset : until - change.offset]))
        at = until
    return found


def _name(names: dict[str, int], event: Named | Renamed) -> None:
    if isinstance(event, Renamed):
        names.pop(event.old, None)
        names[event.new] = event.inode
    elif event.inode is None:
        names.pop(event.name, None)
    else:
        names[event.name] = event.inode

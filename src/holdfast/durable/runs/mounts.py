"""Folders of the host that a program may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from pydantic_monty import MountDir


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, read-only unless it says otherwise. What is in it is read as it is when a run is replayed."""

    folder: str | Path
    writable: bool = False


def mount_dirs(mounts: Mapping[str, str | Path | Mount]) -> tuple[MountDir, ...]:
    """The mounts by their paths in the sandbox."""
    if not mounts:
        return ()
    from pydantic_monty import MountDir

    opened = []
    for path, mount in mounts.items():
        wanted = mount if isinstance(mount, Mount) else Mount(mount)
        try:
            opened.append(
                MountDir(
                    host_path=Path(wanted.folder),
                    virtual_path=path,
                    mode="read-write" if wanted.writable else "read-only",
                )
            )
        except (OSError, TypeError, ValueError) as error:
            raise InvalidArgument(f"{wanted.folder} can't be mounted at {path}: {error}", path=path) from error
    return tuple(opened)

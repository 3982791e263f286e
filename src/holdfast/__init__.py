"""Holdfast keeps an AI agent's place: kill the process anywhere, and it goes on from there.

Names are imported when they are first used, so that `import holdfast` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.durable.operation import Operation
    from holdfast.durable.redaction import Redactor
    from holdfast.errors import (
        Closed,
        Corrupt,
        DiskFull,
        DuplicateId,
        HoldfastError,
        InvalidArgument,
        InvalidImport,
        KeyMissing,
        MissingMethod,
        NotFound,
        OwnedElsewhere,
        Poisoned,
        ReadOnly,
        Refused,
        RunMismatch,
        StaleWriter,
        StorageFailed,
        TooLarge,
        UnknownAgent,
        UnknownAgentType,
        UnknownCheckpoint,
        UnknownGroup,
        UnknownValueType,
        Unopenable,
        Unstorable,
        WrongAgent,
        WrongKey,
        WrongOwner,
    )
    from holdfast.history.checkpoint import Checkpoint, Kind
    from holdfast.history.diff import Change, CheckpointDiff
    from holdfast.history.registry import register_type
    from holdfast.history.retention import Policy, Removal
    from holdfast.storage.files import FileCheckpointStorage
    from holdfast.storage.memory import InMemoryCheckpointStorage
    from holdfast.storage.protocol import CheckpointStorage, Damage, Report, Store
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

_HOMES = {
    "durable.manager": ("CheckpointManager",),
    "durable.operation": ("Operation",),
    "durable.redaction": ("Redactor",),
    "errors": (
        "Closed",
        "Corrupt",
        "DiskFull",
        "DuplicateId",
        "HoldfastError",
        "InvalidArgument",
        "InvalidImport",
        "KeyMissing",
        "MissingMethod",
        "NotFound",
        "OwnedElsewhere",
        "Poisoned",
        "ReadOnly",
        "Refused",
        "RunMismatch",
        "StaleWriter",
        "StorageFailed",
        "TooLarge",
        "UnknownAgent",
        "UnknownAgentType",
        "UnknownCheckpoint",
        "UnknownGroup",
        "UnknownValueType",
        "Unopenable",
        "Unstorable",
        "WrongAgent",
        "WrongKey",
        "WrongOwner",
    ),
    "history.checkpoint": ("Checkpoint", "Kind"),
    "history.diff": ("Change", "CheckpointDiff"),
    "history.registry": ("register_type",),
    "history.retention": ("Policy", "Removal"),
    "storage.files": ("FileCheckpointStorage",),
    "storage.memory": ("InMemoryCheckpointStorage",),
    "storage.protocol": ("CheckpointStorage", "Damage", "Report", "Store"),
    "storage.sqlite.store": ("SQLiteCheckpointStorage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Change",
    "Checkpoint",
    "CheckpointDiff",
    "CheckpointManager",
    "CheckpointStorage",
    "Closed",
    "Corrupt",
    "Damage",
    "DiskFull",
    "DuplicateId",
    "FileCheckpointStorage",
    "HoldfastError",
    "InMemoryCheckpointStorage",
    "InvalidArgument",
    "InvalidImport",
    "KeyMissing",
    "Kind",
    "MissingMethod",
    "NotFound",
    "Operation",
    "OwnedElsewhere",
    "Poisoned",
    "Policy",
    "ReadOnly",
    "Redactor",
    "Refused",
    "Removal",
    "Report",
    "RunMismatch",
    "SQLiteCheckpointStorage",
    "StaleWriter",
    "StorageFailed",
    "Store",
    "TooLarge",
    "UnknownAgent",
    "UnknownAgentType",
    "UnknownCheckpoint",
    "UnknownGroup",
    "UnknownValueType",
    "Unopenable",
    "Unstorable",
    "WrongAgent",
    "WrongKey",
    "WrongOwner",
    "__version__",
    "register_type",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

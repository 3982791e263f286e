"""Holdfast keeps an AI agent's place: kill the process anywhere, and it goes on from there.

Names are imported when they are first used, so that `import holdfast` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.agents.loop.ended import Ended
    from holdfast.agents.loop.group import LoopGroup
    from holdfast.agents.loop.loop import AgentLoop
    from holdfast.agents.loop.mailbox import Mailbox
    from holdfast.agents.loop.tasklist import TaskList
    from holdfast.agents.loop.tasks import Task
    from holdfast.agents.loop.turn import Turn
    from holdfast.agents.model.agent import ModelAgent
    from holdfast.agents.model.limits import ModelLimits
    from holdfast.agents.model.result import ModelResult, ModelUsage, PendingCall, TextDelta
    from holdfast.agents.orchestrator.orchestrator import Orchestrator
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.fields import InputField, OutputField
    from holdfast.agents.standard.message import Message
    from holdfast.agents.standard.result import AgentResult
    from holdfast.agents.standard.status import AgentStatus
    from holdfast.agents.workflow.adapter import StepAgent
    from holdfast.agents.workflow.context import StepContext
    from holdfast.agents.workflow.executor import WorkflowExecutor
    from holdfast.agents.workflow.result import StepProgress, WorkflowResult
    from holdfast.agents.workflow.state import StepStatus
    from holdfast.drift.detector import DriftDetector
    from holdfast.drift.protocol import Drift, DriftEvent
    from holdfast.durable.manager import CheckpointManager
    from holdfast.durable.operation import Operation
    from holdfast.durable.redaction import Redactor
    from holdfast.durable.runs.currentcall import CurrentCall, current_call
    from holdfast.durable.runs.limits import Limits
    from holdfast.durable.runs.mounts import Mount
    from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Unknown
    from holdfast.durable.runs.result import RunResult
    from holdfast.durable.runs.runner import PythonRunner
    from holdfast.durable.runs.tool import Tool
    from holdfast.errors import (
        Closed,
        ContextTooLong,
        Corrupt,
        DiskFull,
        DuplicateId,
        HoldfastError,
        IllegalTransition,
        InvalidArgument,
        InvalidImport,
        InvalidWorkflow,
        KeyMissing,
        LimitReached,
        MissingExtra,
        MissingMethod,
        ModelFailed,
        Moved,
        NotFound,
        OwnedElsewhere,
        Poisoned,
        ReadOnly,
        Refused,
        RolledBack,
        RunMismatch,
        StaleWriter,
        StillWaiting,
        StorageFailed,
        TooLarge,
        UnknownAgent,
        UnknownAgentType,
        UnknownCall,
        UnknownCheckpoint,
        UnknownGroup,
        UnknownRun,
        UnknownValueType,
        Unopenable,
        Unstorable,
        WorkflowChanged,
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
    from holdfast.storage.protocol import CheckpointStorage, Damage, InboxMessage, Report, Store
    from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

_HOMES = {
    "agents.orchestrator.orchestrator": ("Orchestrator",),
    "agents.standard.agent": ("StandardAgent",),
    "agents.standard.fields": ("InputField", "OutputField"),
    "agents.standard.message": ("Message",),
    "agents.standard.result": ("AgentResult",),
    "agents.standard.status": ("AgentStatus",),
    "drift.detector": ("DriftDetector",),
    "drift.protocol": ("Drift", "DriftEvent"),
    "agents.loop.ended": ("Ended",),
    "agents.loop.group": ("LoopGroup",),
    "agents.loop.loop": ("AgentLoop",),
    "agents.loop.mailbox": ("Mailbox",),
    "agents.loop.tasklist": ("TaskList",),
    "agents.loop.tasks": ("Task",),
    "agents.loop.turn": ("Turn",),
    "agents.model.agent": ("ModelAgent",),
    "agents.model.limits": ("ModelLimits",),
    "agents.model.result": ("ModelResult", "ModelUsage", "PendingCall", "TextDelta"),
    "agents.workflow.adapter": ("StepAgent",),
    "agents.workflow.context": ("StepContext",),
    "agents.workflow.executor": ("WorkflowExecutor",),
    "agents.workflow.result": ("StepProgress", "WorkflowResult"),
    "agents.workflow.state": ("StepStatus",),
    "durable.manager": ("CheckpointManager",),
    "durable.operation": ("Operation",),
    "durable.redaction": ("Redactor",),
    "durable.runs.currentcall": ("CurrentCall", "current_call"),
    "durable.runs.limits": ("Limits",),
    "durable.runs.mounts": ("Mount",),
    "durable.runs.outcomes": ("DidNotHappen", "Happened", "Unknown"),
    "durable.runs.result": ("RunResult",),
    "durable.runs.runner": ("PythonRunner",),
    "durable.runs.tool": ("Tool",),
    "errors": (
        "Closed",
        "ContextTooLong",
        "Corrupt",
        "DiskFull",
        "DuplicateId",
        "HoldfastError",
        "IllegalTransition",
        "InvalidArgument",
        "InvalidImport",
        "InvalidWorkflow",
        "KeyMissing",
        "LimitReached",
        "MissingExtra",
        "MissingMethod",
        "Moved",
        "ModelFailed",
        "NotFound",
        "OwnedElsewhere",
        "Poisoned",
        "ReadOnly",
        "Refused",
        "RolledBack",
        "RunMismatch",
        "StaleWriter",
        "StillWaiting",
        "StorageFailed",
        "TooLarge",
        "UnknownAgent",
        "UnknownAgentType",
        "UnknownCall",
        "UnknownCheckpoint",
        "UnknownGroup",
        "UnknownRun",
        "UnknownValueType",
        "Unopenable",
        "Unstorable",
        "WorkflowChanged",
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
    "storage.protocol": ("CheckpointStorage", "Damage", "InboxMessage", "Report", "Store"),
    "storage.sqlite.store": ("SQLiteCheckpointStorage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentLoop",
    "AgentResult",
    "AgentStatus",
    "Change",
    "Checkpoint",
    "CheckpointDiff",
    "CheckpointManager",
    "CheckpointStorage",
    "Closed",
    "ContextTooLong",
    "Corrupt",
    "CurrentCall",
    "Damage",
    "DidNotHappen",
    "DiskFull",
    "Drift",
    "DriftDetector",
    "DriftEvent",
    "DuplicateId",
    "Ended",
    "FileCheckpointStorage",
    "Happened",
    "HoldfastError",
    "IllegalTransition",
    "InMemoryCheckpointStorage",
    "InboxMessage",
    "InputField",
    "InvalidArgument",
    "InvalidImport",
    "InvalidWorkflow",
    "KeyMissing",
    "Kind",
    "LimitReached",
    "Limits",
    "LoopGroup",
    "Mailbox",
    "Message",
    "MissingExtra",
    "MissingMethod",
    "ModelAgent",
    "ModelFailed",
    "ModelLimits",
    "ModelResult",
    "ModelUsage",
    "Mount",
    "Moved",
    "NotFound",
    "Operation",
    "Orchestrator",
    "OutputField",
    "OwnedElsewhere",
    "PendingCall",
    "Poisoned",
    "Policy",
    "PythonRunner",
    "ReadOnly",
    "Redactor",
    "Refused",
    "Removal",
    "Report",
    "RolledBack",
    "RunMismatch",
    "RunResult",
    "SQLiteCheckpointStorage",
    "StaleWriter",
    "StandardAgent",
    "StepAgent",
    "StepContext",
    "StepProgress",
    "StepStatus",
    "StillWaiting",
    "StorageFailed",
    "Store",
    "Task",
    "TaskList",
    "TextDelta",
    "TooLarge",
    "Tool",
    "Turn",
    "Unknown",
    "UnknownAgent",
    "UnknownAgentType",
    "UnknownCall",
    "UnknownCheckpoint",
    "UnknownGroup",
    "UnknownRun",
    "UnknownValueType",
    "Unopenable",
    "Unstorable",
    "WorkflowChanged",
    "WorkflowExecutor",
    "WorkflowResult",
    "WrongAgent",
    "WrongKey",
    "WrongOwner",
    "__version__",
    "current_call",
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

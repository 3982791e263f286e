"""The synchronous form: the same checkpoints for programs without an event loop, or for code below one."""

from holdfast.blocking.checkpoints import CheckpointManager
from holdfast.blocking.loop import run
from holdfast.blocking.manager import Manager
from holdfast.blocking.state import AgentState

__all__ = ["AgentState", "CheckpointManager", "Manager", "run"]

"""The synchronous form: the same checkpoints for programs without an event loop, or for code below one."""

from holdfast.blocking.agentloop import AgentLoop, Mailbox, TaskList
from holdfast.blocking.checkpoints import CheckpointManager
from holdfast.blocking.loop import run
from holdfast.blocking.manager import Manager
from holdfast.blocking.state import AgentState

__all__ = ["AgentLoop", "AgentState", "CheckpointManager", "Mailbox", "Manager", "TaskList", "run"]

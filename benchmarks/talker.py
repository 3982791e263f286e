"""`Talker`: the agent that the benchmarks save, whose state is a conversation."""

from __future__ import annotations

from typing import Any

from benchmarks.words import Message


class Talker:
    """An agent with a growing list of messages."""

    def __init__(self, agent_id: str = "talker", user_id: str = "user") -> None:
        self.agent_id = agent_id
        self.user_id = user_id
        self.status = "RUNNING"
        self.messages: list[Message] = []

    def checkpoint_state(self) -> dict[str, Any]:
        return {"messages": self.messages}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.messages = state["messages"]

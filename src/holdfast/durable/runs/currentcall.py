"""The call that a tool is carrying out, for the tool to ask about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.history.codec import pack

_KEY_BYTES = 16

_current: ContextVar[CurrentCall | None] = ContextVar("holdfast_current_call", default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentCall:
    """One call of a tool by a program: who makes it, which one it is, and how often it has been tried."""

    agent_id: str
    tool_call_id: str
    call_id: int
    attempt: int
    epoch: int
    tool_name: str
    arguments: dict[str, Any]
    feed: int = 0

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, in whichever process, and another one for every other call.

        Hand it to a service that does a thing once per key, and `on_restart="retry"` does it once.
        """
        named = pack([self.agent_id, self.tool_call_id, self.feed, self.call_id])
        return hashlib.blake2b(named, digest_size=_KEY_BYTES, person=b"holdfast-call").hexdigest()


def current_call() -> CurrentCall:
    """The call that the code asking is part of: on the event loop and on a tool's thread, and in all that they call."""
    call = _current.get()
    if call is None:
        raise InvalidArgument(
            "There is no current call: this code does not run inside a tool that a program has called",
            hint="Ask in the function that was given to PythonRunner(tools=...); a thread that it starts on its own"
            " needs contextvars.copy_context().",
        )
    return call


@contextmanager
def calling(call: CurrentCall) -> Iterator[None]:
    """While this lasts, it is the current call of everything that runs in it."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)

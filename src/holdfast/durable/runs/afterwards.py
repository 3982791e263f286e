"""What becomes of a call afterwards, whoever asked for it: after a restart, and when its result can't be kept."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.durable.runs.currentcall import CurrentCall, calling
from holdfast.durable.runs.outcomes import DidNotHappen, Outcome, Unknown
from holdfast.errors import Unstorable
from holdfast.history import codec

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool

log = logging.getLogger("holdfast")


async def after_restart(tool: Tool | None, call: CurrentCall) -> Outcome:
    """What becomes of a call that a dead process may or may not have made, as its tool wants it.

    `Happened`: this is its result. `DidNotHappen`: it may be made again. `Unknown`: whoever asked for it is told so. A
    `reconcile` that fails says nothing.
    """
    if tool is None or tool.on_restart == "error":
        return Unknown()
    if tool.on_restart == "retry":
        return DidNotHappen()
    try:
        with calling(call):
            return await tool.ask(call)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it is not known whether the call happened
        log.warning(
            "Whether %s of %s, agent %s, happened is unknown: %s",
            call.tool_name, call.tool_call_id, call.agent_id, error,
        )  # fmt: skip
        return Unknown()


def why_not_kept(name: str, result: Any, bytes_max: int) -> str | None:
    """Why a plain result can't be kept, if it can't. The call has happened either way, which this says, too."""
    try:
        size = len(codec.encode(result, path="result"))
    except Unstorable as error:
        return f"{name}() was called; its result can't be kept: {error.message}"
    return f"{name}() was called; its result of {size:,} bytes is over {bytes_max:,}" if size > bytes_max else None

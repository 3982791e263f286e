"""The outer protocol: the model's tool call that a run belongs to, and the records that complete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.history.records import AssistantMessage, Record, RlmComplete, ToolResult, UserMessage

if TYPE_CHECKING:
    from holdfast.durable.runs.result import RunResult
    from holdfast.storage.protocol import Store

_PAGE: Final = 64
_RECORDS_MAX: Final = 4096  # how far back an assistant message is looked for


async def belongs(store: Store, agent_id: str, name: str, before: int) -> bool:
    """Whether the newest assistant message before this position asked for the run, and has no result for it yet."""
    end = before - 1
    answered = False
    while end > 0 and before - end < _RECORDS_MAX:
        start = max(0, end - _PAGE)
        for record in reversed(await store.read(agent_id, after=start, limit=end - start, snapshots=False)):
            answered = answered or (isinstance(record, ToolResult) and record.tool_call_id == name)
            if isinstance(record, AssistantMessage):
                return not answered and any(call.get("id") == name for call in record.tool_calls)
        end = start
    return False


def completing(complete: RlmComplete, result: RunResult, *, outer: bool, recovered: bool) -> tuple[Record, ...]:
    """The records that end a run, for one commit."""
    if not outer:
        return (complete,)
    answer = ToolResult(tool_call_id=complete.tool_call_id, content=result.content, is_error=result.is_error)
    if not recovered:
        return complete, answer
    how = "ended with an error" if result.is_error else "completed"
    told = (
        f"The process that ran run_python call {complete.tool_call_id} was restarted. "
        f"The program was recovered where it stood and {how}:\n{result.content}"
    )
    message = UserMessage(content=f'<system_message origin="rlm_restore">{told}</system_message>', origin="rlm_restore")
    return complete, answer, message

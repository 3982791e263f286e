"""Claims about what a tool can ask about its call."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from holdfast import InvalidArgument
from holdfast.durable.runs.currentcall import CurrentCall, calling, current_call

CALL = CurrentCall(
    agent_id="ada", tool_call_id="call_1", call_id=3, attempt=1, epoch=7, tool_name="send", arguments={"to": "bob"}
)


def test_the_key_is_the_same_for_every_attempt_and_every_owner_and_never_changes():
    again = dataclasses.replace(CALL, attempt=2, epoch=9)
    assert again.idempotency_key == CALL.idempotency_key
    # Services remember keys for days: this one must be what earlier versions made of the same call.
    assert CALL.idempotency_key == "3a4d2a481ded0417b4b8b1e2661952c2"


@pytest.mark.parametrize(
    "other",
    [
        {"agent_id": "bob"},
        {"tool_call_id": "call_2"},
        {"call_id": 4},
        {"feed": 1},
        {"agent_id": "adac", "tool_call_id": "all_1"},
        {"feed": 3, "call_id": 0},
    ],
)
def test_every_other_call_has_another_key(other):
    assert dataclasses.replace(CALL, **other).idempotency_key != CALL.idempotency_key


def test_outside_of_a_tool_there_is_no_current_call():
    with pytest.raises(InvalidArgument, match="no current call") as caught:
        current_call()
    assert "inside" not in caught.value.hint
    assert "PythonRunner(tools=...)" in caught.value.hint


def test_calls_nest_and_end():
    inner = dataclasses.replace(CALL, call_id=4)
    with calling(CALL):
        with calling(inner):
            assert current_call() is inner
        assert current_call() is CALL
    with pytest.raises(InvalidArgument):
        current_call()


async def test_tasks_and_threads_that_a_tool_starts_are_part_of_its_call():
    other = dataclasses.replace(CALL, call_id=4)

    async def tool(call):
        with calling(call):
            await asyncio.sleep(0)
            own = current_call()
            return own, await asyncio.create_task(_asked()), await asyncio.to_thread(current_call)

    assert await asyncio.gather(tool(CALL), tool(other)) == [(CALL,) * 3, (other,) * 3]


async def _asked():
    return current_call()

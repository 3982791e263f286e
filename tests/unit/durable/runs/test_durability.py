"""What a run does when its records can't be made durable: no tool is called, and nothing is lost."""

from __future__ import annotations

import pytest

from holdfast.durable.runs.tool import Tool
from holdfast.errors import DiskFull, Poisoned
from holdfast.history.records import RlmToolCall, RlmToolResult
from holdfast.storage.sqlite import SQLiteCheckpointStorage

CODE = """
told = []
for n in range(3):
    told.append(await step(n))
    told.append(plain(n))
told
"""
EVERY_CALL = [(name, n) for n in range(3) for name in ("step", "plain")]


class Failing(SQLiteCheckpointStorage):
    """A store that can't write from its n-th commit on."""

    fails_at = 0
    commits = 0
    error: type[Exception] = DiskFull

    async def commit(self, *changes):
        self.commits += 1
        if self.commits >= self.fails_at:
            raise self.error("nothing more can be written")
        return await super().commit(*changes)


def recording(done: list):
    async def step(n: int) -> int:
        done.append(("step", n))
        return n

    def plain(n: int) -> int:
        done.append(("plain", n))
        return n * 10

    return [Tool(step, on_restart="retry"), Tool(plain, on_restart="retry")]


@pytest.mark.parametrize("fails_at", range(1, 9))
@pytest.mark.parametrize("error", [DiskFull, Poisoned])
async def test_a_tool_is_called_only_when_its_record_is_durable(runner_with, tmp_path, fails_at, error):
    path, done = tmp_path / "store.db", []
    failing = Failing(path)
    failing.fails_at, failing.error = fails_at, error
    with pytest.raises(error):
        await runner_with(*recording(done), storage=failing).run("a", CODE, "call_1")
    await failing.close()
    whole = SQLiteCheckpointStorage(path)
    records = await whole.read("a")
    asked = [(record.tool_name, record.tool_args["n"]) for record in records if isinstance(record, RlmToolCall)]
    assert done == asked[: len(done)]
    assert len(done) == len(asked), "and every call that is recorded was made"

    again = []
    result = await runner_with(*recording(again), storage=whole).run("a", CODE, "call_1")
    if fails_at <= 2:
        assert done == []
    if fails_at == 1:
        assert result.output == [0, 0, 1, 10, 2, 20], "nothing of it was recorded: it began anew"
    elif fails_at == 2:
        assert result.error == "Process was restarted before any tool call"
    else:
        assert result.output == [0, 0, 1, 10, 2, 20]
        known = sum(isinstance(record, RlmToolResult) for record in records)
        assert again == EVERY_CALL[known:], "what has a recorded result is not asked for again"
    await whole.close()

"""What a workflow takes from the environment is in nothing that is stored."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdfast import CheckpointManager, SQLiteCheckpointStorage, register_type
from holdfast.agents.workflow.secrets import Secrets

SECRET = "hunter2-hunter2-ß"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TRIP_KEY", SECRET)


@register_type
@dataclass
class Session:
    key: str


async def test_a_secret_reaches_the_step_and_no_file(tmp_path, notes, file):
    seen = []

    async def use(inputs, context):
        seen.append(inputs)
        if context.attempt == 1:
            raise ValueError(f"401 for {inputs['key']}")
        return {"said": f"used {inputs['key']}", inputs["key"]: [inputs["key"].encode()], "n": 1}

    path = file("""
        steps:
          - {name: a, agent: use, inputs: {key: "${env:TRIP_KEY}"}, retry: {max_attempts: 2}}
          - {name: b, agent: echo, inputs: {a: "${a.output}"}, when: "${env:TRIP_KEY} != ''"}
    """)
    async with CheckpointManager(SQLiteCheckpointStorage(tmp_path / "store.db")) as manager:
        result = await notes.executor(manager, use=use).run(path)
        checkpoints = [await manager.load(one) for one in result.checkpoint_ids]
    assert seen == [{"key": SECRET}] * 2
    cleaned = {"said": "used [env:TRIP_KEY]", "[env:TRIP_KEY]": [b"[env:TRIP_KEY]"], "n": 1}
    assert result.outputs == {"a": cleaned, "b": {"a": cleaned}}
    assert checkpoints[1].state["steps"]["a"]["error"] == "ValueError: 401 for [env:TRIP_KEY]"
    assert SECRET not in str([one.to_dict() for one in checkpoints])
    for one in tmp_path.glob("store.db*"):
        assert SECRET.encode() not in (one.read_bytes() if one.is_file() else b"")


async def test_a_secret_that_cannot_be_taken_out_is_a_failure(manager, notes, file):
    async def use(inputs):
        return Session(inputs["key"])

    result = await notes.executor(manager, use=use).run(
        file("steps: [{name: a, agent: use, inputs: {key: '${env:TRIP_KEY}'}}]")
    )
    assert result.errors["a"] == (
        "InvalidArgument: output has the value of ${env:TRIP_KEY} where it can't be taken out"
    )


def test_the_longest_secret_is_taken_out_first():
    secrets = Secrets({"A", "B"}, {"A": "12345678", "B": "1234567890"})
    assert secrets.text("1234567890 12345678") == "[env:B] [env:A]"


def test_short_values_and_other_variables_are_left_alone():
    secrets = Secrets({"REGION", "NONE"}, {"REGION": "eu", "OTHER": "other-secret"})
    assert secrets.kept({"a": "eu other-secret"}, "output") == {"a": "eu other-secret"}

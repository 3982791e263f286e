"""What was erased is not in the file any more, in whichever page it lay."""

from __future__ import annotations

import pytest

from holdfast import CheckpointManager, SQLiteCheckpointStorage
from tests.faults.report import tell

pytestmark = pytest.mark.faults


class Agent:
    def __init__(self, agent_id, user_id):
        self.agent_id, self.user_id, self.status = agent_id, user_id, "RUNNING"
        self.notes = []

    def checkpoint_state(self):
        return {"notes": list(self.notes), "last": self.notes[-1] if self.notes else ""}

    def restore_state(self, state):
        self.notes = state["notes"]


def secret(user, number):
    """Short enough never to be compressed into something else."""
    return f"{user}{number:05d}"


async def filled(path):
    """Two users' agents in turn, so that their rows share pages."""
    manager = CheckpointManager(SQLiteCheckpointStorage(path, max_checkpoints_per_user=None))
    agents = [Agent(f"{user}-{n}", user) for n in range(8) for user in ("ada", "bob")]
    for number in range(12):
        for agent in agents:
            agent.notes = [secret(agent.user_id, number)]
            await manager.save(agent, metadata={"note": secret(agent.user_id, 10_000 + number)})
    return manager


async def test_an_erased_users_content_is_not_left_in_the_file(tmp_path):
    manager = await filled(tmp_path / "s.db")
    assert await manager.clear_user_history("ada") == 8 * 12
    await manager.collect_garbage()
    await manager.close()
    left = (tmp_path / "s.db").read_bytes()
    marks = [secret("ada", number).encode() for base in (0, 10_000) for number in range(base, base + 12)]
    found = [mark for mark in marks if mark in left]
    tell(
        "erasure, users",
        "The agents of a user, whose rows share pages with those of another, are erased; the file is searched.",
        secrets=len(marks), found=len(found),
    )  # fmt: skip
    assert found == []
    assert secret("bob", 10_003).encode() in left, "the test can see what is there"


async def test_a_deleted_checkpoints_content_is_not_left_in_the_file(tmp_path):
    manager = await filled(tmp_path / "s.db")
    for listed in await manager.list_by_user("ada", limit=200):
        if listed.metadata["note"] != secret("ada", 10_011):
            assert await manager.delete(listed.id)
    await manager.collect_garbage()
    await manager.close()
    left = (tmp_path / "s.db").read_bytes()
    marks = [secret("ada", number).encode() for base in (0, 10_000) for number in range(base, base + 11)]
    found = [mark for mark in marks if mark in left]
    tell(
        "erasure, checkpoints",
        "All but the newest checkpoints of a user are deleted; the file is searched for them.",
        secrets=len(marks), found=len(found),
    )  # fmt: skip
    assert found == []

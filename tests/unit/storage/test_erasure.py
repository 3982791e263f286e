"""What was erased is not in the file any more, in whichever page it lay."""

from __future__ import annotations

import json
import secrets
from collections import Counter

import pytest

from holdfast import CheckpointManager, PythonRunner, SQLiteCheckpointStorage
from holdfast.history.records import AssistantMessage, UserMessage
from holdfast.testing.samples import commit, continued
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


def searched(left, count):
    """What was ada's, so many of each kind, and what of that is found in the bytes of a file."""
    marks = [secret("ada", number).encode() for base in (0, 10_000) for number in range(base, base + count)]
    return marks, [mark for mark in marks if mark in left]


async def test_an_erased_users_content_is_not_left_in_the_file(tmp_path):
    manager = await filled(tmp_path / "s.db")
    assert await manager.clear_user_history("ada") == 8 * 12
    await manager.collect_garbage()
    await manager.close()
    left = (tmp_path / "s.db").read_bytes()
    marks, found = searched(left, 12)
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
    marks, found = searched((tmp_path / "s.db").read_bytes(), 11)
    tell(
        "erasure, checkpoints",
        "All but the newest checkpoints of a user are deleted; the file is searched for them.",
        secrets=len(marks), found=len(found),
    )  # fmt: skip
    assert found == []


KINDS = ("state", "metadata", "summary", "message", "call", "mail", "code", "argument", "print", "result", "output")
PROGRAM = """
code = {code!r}
print({print!r})
await look({argument!r})
{output!r}
"""


async def lives(store, user, marks):
    """An agent of this user comes to one secret of every kind; each is random, so that nothing compresses it away."""
    result = marks[user, "result"]

    async def look(_what):
        return result

    def mark(kind):
        return marks[user, kind]

    message = UserMessage(content=mark("message"))
    call = {"id": f"c-{user}", "name": "look", "arguments": json.dumps({"q": mark("call")})}
    answer = AssistantMessage(content="", tool_calls=[call])
    await continued(
        store, user, user_id=user, state={"x": mark("state")}, metadata={"x": mark("metadata")},
        context_summary=mark("summary"), records=(message, answer),
    )  # fmt: skip
    await store.send(user, user, mark("mail"), sender="somebody")
    runner = PythonRunner(store, tools=[look], type_check=False)
    program = PROGRAM.format(**{kind: mark(kind) for kind in ("code", "print", "argument", "output")})
    done = await runner.run(user, program, f"call-{user}", user_id=user)
    assert (done.output, done.is_error) == (mark("output"), False)


def left_of(folder, marks, user):
    """How many of the user's secrets of each kind any file of the store still has."""
    files = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    return Counter(kind for (whose, kind), mark in marks.items() if whose == user and mark.encode() in files)


async def test_nothing_that_an_agent_ever_said_heard_or_ran_is_left(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "s.db")
    users = [f"{who}{number}" for number in range(4) for who in ("ada", "bob")]  # in turn: they share pages
    marks = {(user, kind): secrets.token_hex(8) for user in users for kind in KINDS}
    for user in users:
        await lives(store, user, marks)
    for user in users:
        assert left_of(tmp_path, marks, user) == dict.fromkeys(KINDS, 1), "the test can see what is there"
    for user in users[::2]:
        await commit(store, user, user_id=user, erase=True)
    await store.collect_garbage()
    for user in users[::2]:
        assert not left_of(tmp_path, marks, user), "not even while the store is open, in its log"
    for user in users[1::2]:
        assert left_of(tmp_path, marks, user)["state"]
    await store.close()
    assert not any(left_of(tmp_path, marks, user) for user in users[::2])


async def test_the_names_of_an_agent_and_its_user_stay_in_its_tombstone(tmp_path):
    """By them an erased agent's numbers are not given again, and nobody else may have its name. The docs say so."""
    path = tmp_path / "s.db"
    manager = CheckpointManager(SQLiteCheckpointStorage(path))
    await manager.save(Agent("trip-4711", "jane"))
    await manager.clear_user_history("jane")
    await manager.collect_garbage()
    await manager.close()
    assert path.read_bytes().count(b"trip-4711") == path.read_bytes().count(b"jane") == 2  # a row and an index

"""A small store with everything in it, and every question that can be asked of it."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.history.records import Rewind, RlmComplete, RlmRestart, RlmStart, RlmToolCall, UserMessage, snapshot_of
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued, save, saving

AGENTS = ("ada", "ada-fork", "bob", "cy", "dee", "ghost", "nobody")
RUNS = ("run-1", "run-2", "run-3", "run-4", "none")
USERS = ("first", "second", "nobody")
KINDS = ("manual", "routine", "pre_operation")
SNAPSHOT = bytes(range(256)) * 4
REFUSED, NAMED, HARMLESS = "refused", "named by verify alone", "without effect"


def conversation(length: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"message {n}"} for n in range(length)], "step": length}


async def fill(store: SQLiteCheckpointStorage, *, saves: int = 70) -> None:
    """A sealed segment, a branch, a fork, deletions, a group, what is pending, mail, runs, an agent that was erased."""
    ids = [
        (await continued(store, "ada", id=f"chk-{n}", user_id="first", state=conversation(n))).id for n in range(saves)
    ]
    await save(store, "ada", id="chk-branch", user_id="first", parent=ids[3], state={"branch": 1}, pinned=True)
    await save(store, "ada-fork", id="chk-fork", user_id="first", fork_of=ids[5], parent=ids[5], state=conversation(6))
    await commit(store, "ada", user_id="first", delete=(ids[7], ids[saves - 2]))
    await save(store, "bob", id="chk-op", user_id="second", kind="pre_operation", operation="deploy")
    run = RlmStart(tool_call_id="run-1", code="fetch()")
    call = RlmToolCall(
        tool_call_id="run-1", call_id=1, snapshot=SNAPSHOT, print_output="", tool_call_count=1, tool_name="fetch",
        tool_args={"url": "x"},
    )  # fmt: skip
    done = RlmComplete(tool_call_id="run-0", output=1, print_output="", tool_call_count=0)
    await commit(store, "bob", user_id="second", records=(UserMessage(content="hello"), run, call, done))
    for n in range(3):
        await store.send("bob", "second", {"n": n}, sender="ada")
    await commit(store, "bob", user_id="second", acknowledge=1)
    await store.commit(
        saving("ada", id="chk-g1", user_id="first", kind="routine", group_id="grp_one", group_place=(0, 2)),
        saving("cy", id="chk-g2", user_id="first", kind="routine", group_id="grp_one", group_place=(1, 2)),
    )
    await save(store, "ghost", id="chk-ghost", user_id="second")
    await commit(store, "ghost", user_id="second", records=(run, call, done))
    await commit(store, "ghost", user_id="second", erase=True)
    for number in (2, 3):
        name, heap = f"run-{number}", SNAPSHOT + bytes([number])
        await commit(store, "dee", user_id="second", records=(
            RlmStart(tool_call_id=name, code="step()", session="s"),
            call.evolve(tool_call_id=name, snapshot=heap, session="s"),
            RlmRestart(tool_call_id=name, attempt=1, reason="killed"),
            done.evolve(tool_call_id=name, snapshot=heap[::-1], session="s"),
        ))  # fmt: skip
    await commit(store, "dee", user_id="second", records=(done, Rewind(to=8), run.evolve(tool_call_id="run-4")))


def questions() -> dict[str, Callable[[SQLiteCheckpointStorage], Awaitable[Any]]]:
    """Each by its name; the answers can be compared."""
    asked: dict[str, Callable[[SQLiteCheckpointStorage], Awaitable[Any]]] = {
        "agents": lambda s: s.agents(),
        "list": lambda s: s.list(Query(limit=None)),
        "list oldest": lambda s: s.list(Query(limit=20, offset=3, oldest_first=True)),
        "group": lambda s: s.group("grp_one"),
        "no group": lambda s: s.group("grp_none"),
        "operations": lambda s: s.pending("operation"),
        "pending runs": lambda s: s.pending("run"),
        "runs": lambda s: s.runs(),
        "newest runs": lambda s: s.runs(limit=2),
        "runs of a session": lambda s: s.runs(session="s"),
        "runs of no session": lambda s: s.runs(session="none"),
    }
    for name in RUNS:
        asked[f"runs named {name}"] = lambda s, name=name: s.runs(name=name)
        asked[f"run {name} of dee"] = lambda s, name=name: s.runs(agent_id="dee", name=name)
    for user in USERS:
        asked[f"agents of {user}"] = lambda s, user=user: s.agents(user)
        asked[f"list of {user}"] = lambda s, user=user: s.list(Query(user_id=user, limit=None))
        asked[f"runs of {user}"] = lambda s, user=user: s.runs(user_id=user)
    for kind in KINDS:
        asked[f"list of {kind}"] = lambda s, kind=kind: s.list(Query(kinds=(kind,), limit=None))
        asked[f"list of first, {kind}"] = lambda s, kind=kind: s.list(Query(user_id="first", kinds=(kind,)))
    for agent in AGENTS:
        asked[f"agent {agent}"] = lambda s, agent=agent: s.agent(agent)
        asked[f"list of agent {agent}"] = lambda s, agent=agent: s.list(Query(agent_id=agent, limit=None))
        asked[f"history of {agent}"] = lambda s, agent=agent: s.read(agent)
        asked[f"history of {agent} without snapshots"] = lambda s, agent=agent: s.read(agent, snapshots=False)
        asked[f"runs by {agent}"] = lambda s, agent=agent: s.runs(agent_id=agent)
        asked[f"inbox of {agent}"] = lambda s, agent=agent: s.inbox(agent)
    for agent, seq in (("bob", 4), ("dee", 2), ("dee", 6), ("dee", 8), ("dee", 9)):
        asked[f"snapshot {seq} of {agent}"] = lambda s, agent=agent, seq=seq: s.snapshot(agent, seq)
    for id_ in ("chk-0", "chk-7", "chk-30", "chk-69", "chk-branch", "chk-fork", "chk-op", "chk-g2", "chk-ghost", "no"):
        asked[f"position of {id_}"] = lambda s, id_=id_: s.position(id_)
        asked[f"content of {id_}"] = lambda s, id_=id_: _content(s, id_)
    return asked


async def _content(store: SQLiteCheckpointStorage, id_: str) -> Any:
    found = await store.fetch(id_)
    return None if found is None else (found[0], found[1].decode())


async def answers(store: SQLiteCheckpointStorage) -> dict[str, Any]:
    """The answer to every question; an error of ours is an answer, and anything else is raised."""
    given: dict[str, Any] = {}
    for name, ask in questions().items():
        try:
            given[name] = await ask(store)
        except HoldfastError as error:
            given[name] = error
    return given


def wrong(given: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """The questions that were answered, but not rightly."""
    return [
        name
        for name, answer in right.items()
        if not isinstance(given[name], HoldfastError)
        and given[name] != answer
        and not (name.startswith("history") and _but_for_snapshots(given[name], answer))
        and not (name.startswith("snapshot") and given[name] is None)
    ]


def _but_for_snapshots(given: list[Any], right: list[Any]) -> bool:
    """Snapshots are a cache: that one is not kept any more is a right answer, and verify knows better."""
    if len(given) != len(right):
        return False  # a history that has lost its end, or all of it, is as wrong as any other
    bare = [
        one if snapshot_of(one) is None or snapshot_of(other) is not None else one.evolve(snapshot=None)
        for one, other in zip(right, given, strict=True)
    ]
    return bare == given


def refused(given: dict[str, Any]) -> list[str]:
    return [name for name, answer in given.items() if isinstance(answer, HoldfastError)]


async def outcome(damaged, right, what):
    """What became of one damage. Verify must not be content when an answer is not what it was."""
    store = SQLiteCheckpointStorage(damaged, read_only=True)
    try:
        given = await answers(store)
        assert wrong(given, right) == [], what
        whole = await content(store)
        assert not (whole and refused(given)), (what, refused(given))
        return REFUSED if refused(given) else HARMLESS if whole else NAMED
    finally:
        await store.close()


async def content(store):
    try:
        return (await store.verify()).ok
    except HoldfastError:
        return False


async def small_store(folder: Path) -> Path:
    """A closed store in this folder: one file and its key."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nobody else waits
    path = folder / "store.db"
    store = SQLiteCheckpointStorage(path)
    await fill(store)
    await store.close()
    return path


def copied(path: Path, folder: Path) -> Path:
    """The same store elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("", ".key"):
        shutil.copyfile(f"{path}{suffix}", folder / f"{path.name}{suffix}")
    return folder / path.name

"""Tasks, and what a list of them becomes by what is written into it: a fold, pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

log = logging.getLogger("holdfast")

COMPLETED_MAX: Final = 100  # so many completed tasks are remembered


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One piece of work in a list. `status` is "open", "claimed" or "completed"."""

    id: str
    name: str
    content: Any = None
    status: str = "open"
    claimed_by: str | None = None
    progress_percentage: float = 0.0
    result: Any = None


Tasks = Mapping[str, Task]
"""Tasks by id, in the order in which they were added."""


def entry(what: str, task_id: str, **details: Any) -> dict[str, Any]:
    """What is written into a list's inbox to change it."""
    return {"task": what, "id": task_id, **details}


def folded(tasks: Tasks, entries: Iterable[Any]) -> Tasks:
    """The tasks after these entries. The first claim of a task counts, and only who has it can go on with it.

    >>> tasks = folded({}, [entry("add", "t", name="count"), entry("claim", "t", by="a"), entry("claim", "t", by="b")])
    >>> tasks["t"].claimed_by
    'a'
    """
    after = dict(tasks)
    for one in entries:
        task = _after(after, one)
        if task is not None:
            after[task.id] = task
    completed = [task.id for task in after.values() if task.status == "completed"]
    for id_ in completed[:-COMPLETED_MAX]:
        del after[id_]
    return after


def _after(tasks: Tasks, one: Any) -> Task | None:
    """The task as an entry leaves it, or None when it changes nothing."""
    if not isinstance(one, Mapping) or "task" not in one or "id" not in one:
        log.warning("A message in a list of tasks is not about a task: %.200r", one)
        return None
    task = tasks.get(one["id"])
    if one["task"] == "add":
        return task or Task(id=one["id"], name=one["name"], content=one.get("content"))
    if task is None or task.status == "completed":
        return None
    if one["task"] == "claim":
        return replace(task, status="claimed", claimed_by=one["by"]) if task.status == "open" else None
    if one["task"] == "release":
        return replace(task, status="open", claimed_by=None)
    if task.claimed_by != one.get("by"):
        return None  # it was given to somebody else meanwhile
    if one["task"] == "progress":
        return replace(task, progress_percentage=one["percentage"])
    return replace(task, status="completed", progress_percentage=100.0, result=one.get("result"))


def to_state(tasks: Tasks) -> dict[str, Any]:
    return {"tasks": [asdict(task) for task in tasks.values()]}


def from_state(state: Mapping[str, Any]) -> Tasks:
    return {one["id"]: Task(**one) for one in state.get("tasks", [])}

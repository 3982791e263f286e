"""Which run is meant, and which name a new one gets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.errors import InvalidArgument, RunMismatch, UnknownRun
from holdfast.history.records import RlmComplete, RlmStart

if TYPE_CHECKING:
    from holdfast.storage.protocol import RunPlace, Store

_TOLD_MAX: Final = 5


async def named_run(store: Store, name: str, agent_id: str | None, *, option: str = "--agent") -> RunPlace:
    """The run of this name. Forks share the name of what they were forked from, which is meant unless an agent is
    named; where several agents have begun such a run, one must be.
    """
    found = await store.runs(name=name, agent_id=agent_id)
    agents = sorted({place.agent_id for place in found})
    if len(agents) > 1:
        found = [place for place in found if (await first_and_last(store, place))[0].forked_from is None] or found
        agents = sorted({place.agent_id for place in found})
    if len(agents) > 1:
        told = ", ".join(agents[:_TOLD_MAX]) + (" …" if len(agents) > _TOLD_MAX else "")
        raise InvalidArgument(
            f"{len(agents):,} agents have a run {name}: {told}", tool_call_id=name,
            hint=f"Say whose: {option} {agents[0]}.",
        )  # fmt: skip
    if found:
        return found[0]
    raise await _unknown(store, name, agent_id)


async def _unknown(store: Store, name: str, agent_id: str | None) -> UnknownRun:
    from difflib import get_close_matches

    others = sorted({place.name for place in await store.runs()})
    near = get_close_matches(name, others, n=3)
    if agent_id is not None and name in others:
        return UnknownRun(
            f"Agent {agent_id} has no run {name}", tool_call_id=name, agent_id=agent_id,
            hint="Another agent has one: `holdfast runs` lists them.",
        )  # fmt: skip
    return UnknownRun(
        f"There is no run {name}", tool_call_id=name,
        hint=f"Did you mean {' or '.join(near)}?" if near else "`holdfast runs` lists those that there are.",
    )  # fmt: skip


async def name_for(store: Store, agent_id: str, code: str, *, session: str | None, stem: str, given: str | None) -> str:
    """The name under which this program runs: the one that it has already, else one that is new.

    A run that failed before its first tool call has changed nothing: the next number is taken, so that a program
    with a slip in it need only be mended. Another text or session under this name is `RunMismatch` else.
    """
    for name in (given,) if given is not None else _numbered(stem):
        found = await store.runs(agent_id=agent_id, name=name, limit=1)
        if not found:
            return name
        start, complete = await first_and_last(store, found[0])
        same = (start.code, start.session) == (code, session)
        changed_nothing = complete is not None and complete.is_error and complete.tool_call_count == 0
        if given is None and changed_nothing and (not same or is_too_early(complete)):
            continue
        if same:
            return name
        free = await free_name(store, agent_id, stem)
        state = "was begun" if complete is None else "is finished"
        other = "another text than this program has now" if start.code != code else _session_told(start.session)
        raise RunMismatch(
            f"Run {name} of agent {agent_id} {state}, with {other}", agent_id=agent_id, tool_call_id=name,
            hint=f"--id {free} runs this program from its beginning; `holdfast trace {name}` shows the other.",
        )  # fmt: skip
    raise AssertionError  # the numbers have no end


async def free_name(store: Store, agent_id: str, stem: str) -> str:
    """The first name that no run of the agent has."""
    taken = {place.name for place in await store.runs(agent_id=agent_id)}
    return next(name for name in _numbered(stem) if name not in taken)


async def first_and_last(store: Store, place: RunPlace) -> tuple[RlmStart, RlmComplete | None]:
    """A run's first record and, when it came to its end, its last."""
    [start] = await store.read(place.agent_id, after=place.start - 1, limit=1, snapshots=False)
    assert isinstance(start, RlmStart)  # noqa: S101 - the index was checked against the records
    if place.end is None:
        return start, None
    [complete] = await store.read(place.agent_id, after=place.end - 1, limit=1, snapshots=False)
    assert isinstance(complete, RlmComplete)  # noqa: S101
    return start, complete


def is_too_early(complete: RlmComplete | None) -> bool:
    return complete is not None and complete.error == TOO_EARLY


def _session_told(session: str | None) -> str:
    return "no session" if session is None else f"the session {session}"


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    for number in count(2):
        yield f"{stem}-{number}"

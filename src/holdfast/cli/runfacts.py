"""What a history says of a run as a whole: when it began, how it stands, how far it came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from holdfast.history.records import RlmStart

if TYPE_CHECKING:
    from holdfast.durable.runs.log import RunLog
    from holdfast.history.records import Record
    from holdfast.storage.protocol import Pending, RunPlace, Store

State = Literal["running", "pending", "parked", "finished", "failed", "replaced"]
"""`running`: a live process has its agent. `pending`: it was left behind. `parked`: it waits for a person. `replaced`:
its name was begun again before it came to an end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """One run."""

    place: RunPlace
    start: RlmStart
    state: State
    calls: int

    def plain(self) -> dict[str, Any]:
        """The same in JSON."""
        from holdfast.cli.output import moment

        return {
            "agent_id": self.place.agent_id,
            "tool_call_id": self.place.name,
            "user_id": self.place.user_id,
            "session": self.place.session,
            "state": self.state,
            "begun": None if self.begun is None else moment(self.begun),
            "tool_call_count": self.calls,
            "forked_from": self.start.forked_from,
        }

    @property
    def begun(self) -> datetime | None:
        return self.start.at


async def facts_of(store: Store, place: RunPlace, pending: Iterable[Pending]) -> RunFacts:
    """The facts. Of a run that has ended two records are read, of another one all that it recorded; no snapshot is."""
    from holdfast.cli.runnames import first_and_last

    start, complete = await first_and_last(store, place)
    if complete is not None:
        state: State = "failed" if complete.is_error else "finished"
        return RunFacts(place=place, start=start, state=state, calls=complete.tool_call_count)
    log = log_of(await records_of(store, place))
    return RunFacts(place=place, start=start, state=_open_state(place, log, pending), calls=calls_of(log))


async def records_of(store: Store, place: RunPlace) -> list[Record]:
    """The live path from the run's start on; what others recorded meanwhile is among it."""
    from holdfast.history.fold import live_path

    limit = None if place.end is None else place.end - place.start + 1
    return live_path(await store.read(place.agent_id, after=place.start - 1, limit=limit, snapshots=False))


def log_of(records: Iterable[Record]) -> RunLog:
    from holdfast.durable.runs.log import RunLog

    return RunLog.of(records)


def calls_of(log: RunLog) -> int:
    """How many tool calls were made; a sleep is none."""
    from holdfast.cli.calls import is_sleep

    return sum(not is_sleep(call.tool_name) for call in log.order)


def _open_state(place: RunPlace, log: RunLog, pending: Iterable[Pending]) -> State:
    if not any(one.agent_id == place.agent_id and one.seq == place.start for one in pending):
        return "replaced"
    if log.parked is not None:
        return "parked"
    return "running" if place.owner_alive else "pending"

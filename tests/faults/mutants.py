"""Promises that are broken on purpose in the processes that a test kills: controls, in which something must be found.

Each takes a precaution out of Holdfast for the rest of the process and of its children. It is called before they fork.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from holdfast.agents.loop.place import Place
from holdfast.agents.model.journal import Journal as ModelJournal
from holdfast.agents.orchestrator.autosave import AutoSave
from holdfast.agents.workflow.drive import Drive as WorkflowDrive
from holdfast.durable.runs import caller
from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.durable.runs.journal import Journal
from holdfast.durable.runs.outcomes import Unknown
from holdfast.history.records import RlmComplete, RlmToolCall, ToolCall
from holdfast.storage.sqlite import worker, writeside


def a_save_is_told_before_its_commit() -> None:
    """Whoever waits for a commit is told as soon as its rows are written."""

    def run_one(session, job):
        done(session, job)
        if job.loop is not None and job.error is None:
            job.loop.call_soon_threadsafe(worker._settle, [job])
            time.sleep(0.005)  # so that many deaths lie between the two

    done, writeside._run_one = writeside._run_one, run_one


def reconcile_is_never_asked() -> None:
    """A call that a `reconcile` could decide about is given up, as if nobody knew."""

    async def after_restart(tool, call):
        return Unknown() if tool is not None and tool.on_restart == "reconcile" else await asked(tool, call)

    asked, caller.after_restart = caller.after_restart, after_restart


def a_call_is_made_before_its_record() -> None:
    """The record of a program's call waits for the next commit, as a result's may."""

    async def commit(journal, *records):
        if not any(isinstance(one, RlmToolCall) for one in records):
            return await committed(journal, *records)
        for one in records:
            journal.add(one)
        return list(records)

    committed, Journal.commit = Journal.commit, commit  # type: ignore[method-assign]


def a_result_is_told_before_its_record() -> None:
    """A result waits longer than for the next call: it is not in that call's commit."""

    async def commit(journal, records, **options: Any):
        if not any(isinstance(one, RlmToolCall) for one in records):
            return await committed(journal, records, **options)
        kept_back, journal._waiting = journal._waiting, []
        try:
            return await committed(journal, records, **options)
        finally:
            journal._waiting = [*kept_back, *journal._waiting]

    committed, Journal._commit = Journal._commit, commit  # type: ignore[method-assign]


def an_end_is_told_before_its_record() -> None:
    """What a run came to is given back before its last commit."""

    async def end(journal, *records):
        if any(isinstance(one, RlmComplete) and one.error == TOO_EARLY for one in records):
            return await ended(journal, *records)  # it is begun again under another name, for which it must be over
        asyncio.get_running_loop().call_later(1, lambda: ends.add(asyncio.ensure_future(ended(journal, *records))))
        return [one.evolve(seq=1) for one in records]

    ends: set[asyncio.Future[Any]] = set()
    ended, Journal.end = Journal.end, end  # type: ignore[method-assign]


def a_models_call_is_made_before_its_record() -> None:
    """That a call of a model begins is recorded with whatever is recorded next."""

    async def commit(journal, records, **options: Any):
        kept_back = vars(journal).setdefault("kept_back", [])
        if records and all(isinstance(one, ToolCall) for one in records):
            kept_back += records
            return
        records, journal.kept_back = (*kept_back, *records), []
        await committed(journal, records, **options)

    committed, ModelJournal._commit = ModelJournal._commit, commit  # type: ignore[method-assign]


def a_step_begins_before_its_record() -> None:
    """That a step of a workflow begins is kept with whatever is kept next."""

    async def kept(drive):
        steps, began = drive.workflow.steps, dict(drive._began)
        begun = {name: steps[name] for name in began}
        steps.update(began)  # as they were before
        try:
            return await keep(drive)
        finally:
            steps.update(begun)

    keep, WorkflowDrive._kept = WorkflowDrive._kept, kept  # type: ignore[method-assign]


def a_message_is_acknowledged_after_its_step() -> None:
    """A loop saves what a message led to, and acknowledges the message with a commit of its own."""

    async def save(place, kind, about, *, acknowledge=None, **options: Any):
        await saved(place, kind, about, **options)
        if acknowledge is not None:
            await asyncio.sleep(0.02)  # so that most deaths lie between the two
            await saved(place, kind, about, acknowledge=acknowledge)

    saved, Place.save = Place.save, save  # type: ignore[method-assign]


def a_message_is_handled_before_it_is_kept() -> None:
    """An orchestrator lets an agent work on a message that is on no disk."""

    async def keep(self, agent, message):
        """The last commit of the message is its first one, too."""

    AutoSave.keep = keep  # type: ignore[method-assign]


def broken_by(name: str) -> None:
    """Breaks the promise of this name in this process; none for an empty one."""
    if name:
        globals()[name]()

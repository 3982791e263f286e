"""`CheckpointManager`: one agent's checkpoints, as files that a person can read."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from holdfast.blocking.manager import Manager
from holdfast.blocking.shelf import FileShelf, Reference, Shelf, StoreShelf
from holdfast.blocking.state import SECTIONS, Agent, AgentState, Section, Sections, copied, is_idle, progress_of
from holdfast.drift.detector import DriftDetector
from holdfast.drift.protocol import Detector, Drift, Event
from holdfast.errors import Corrupt, InvalidArgument, WrongAgent
from holdfast.history.checkpoint import Checkpoint, Kind
from holdfast.history.retention import Policy
from holdfast.storage.files import FileCheckpointStorage
from holdfast.storage.protocol import CheckpointStorage

log = logging.getLogger("holdfast")

KINDS: Final = (Kind.ROUTINE, Kind.PRE_OPERATION, Kind.RECOVERY)


class CheckpointManager:
    """Keeps one agent: every checkpoint is durable when the call that made it returns.

    What is kept is `state`, or whatever a subclass returns from the four `_get_…` methods; it comes back through the
    four `_restore_…` methods. All of them are called on the caller's thread.

    With files, the default, a checkpoint is named by the path of its file; with any other storage, by its id. Of the
    routine ones the last `routine_max` stay, recovery ones for `recovery_days`, pre_operation ones until they are
    deleted or completed; the agent's newest always stays.

    Drift is told by `detector` from what `observe` is given. An agent that observes nothing is judged by its
    checkpoints: each one made since the last is an event by itself, with the four sections as its arguments and the
    task's `progress_percentage` as its progress, unless the task is idle (completed, waiting …).
    """

    def __init__(  # noqa: PLR0913 - options, all with defaults
        self,
        agent_id: str,
        storage: CheckpointStorage | None = None,
        *,
        directory: str | os.PathLike[str] = "runtime/agent_comms/checkpoints",
        user_id: str = "default",
        state: AgentState | None = None,
        detector: Detector | None = None,
        routine_max: int = 3,
        recovery_days: float = 7,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not agent_id:
            raise InvalidArgument("An agent_id must not be empty")
        storage = FileCheckpointStorage(directory) if storage is None else storage
        policy = Policy(
            routine_per_agent=routine_max,
            recovery_days=recovery_days,
            per_user=getattr(storage, "max_checkpoints_per_user", None),
            total=getattr(storage, "max_checkpoints", None),
        )
        self.agent_id = agent_id
        self.user_id = user_id
        self.state = AgentState() if state is None else state
        self.detector: Detector = DriftDetector() if detector is None else detector
        self.drift: Drift | None = None
        self.manager = Manager(storage, retention=policy, now=now)
        self._shelf: Shelf = (
            FileShelf(storage, self.manager) if isinstance(storage, FileCheckpointStorage) else StoreShelf(self.manager)
        )
        self._agent = Agent(agent_id, user_id)
        self._observed = False
        self._turn = threading.RLock()  # one at a time, because each checkpoint's parent is the one before

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent_id!r}, {self.storage!r})"

    @property
    def storage(self) -> CheckpointStorage:
        return self.manager.storage

    # --- what a subclass may override, in pairs

    def _get_current_task_state(self) -> Section:
        return self.state.current_task

    def _get_mailbox_state(self) -> Section:
        return self.state.mailbox

    def _get_operational_context(self) -> Section:
        return self.state.operational_context

    def _get_memory_state(self) -> Section:
        return self.state.memory

    def _restore_task_state(self, state: Section) -> None:
        self.state.put_back("current_task", state)

    def _restore_mailbox_state(self, state: Section) -> None:
        self.state.put_back("mailbox", state)

    def _restore_operational_context(self, state: Section) -> None:
        self.state.put_back("operational_context", state)

    def _restore_memory_state(self, state: Section) -> None:
        self.state.put_back("memory", state)

    # --- checkpoints

    def create_checkpoint(self, kind: str = "routine", *, metadata: dict[str, Any] | None = None) -> Reference:
        """Saves the agent as it is now. Returns the path of its file, or its id where there are no files."""
        kind = _kind(kind)
        with self._turn:
            self._read(kind)
            checkpoint_id = self.manager.save(
                self._agent, kind=kind, metadata={**(metadata or {}), "detector": self.detector.state()}
            )
            return self._shelf.reference(checkpoint_id)

    def get_latest_checkpoint(self, kind: str | None = None) -> Reference | None:
        """The agent's newest checkpoint, of a kind maybe; None when there is none."""
        return next(iter(self._shelf.list(self.agent_id, None if kind is None else _kind(kind), 1)), None)

    def list_checkpoints(self, kind: str | None = None) -> list[Reference]:
        """The agent's checkpoints, newest first."""
        return self._shelf.list(self.agent_id, None if kind is None else _kind(kind), None)

    def restore_checkpoint(self, path: Reference) -> bool:
        """Brings the agent back to a checkpoint. True, or an error and the agent as it was before the call.

        `WrongAgent` when it is another agent's, `Corrupt` when it is damaged, `UnknownCheckpoint` when there is none.
        """
        checkpoint = self._shelf.read(path)
        if checkpoint.agent_id != self.agent_id:
            raise WrongAgent(
                f"Checkpoint {path} belongs to agent {checkpoint.agent_id}, not to {self.agent_id}",
                agent_id=checkpoint.agent_id,
                checkpoint_id=checkpoint.id,
                path=str(path),
            )
        sections = _sections(checkpoint, path)
        if not checkpoint.verified:
            log.warning("Checkpoint %s has no integrity field: nothing tells whether it was changed", path)
        with self._turn:
            self._put_back(sections)
            self.detector.restore(checkpoint.metadata.get("detector") or {})
            self.drift, self._observed = None, False
            self.manager.go_on_from(self._agent, checkpoint.id)
        return True

    def delete_checkpoint(self, path: Reference) -> bool:
        """Removes one of the agent's checkpoints, damaged or not; False when there was none."""
        return self._shelf.delete(self.agent_id, path)

    def complete_operation(self, path: Reference | None = None) -> bool:
        """Removes the checkpoint from before an operation, the newest one if none is named; False without any."""
        path = self.get_latest_checkpoint(Kind.PRE_OPERATION) if path is None else path
        return path is not None and self.delete_checkpoint(path)

    @contextmanager
    def operation(self, name: str, *, metadata: dict[str, Any] | None = None) -> Iterator[Reference]:
        """A critical operation: its pre_operation checkpoint is removed when it succeeds.

        When it fails, the agent is brought back to that checkpoint, which stays, and the exception goes on.
        """
        with self._turn:
            self._read(Kind.PRE_OPERATION)
            kept = {**(metadata or {}), "detector": self.detector.state()}
            held = self.manager.operation(self._agent, name, metadata=kept)
            path = self._shelf.reference(held.__enter__().checkpoint_id)
        try:
            yield path
        except BaseException as error:
            held.__exit__(type(error), error, error.__traceback__)
            try:
                self.restore_checkpoint(path)
            except Exception as failure:
                log.exception("Agent %s could not be brought back to %s", self.agent_id, path)
                error.add_note(f"Agent {self.agent_id} could not be brought back to {path}: {failure}")
            raise
        held.__exit__(None, None, None)

    # --- drift

    def observe(self, event: Event) -> Drift | None:
        """Tells the detector what the agent did; the drift that there is now, if any."""
        self._observed = True
        self.drift = self.detector.observe(event)
        return self.drift

    def detect_drift(self) -> bool:
        """Whether the agent drifts, as of the last event; `drift` says why."""
        return self.drift is not None

    # --- the end

    def close(self) -> None:
        """Lets go of the storage. Idempotent, and a program that closes nothing ends as well."""
        self.manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- parts

    def _current(self) -> dict[str, Section]:
        sections = {
            "current_task": self._get_current_task_state(),
            "mailbox": self._get_mailbox_state(),
            "operational_context": self._get_operational_context(),
            "memory": self._get_memory_state(),
        }
        for name, section in sections.items():
            if type(section) is not dict:
                raise InvalidArgument(
                    f"The {name} of agent {self.agent_id} is {type(section).__name__}, not a dict",
                    agent_id=self.agent_id,
                )
        return sections

    def _read(self, kind: str) -> None:
        """Reads the agent for a checkpoint, which is an event by itself if nothing else was observed since the last."""
        sections = self._current()
        if not self._observed and not is_idle(sections["current_task"]):
            arguments = copied(sections)
            event = Event(action="checkpoint", arguments=arguments, progress=progress_of(sections["current_task"]))
            self.drift = self.detector.observe(event)
        self._observed = False
        self._agent.sections = sections

    def _put_back(self, sections: Sections) -> None:
        """Restores the four sections, or none: when one fails, all are given back what they had."""
        restores: dict[str, Callable[[Section], None]] = {
            "current_task": self._restore_task_state,
            "mailbox": self._restore_mailbox_state,
            "operational_context": self._restore_operational_context,
            "memory": self._restore_memory_state,
        }
        before = {name: copied(section) for name, section in self._current().items()}
        begun = []
        try:
            for name, restore in restores.items():
                begun.append(name)
                restore(sections[name])
        except BaseException as error:
            for name in begun:
                try:
                    restores[name](before[name])
                except Exception as failure:
                    log.exception("The %s of agent %s could not be put back", name, self.agent_id)
                    error.add_note(f"The {name} of agent {self.agent_id} could not be put back: {failure}")
            raise


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise InvalidArgument(
            f"{name!r} is no kind of checkpoint here", hint=f"Kinds are {', '.join(KINDS[:-1])} and {KINDS[-1]}."
        )
    return Kind(name)


def _sections(checkpoint: Checkpoint, path: Reference) -> Sections:
    state = checkpoint.state or {}
    wrong = [name for name in SECTIONS if not isinstance(state.get(name), dict)]
    if wrong:
        raise Corrupt(
            f"Checkpoint {path} has no {', '.join(wrong)}",
            checkpoint_id=checkpoint.id,
            agent_id=checkpoint.agent_id,
            path=str(path) if isinstance(path, Path) else None,
            hint="Its state must be an object with current_task, mailbox, operational_context and memory.",
        )
    return state

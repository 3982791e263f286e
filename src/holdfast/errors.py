"""The tree of everything that Holdfast raises on purpose.

HoldfastError
├── NotFound
│   ├── UnknownRun            no run has this name
│   ├── UnknownCall           no tool call of this id waits for a person's decision
│   ├── UnknownCheckpoint     no checkpoint has this id (or it is another user's)
│   ├── UnknownAgent          no agent has this id (or it is another user's)
│   ├── UnknownGroup          no group of checkpoints has this id
│   └── UnknownAgentType      nothing was registered that can rebuild this agent
├── Refused
│   ├── WrongOwner            the agent belongs to another user
│   ├── WrongAgent            the checkpoint belongs to another agent
│   ├── OwnedElsewhere        a live process is advancing this agent now
│   ├── StaleWriter           the agent was taken over; this operation may not write any more
│   ├── Moved                 the agent's history went on since it was read
│   ├── RunMismatch           a run of this name exists with other code
│   ├── StillWaiting          the agent waits for a decision, and takes no new prompt before it
│   ├── LimitReached          an agent's run has used what it may use
│   ├── DuplicateId           an id that must be new is taken
│   ├── IllegalTransition     an agent's status that can't follow the one it has
│   ├── InvalidArgument       an argument that can't be what was meant
│   ├── InvalidWorkflow       a workflow file that can't be run, with every problem's line and key
│   ├── WorkflowChanged       the file is not the one that this run of it began with
│   ├── MissingExtra          an optional dependency that this call needs is not installed
│   └── MissingMethod         the storage or agent lacks a method that this call needs
├── ModelFailed               the model gave no usable answer; what is recorded stays, recover() asks again
│   └── ContextTooLong        the conversation is longer than the model can take
├── Unstorable
│   ├── UnknownValueType      a value that can't be kept exactly, with its path
│   ├── InvalidImport         a line that is no record of Holdfast's wire format
│   └── TooLarge              a state or value above its size cap
├── Corrupt                   stored bytes that fail their authentication; kept, never repaired unasked
│   └── RolledBack            the store lacks commits that it had, as the note beside it or its anchor shows
└── StorageFailed
    ├── Unopenable            not a store, a newer format, a directory, a network file system …
    │   ├── KeyMissing        the store's key is not there; it opens read-only
    │   └── WrongKey          a key that did not write this store
    ├── ReadOnly              the store was opened for reading
    ├── DiskFull              no room; what was acknowledged is kept
    ├── Poisoned              an I/O error happened; close and reopen
    └── Closed                the store was closed
"""

from __future__ import annotations

from typing import Any, ClassVar


class HoldfastError(Exception):
    """What went wrong in one sentence, the ids it concerns as attributes, and a hint what to do.

    >>> error = UnknownCheckpoint("There is no checkpoint chk_x", checkpoint_id="chk_x", hint="List them")
    >>> error.checkpoint_id, error.hint
    ('chk_x', 'List them')
    """

    default_hint: ClassVar[str] = ""

    agent_id: str | None = None
    user_id: str | None = None
    checkpoint_id: str | None = None
    group_id: str | None = None
    agent_type: str | None = None
    tool_call_id: str | None = None
    path: str | None = None
    seq: int | None = None
    epoch: int | None = None
    owner: str | None = None

    def __init__(self, message: str, *, hint: str = "", **ids: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.ids = ids
        for name, value in ids.items():
            setattr(self, name, value)
        if self.hint:
            self.add_note(f"Hint: {self.hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.ids))


def _rebuild(cls: type[HoldfastError], message: str, hint: str, ids: dict[str, Any]) -> HoldfastError:
    return cls(message, hint=hint, **ids)


class NotFound(HoldfastError):
    """Something was asked for by an id that nothing has."""


class UnknownCheckpoint(NotFound):
    """No checkpoint has this id (or it is another user's)."""

    default_hint = "`holdfast log` and manager.list_by_user() show what there is; old ones may have been retired."


class UnknownAgent(NotFound):
    """No agent has this id (or it is another user's)."""

    default_hint = "`holdfast log` shows the agents that the store knows."


class UnknownGroup(NotFound):
    """No group of checkpoints has this id."""

    default_hint = "A group id is what manager.save_group() returned; it starts with grp_."


class UnknownRun(NotFound):
    """No run has this name (or it is another user's)."""

    default_hint = "`holdfast runs` lists the runs that the store knows."


class UnknownCall(NotFound):
    """No tool call of this id waits for a person's decision."""

    default_hint = "result.waiting lists the calls that wait; one that was decided waits no longer."


class UnknownAgentType(NotFound):
    """Nothing was registered that can rebuild an agent of this type."""

    default_hint = "Call manager.register(TheClass), or manager.register(factory, name='TheClass'), before restore."


class Refused(HoldfastError):
    """The call is understood and must not be carried out."""


class WrongOwner(Refused):
    """The agent belongs to another user."""

    default_hint = "An agent belongs to the user of its first write; use another agent_id for another user."


class WrongAgent(Refused):
    """The checkpoint belongs to another agent."""

    default_hint = "Restore it through a manager of the agent that it names."


class OwnedElsewhere(Refused):
    """A live process is advancing this agent now."""

    default_hint = "Wait until its operation ends, or pass take_over=True if you are sure that it hangs."


class StaleWriter(Refused):
    """The agent was taken over; this operation may not write any more."""

    default_hint = "Another owner went on with this agent: restore its newest checkpoint and start again from there."


class Moved(Refused):
    """The agent's history went on since it was read: what was decided then may not hold now."""

    default_hint = "Read the history again and decide anew."


class RunMismatch(Refused):
    """A run of this name exists with other code."""

    default_hint = "A run is named by agent id and tool call id: use a new tool_call_id for new code."


class StillWaiting(Refused):
    """The agent waits for a decision, and takes no new prompt before it."""

    default_hint = "approve() or deny() what waits; (await agent.recover()).waiting lists it."


class LimitReached(Refused):
    """An agent's run has used what it may use."""

    default_hint = "Raise the limit (ModelLimits) and call recover(): it goes on where it stopped."


class DuplicateId(Refused):
    """An id that must be new is taken."""

    default_hint = "Choose another id."


class IllegalTransition(Refused):
    """An agent's status that can't follow the one it has; `before` and `after` name both."""


class InvalidArgument(Refused, ValueError):
    """An argument that can't be what was meant."""


class InvalidWorkflow(Refused, ValueError):
    """A workflow file that can't be run: `problems` has each with its line and key, `path` is the file."""

    problems: tuple[Any, ...] = ()

    default_hint = "`holdfast workflow check` lists everything that is wrong with a file, and runs nothing."


class WorkflowChanged(Refused):
    """The file is not the one that this run of it began with: `steps` names what is different."""

    steps: tuple[str, ...] = ()

    default_hint = "Put the file back, begin a new run, or pass allow_changes=True (`--allow-changes`)."


class MissingExtra(Refused, ImportError):
    """An optional dependency that this call needs is not installed."""


class MissingMethod(Refused, NotImplementedError):
    """The storage or agent lacks a method that this call needs."""

    default_hint = "Implement the method, or use a storage that has it (memory, SQLite, files)."


class ModelFailed(HoldfastError):
    """The model gave no usable answer; what is recorded stays."""

    default_hint = "Nothing is lost: recover() asks again. The error's __cause__ is what the provider said."


class ContextTooLong(ModelFailed):
    """The conversation is longer than the model can take."""

    default_hint = "Restore an older checkpoint, which shortens the conversation, or use a model with more room."


class Unstorable(HoldfastError):
    """A value that can't be kept."""


class UnknownValueType(Unstorable, TypeError):
    """A value that can't be kept exactly, with its path."""

    default_hint = "Leave it out of checkpoint_state(), or register its dataclass, Enum or pydantic model."


class InvalidImport(Unstorable, ValueError):
    """A line that is no record of Holdfast's wire format."""

    default_hint = "`holdfast import` reads what `holdfast export` writes: one JSON object per line."


class TooLarge(Unstorable, ValueError):
    """A state or value above its size cap."""

    default_hint = "Keep large data outside the state and store a reference, or raise the cap."


class Corrupt(HoldfastError):
    """Stored bytes that fail their authentication; kept, never repaired unasked."""

    default_hint = "`holdfast verify` names everything that is damaged and what is still whole."


class RolledBack(Corrupt):
    """The store lacks commits that it had, as the note beside it or its anchor shows."""

    default_hint = "If you put a backup back or reset the key yourself, remove the anchor; else find the newer store."


class StorageFailed(HoldfastError):
    """The place where things are kept did not do its part."""


class Unopenable(StorageFailed):
    """Not a store, a newer format, a directory, a network file system and the like."""


class KeyMissing(Unopenable):
    """The store's key is not there; it opens read-only."""

    default_hint = "Put the key file back or set HOLDFAST_KEY; `holdfast key reset` makes a new one, see its --help."


class WrongKey(Unopenable):
    """A key that did not write this store."""

    default_hint = "Use the key that wrote it (beside the database, or HOLDFAST_KEY), or `holdfast key reset`."


class ReadOnly(StorageFailed):
    """The store was opened for reading."""

    default_hint = "Open it for writing: the file, its folder and the key must be writable or present."


class DiskFull(StorageFailed):
    """No room; what was acknowledged is kept."""

    default_hint = "Free some space; `holdfast gc` works on a full disk."


class Poisoned(StorageFailed):
    """An I/O error happened; close and reopen."""

    default_hint = "Close this storage and open it again; nothing acknowledged is lost."


class Closed(StorageFailed):
    """The store was closed."""

    default_hint = "Open a new storage object; a closed one stays closed."

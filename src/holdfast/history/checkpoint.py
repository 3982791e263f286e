"""A checkpoint: an agent's state at one position of its history, with a kind and a parent."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from holdfast.errors import InvalidArgument


class Kind(StrEnum):
    """Why a checkpoint exists."""

    MANUAL = "manual"
    AUTO = "auto"
    ROUTINE = "routine"
    PRE_OPERATION = "pre_operation"
    RECOVERY = "recovery"
    WORKFLOW = "workflow"

    @classmethod
    def of(cls, name: str) -> Kind:
        """The kind of this name; an unknown one is refused with the list of those there are."""
        try:
            return cls(name)
        except ValueError:
            raise InvalidArgument(f"{name!r} is no kind of checkpoint", hint=f"Kinds are {', '.join(cls)}.") from None


_VALUES = ("collected_fields", "required_fields", "metadata", "state", "group_place", "inbox")


@dataclass(kw_only=True)
class Checkpoint:
    """An agent's state at one position of its history. Listed ones carry `state=None`; `load` fills it."""

    id: str
    agent_id: str
    agent_type: str = ""
    user_id: str = "default"
    status: str = ""
    collected_fields: dict[str, Any] = field(default_factory=dict)
    required_fields: list[Any] = field(default_factory=list)
    context_summary: str = ""
    parent_checkpoint_id: str | None = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: dict[str, Any] = field(default_factory=dict)
    kind: str = Kind.MANUAL
    state: dict[str, Any] | None = None
    position: int = 0
    commit_number: int = 0  # the store's order: "newest first" means by this
    state_version: int = 1
    operation: str | None = None
    group_id: str | None = None
    group_place: tuple[int, int] | None = None  # which one of how many that were saved together
    inbox: tuple[int, int] | None = None  # of a group's member: how many messages were acknowledged, and sent
    pinned: bool = False
    verified: bool = True  # False: read from a file that has no integrity field
    deleted: bool = False  # True in `ancestors`: the position is known, the content was erased

    def evolve(self, **changes: Any) -> Self:
        """A copy with these changes. Every save makes some, so it does without `replace`, which looks at each field."""
        if unknown := changes.keys() - self.__dict__.keys():
            raise TypeError(f"A checkpoint has no field {', '.join(sorted(unknown))}")
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, exact: `Checkpoint.from_dict(checkpoint.to_dict()) == checkpoint`."""
        from holdfast.history.jsonform import to_json

        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["timestamp"] = self.timestamp.isoformat()
        for name in _VALUES:
            plain[name] = to_json(plain[name], path=name)
        plain["kind"] = str(self.kind)
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """The checkpoint that `to_dict` made plain. Unknown keys are refused by name."""
        from holdfast.history.jsonform import from_json

        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise InvalidArgument(f"A checkpoint has no field {', '.join(unknown)}")
        values = dict(plain)
        if isinstance(values.get("timestamp"), str):
            values["timestamp"] = datetime.fromisoformat(values["timestamp"])
        for name in _VALUES:
            if name in values:
                values[name] = from_json(values[name])
        return cls(**values)

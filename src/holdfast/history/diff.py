"""The difference between two checkpoints: what was added, removed, changed and moved, with its path."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.errors import InvalidArgument
from holdfast.history.alignment import align
from holdfast.history.place import Place
from holdfast.history.resemblance import Resemblance
from holdfast.history.sameness import Form, Numbering, attributes, form_of

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

COMPARED_FIELDS = ("status", "collected_fields", "required_fields", "context_summary", "metadata", "state")
_DEPTH_MAX = 64  # what lies deeper is compared and shown as one value

ChangeKind = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True)
class Change:
    """One difference. `path` is where it is in the second checkpoint; for something removed, in the first.

    `moved` is an element that stands elsewhere in its list; what changed inside it are changes of their own.
    `old_parts` and `new_parts` are the paths taken apart (keys, indexes, attributes, elements of sets), for programs.
    """

    path: str
    kind: ChangeKind
    old: Any = None
    new: Any = None
    old_parts: tuple[Any, ...] | None = field(default=None, repr=False)
    new_parts: tuple[Any, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class CheckpointDiff:
    """Everything that differs between two checkpoints, in reading order; false when nothing does.

    Print it to read it; `changes` and `to_dict()` are for programs. Values are those of the checkpoints, not copies.
    """

    first: Checkpoint
    second: Checkpoint
    changes: tuple[Change, ...]

    @property
    def first_id(self) -> str:
        return self.first.id

    @property
    def second_id(self) -> str:
        return self.second.id

    @property
    def old_status(self) -> str:
        return self.first.status

    @property
    def new_status(self) -> str:
        return self.second.status

    @property
    def changed_fields(self) -> list[str]:
        """The path of every change, each once, in reading order: `["status", "state.messages[3].content"]`."""
        return list(dict.fromkeys(change.path for change in self.changes))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON. A change has `old`, `new` or both, as its kind says."""
        return {
            "first_id": self.first_id,
            "second_id": self.second_id,
            "old_status": str(self.old_status),
            "new_status": str(self.new_status),
            "changed_fields": self.changed_fields,
            "changes": [_change_to_dict(change) for change in self.changes],
        }

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __repr__(self) -> str:
        counts = Counter(change.kind for change in self.changes)
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing changed"
        return f"<CheckpointDiff {self.first_id} → {self.second_id}: {told}>"

    def __str__(self) -> str:
        from holdfast.history.difftext import diff_text

        return diff_text(self)


def compare(first: Checkpoint, second: Checkpoint) -> CheckpointDiff:
    """What changed from the first checkpoint to the second; they may be of different agents.

    >>> from holdfast.history.checkpoint import Checkpoint
    >>> first = Checkpoint(id="chk_1", agent_id="a", status="RUNNING", state={"guests": 2})
    >>> second = Checkpoint(id="chk_2", agent_id="a", status="RUNNING", state={"guests": 4, "table": 7})
    >>> compare(first, second).changed_fields
    ['state.guests', 'state.table']
    """
    for checkpoint in (first, second):
        _refuse_unloaded(checkpoint)
    # Ties between alignments are broken from one side, so that both directions tell the same story.
    walk = _Walk(backwards=second.id < first.id)
    for name in COMPARED_FIELDS:
        old, new = getattr(first, name), getattr(second, name)
        if name == "status":
            old, new = str(old), str(new)  # an enum's member before it was stored is a plain word afterwards
        walk.compare(old, new, Place((name,), name), Place((name,), name))
    return CheckpointDiff(first, second, tuple(walk.changes))


class _Walk:
    """One walk through two values side by side, which collects their differences."""

    def __init__(self, *, backwards: bool) -> None:
        self.changes: list[Change] = []
        self._backwards = backwards
        self._numbering = Numbering()

    def compare(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        if self._numbering.of(old) == self._numbering.of(new):
            return
        before = len(self.changes)
        if type(old) is type(new) and len(new_place.parts) < _DEPTH_MAX:
            self._descend(old, new, old_place, new_place)
        if len(self.changes) == before:  # a leaf, another type, too deep, or nothing with a path of its own
            change = Change(new_place.path, "changed", old, new, old_place.parts, new_place.parts)
            self.changes.append(change)

    def _descend(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        form = form_of(new)
        if form is Form.MAPPING:
            self._mapping(old, new, old_place, new_place)
        elif form is Form.OBJECT:
            self._object(attributes(old), attributes(new), old_place, new_place)
        elif form is Form.SEQUENCE:
            self._sequence(old, new, old_place, new_place)
        elif form is Form.SET:
            self._set(old, new, old_place, new_place)

    def _mapping(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        # By number and not by equality: a key that turned from 1 into True is another key.
        old_keys = {self._numbering.of(key): key for key in old}
        new_keys = {self._numbering.of(key): key for key in new}
        for number, key in old_keys.items():
            if number in new_keys:
                new_key = new_keys[number]
                self.compare(old[key], new[new_key], old_place.key(key), new_place.key(new_key))
            else:
                self._removed(old[key], old_place.key(key))
        for number, key in new_keys.items():
            if number not in old_keys:
                self._added(new[key], new_place.key(key))

    def _object(self, old: dict[str, Any], new: dict[str, Any], old_place: Place, new_place: Place) -> None:
        for name, value in old.items():
            if name in new:
                self.compare(value, new[name], old_place.attribute(name), new_place.attribute(name))
            else:
                self._removed(value, old_place.attribute(name))
        for name, value in new.items():
            if name not in old:
                self._added(value, new_place.attribute(name))

    def _set(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        old_elements = {self._numbering.of(element): element for element in old}
        new_elements = {self._numbering.of(element): element for element in new}
        gone = [old_elements[number] for number in old_elements.keys() - new_elements.keys()]
        come = [new_elements[number] for number in new_elements.keys() - old_elements.keys()]
        for place in sorted(map(old_place.element, gone), key=lambda place: place.path):
            self._removed(place.parts[-1], place)
        for place in sorted(map(new_place.element, come), key=lambda place: place.path):
            self._added(place.parts[-1], place)

    def _sequence(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        kept, moved = self._align(list(old), list(new))
        moved_to = {j: i for i, j in moved}
        moved_from = set(moved_to.values())
        old_next = new_next = 0
        for i, j in [*kept, (len(old), len(new))]:
            for gone in range(old_next, i):
                if gone not in moved_from:
                    self._removed(old[gone], old_place.item(gone))
            for come in range(new_next, j):
                if come in moved_to:
                    came = moved_to[come]
                    self._moved(old[came], new[come], old_place.item(came), new_place.item(come))
                else:
                    self._added(new[come], new_place.item(come))
            if i < len(old):
                self.compare(old[i], new[j], old_place.item(i), new_place.item(j))
            old_next, new_next = i + 1, j + 1

    def _align(self, old: list[Any], new: list[Any]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        if self._backwards:
            old, new = new, old
        old_numbers, new_numbers = ([self._numbering.of(element) for element in side] for side in (old, new))
        found = align(old_numbers, new_numbers, Resemblance(old, new, self._numbering))
        if self._backwards:
            return [(i, j) for j, i in found.kept], [(i, j) for j, i in found.moved]
        return found.kept, found.moved

    def _added(self, new: Any, place: Place) -> None:
        self.changes.append(Change(place.path, "added", None, new, None, place.parts))

    def _removed(self, old: Any, place: Place) -> None:
        self.changes.append(Change(place.path, "removed", old, None, place.parts, None))

    def _moved(self, old: Any, new: Any, old_place: Place, new_place: Place) -> None:
        self.changes.append(Change(new_place.path, "moved", old, new, old_place.parts, new_place.parts))
        self.compare(old, new, old_place, new_place)


def _refuse_unloaded(checkpoint: Checkpoint) -> None:
    if checkpoint.state is not None:
        return
    if checkpoint.deleted:
        raise InvalidArgument(
            f"Checkpoint {checkpoint.id} was deleted: its position is known, its state is gone",
            checkpoint_id=checkpoint.id,
            hint="Compare with the nearest ancestor that still has its state.",
        )
    raise InvalidArgument(
        f"Checkpoint {checkpoint.id} has no state to compare: it was listed, not loaded",
        checkpoint_id=checkpoint.id,
        hint=f"Load it first: await manager.load({checkpoint.id!r}), or use manager.compare().",
    )


def _change_to_dict(change: Change) -> dict[str, Any]:
    from holdfast.history.jsonform import to_json

    plain: dict[str, Any] = {"path": change.path, "kind": change.kind}
    if change.kind == "moved" and change.old_parts is not None:
        plain["old_index"] = change.old_parts[-1]
    if change.kind != "added":
        plain["old"] = to_json(change.old, path=change.path)
    if change.kind != "removed":
        plain["new"] = to_json(change.new, path=change.path)
    return plain

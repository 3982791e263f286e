"""The resemblance of list elements: which of two lists are one thing that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.history.sameness import Form, attributes, form_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from holdfast.history.sameness import Numbering

_OWN_IDS = ("id", "uuid", "key")
_CALL_IDS = ("toolCallId", "tool_call_id", "callId", "call_id")  # a call and its result share them
_ROLE_KEYS = ("role", "type", "kind")
_FEATURES_MAX = 400
_TEXT_MAX = 4000
_SHORT_TEXT = 40
_ALIKE = 0.3


class Resemblance:
    """Identity and likeness of the elements of an old and a new list; each element is looked at once."""

    def __init__(self, old: Sequence[Any], new: Sequence[Any], numbering: Numbering) -> None:
        self._sides = (old, new)
        self._numbering = numbering
        self._features: tuple[dict[int, frozenset[Hashable]], ...] = ({}, {})

    def identity(self, side: int, index: int) -> Hashable | None:
        """What says that an element is the same thing as another whatever else changed, or None."""
        named = named_parts(self._sides[side][index])
        if named is None:
            return None
        if own := self._ids(named, _OWN_IDS):
            return own
        return (calls, self._role(named)) if (calls := self._ids(named, _CALL_IDS)) else None

    def likeness(self, old_index: int, new_index: int) -> float:
        """0 for two different things, up to 1 for one thing that changed a little."""
        old, new = self._sides[0][old_index], self._sides[1][new_index]
        if self._numbering.of(old) == self._numbering.of(new):
            return 1.0
        forms = form_of(old), form_of(new)
        if forms == (Form.LEAF, Form.LEAF):
            return self._likeness_of_leaves(old, new, old_index, new_index)
        if forms[0] is not forms[1]:
            return 0.0
        overlap = self._overlap(old_index, new_index)
        old_named, new_named = named_parts(old), named_parts(new)
        if old_named is not None and new_named is not None:
            if self._contradict(old_named, new_named):
                return 0.0
            # Two turns of one role at one place are shown as one turn that was rewritten.
            if any(self._agree(old_named, new_named, key) for key in ("role", "type", "name")):
                return 0.5 + overlap / 2
        # A row at the place of a row is the same row, rather than nothing at all.
        return overlap if overlap >= _ALIKE else 0.05 if forms[0] is Form.SEQUENCE else 0.0

    def _likeness_of_leaves(self, old: Any, new: Any, old_index: int, new_index: int) -> float:
        if not (isinstance(old, str) and isinstance(new, str)):
            return 0.2 if type(old) is type(new) else 0.1
        overlap = self._overlap(old_index, new_index)
        if overlap >= _ALIKE:
            return overlap
        return 0.1 if max(len(old), len(new)) <= _SHORT_TEXT else 0.0

    def _ids(self, named: dict[str, Any], keys: tuple[str, ...]) -> tuple[Hashable, ...]:
        return tuple((key, self._numbering.of(named[key])) for key in keys if _is_id(named.get(key)))

    def _role(self, named: dict[str, Any]) -> tuple[int, ...]:
        return tuple(self._numbering.of(named.get(key)) for key in _ROLE_KEYS)

    def _contradict(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Two different ids, or a user's and an assistant's message, are never one thing."""
        old_own, new_own = self._ids(old, _OWN_IDS), self._ids(new, _OWN_IDS)
        if old_own and new_own:
            return old_own != new_own
        return self._role(old) != self._role(new) or self._ids(old, _CALL_IDS) != self._ids(new, _CALL_IDS)

    def _agree(self, old: dict[str, Any], new: dict[str, Any], key: str) -> bool:
        return key in old and key in new and self._numbering.of(old[key]) == self._numbering.of(new[key])

    def _overlap(self, old_index: int, new_index: int) -> float:
        old, new = self._features_of(0, old_index), self._features_of(1, new_index)
        return 2 * len(old & new) / (len(old) + len(new)) if old or new else 0.0

    def _features_of(self, side: int, index: int) -> frozenset[Hashable]:
        known = self._features[side]
        if index not in known:
            known[index] = self._find_features(self._sides[side][index])
        return known[index]

    def _find_features(self, value: Any) -> frozenset[Hashable]:
        if isinstance(value, str):
            return frozenset(value[:_TEXT_MAX].split()[:_FEATURES_MAX])
        form = form_of(value)
        if form is Form.LEAF:
            return frozenset({self._numbering.of(value)})
        if form in (Form.SEQUENCE, Form.SET):
            return frozenset(self._numbering.of(element) for element in list(value)[:_FEATURES_MAX])
        found: set[Hashable] = set()
        for key, part in list((value if form is Form.MAPPING else attributes(value)).items())[:_FEATURES_MAX]:
            found.add((self._numbering.of(key), self._numbering.of(part)))
            if form_of(part) is not Form.LEAF:
                found.add((self._numbering.of(key), form_of(part)))  # a branch that changed is still a branch
            elif isinstance(part, str):
                found.update(part[:_TEXT_MAX].split()[:_FEATURES_MAX])
        return frozenset(found)


def named_parts(value: Any) -> dict[str, Any] | None:
    """A dict, or the attributes of an object as one; None for anything else."""
    form = form_of(value)
    if form is Form.MAPPING:
        return dict(value)
    return attributes(value) if form is Form.OBJECT else None


def _is_id(value: Any) -> bool:
    return value is not None and value != "" and form_of(value) is Form.LEAF

"""Claims about the difference of any two checkpoints."""

from __future__ import annotations

import copy
import math
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.alignment import common
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.diff import COMPARED_FIELDS, compare
from holdfast.history.preview import columns
from holdfast.history.sameness import Numbering

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, math.nan, "", "a", "a text of some length", "two\nlines", b"a"])
    | st.text(max_size=5)
)
KEYS = (
    st.sampled_from(["id", "name", "role", "type", "content", "a b", "toolCallId"]) | st.integers(0, 2) | st.booleans()
)


def containers(children):
    messages = st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": children}, optional={"id": st.integers(0, 3)}
    )
    return (
        st.lists(children | messages, max_size=6)
        | st.dictionaries(KEYS, children, max_size=4)
        | st.lists(children, max_size=3).map(tuple)
        | st.sets(st.integers(0, 3) | st.booleans() | st.sampled_from(["a", "b"]), max_size=3)
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=25)
STATES = st.dictionaries(st.sampled_from(["messages", "plan", "x y"]), VALUES, max_size=3)


@st.composite
def edited_states(draw):
    """A state, and what a few insertions, deletions and moves in its lists make of it."""
    state = draw(STATES)
    other = copy.deepcopy(state)
    for value in other.values():
        if isinstance(value, list):
            for _ in range(draw(st.integers(0, 3))):
                if value and draw(st.booleans()):
                    taken = value.pop(draw(st.integers(0, len(value) - 1)))
                    if draw(st.booleans()):
                        value.insert(draw(st.integers(0, len(value))), taken)
                else:
                    value.insert(draw(st.integers(0, len(value))), draw(VALUES))
    return state, other


@st.composite
def reordered_states(draw):
    """A list of things with ids, and the same things in another order, some of them changed, gone or new."""
    before = [{"id": i, "done": draw(st.booleans()), "steps": draw(st.lists(LEAVES, max_size=3))} for i in range(6)]
    after = copy.deepcopy(draw(st.permutations(before)))
    for thing in draw(st.lists(st.sampled_from(after), max_size=3, unique_by=id)):
        thing.update(done=draw(LEAVES), steps=draw(st.lists(LEAVES, max_size=3)))
    return {"x": before[draw(st.integers(0, 2)) :]}, {"x": after[draw(st.integers(0, 2)) :]}


PAIRS = edited_states() | reordered_states() | st.tuples(STATES, STATES)


def checkpoints(old, new):
    first = Checkpoint(id="chk_1", agent_id="a", status="RUNNING", state=old, metadata=copy.deepcopy(new))
    return first, first.evolve(id="chk_2", status="DONE", state=new, metadata=copy.deepcopy(old))


class Thawed(list):
    """A tuple while it is being changed."""


def thaw(value):
    if isinstance(value, tuple):
        return Thawed(map(thaw, value))
    if isinstance(value, list):
        return [thaw(element) for element in value]
    return {key: thaw(part) for key, part in value.items()} if isinstance(value, dict) else copy.deepcopy(value)


def freeze(value):
    if isinstance(value, list):
        return (tuple if isinstance(value, Thawed) else list)(map(freeze, value))
    return {key: freeze(part) for key, part in value.items()} if isinstance(value, dict) else value


def at(value, parts):
    for part in parts:
        value = value[part]
    return value


def take_out(changes, plain):
    """Remove what goes, where it is in the first: the deepest first, and in a list from its end."""
    taken = {}
    by_container = {}
    for change in changes:
        if change.kind in ("removed", "moved"):
            by_container.setdefault(change.old_parts[:-1], []).append(change)
    for parent in sorted(by_container, key=len, reverse=True):
        container, leaving = at(plain, parent), by_container[parent]
        if isinstance(container, list):
            leaving.sort(key=lambda change: -change.old_parts[-1])
        for change in leaving:
            if isinstance(container, set):
                container.remove(change.old)
            else:
                taken[change.old_parts] = container.pop(change.old_parts[-1])
    return taken


def apply(diff, plain):
    """What the changes make of the first checkpoint's plain data."""
    plain = thaw(plain)
    taken = take_out(diff.changes, plain)
    for change in diff.changes:
        if change.kind == "removed":
            continue
        container, last = at(plain, change.new_parts[:-1]), change.new_parts[-1]
        new = taken[change.old_parts] if change.kind == "moved" else thaw(change.new)
        if isinstance(container, set):
            container.add(new)
        elif isinstance(container, list) and change.kind != "changed":
            container.insert(last, new)
        else:
            container[last] = new
    return freeze(plain)


def plain_fields(checkpoint):
    return {name: getattr(checkpoint, name) for name in COMPARED_FIELDS}


def same(first, second):
    """Equality that the code under test has no part in: of types, NaN, the sign of zero, and any order of keys."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        seconds = {(type(key), key): value for key, value in second.items()}
        return len(first) == len(second) and all(
            (type(key), key) in seconds and same(value, seconds[type(key), key]) for key, value in first.items()
        )
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, set):
        return Counter((type(e), e) for e in first) == Counter((type(e), e) for e in second)
    return repr(first) == repr(second) if isinstance(first, float) else first == second


@given(STATES)
def test_a_checkpoint_does_not_differ_from_its_copy(state):
    first, _ = checkpoints(state, {})
    assert not compare(first, first)
    assert not compare(first, copy.deepcopy(first).evolve(id="chk_2"))


@given(VALUES, VALUES)
def test_two_values_have_one_number_exactly_when_they_are_the_same(first, second):
    numbering = Numbering()
    assert (numbering.of(first) == numbering.of(second)) == same(first, second)
    assert numbering.of(copy.deepcopy(first)) == numbering.of(first)


@given(PAIRS)
def test_applying_the_changes_to_the_first_gives_the_second(states):
    first, second = checkpoints(*states)
    assert same(apply(compare(first, second), plain_fields(first)), plain_fields(second))
    assert same(apply(compare(second, first), plain_fields(second)), plain_fields(first))


@given(PAIRS)
def test_comparing_the_other_way_round_swaps_added_and_removed(states):
    first, second = checkpoints(*states)
    swapped = {"added": "removed", "removed": "added", "changed": "changed", "moved": "moved"}
    there = Counter(
        (change.kind, str(change.old_parts), str(change.new_parts)) for change in compare(first, second).changes
    )
    back = Counter(
        (swapped[change.kind], str(change.new_parts), str(change.old_parts))
        for change in compare(second, first).changes
    )
    assert there == back


@given(PAIRS)
def test_every_value_of_a_change_is_the_value_at_its_place(states):
    first, second = checkpoints(*states)

    def found(side, parts):
        value = getattr(side, parts[0])
        for part in parts[1:]:
            value = part if isinstance(value, set) else value[part]
        return value

    for change in compare(first, second).changes:
        if change.old_parts is not None:
            assert same(found(first, change.old_parts), change.old)
        if change.new_parts is not None:
            assert same(found(second, change.new_parts), change.new)
        assert (change.old_parts is None) == (change.kind == "added")
        assert (change.new_parts is None) == (change.kind == "removed")


@given(PAIRS)
def test_every_diff_can_be_printed_in_a_hundred_columns(states):
    text = str(compare(*checkpoints(*states)))
    assert text.encode()
    assert all(line.isprintable() and columns(line) <= 100 for line in text.split("\n"))


@given(PAIRS)
def test_comparing_leaves_both_checkpoints_alone(states):
    first, second = checkpoints(*states)
    before = copy.deepcopy((first, second))
    str(compare(first, second))
    assert same(plain_fields(first), plain_fields(before[0]))
    assert same(plain_fields(second), plain_fields(before[1]))


def longest_common(old, new):
    """The length of a longest common subsequence, by the book."""
    row = [0] * (len(new) + 1)
    for element in old:
        above = row[:]
        for j, other in enumerate(new):
            row[j + 1] = above[j] + 1 if element == other else max(row[j], above[j + 1])
    return row[-1]


@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30))
def test_what_two_lists_have_in_common_is_common_and_rises(old, new):
    pairs = common(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@given(st.lists(st.sampled_from([0, 0, 1, 1]), min_size=4, max_size=30), st.lists(st.sampled_from([0, 1]), max_size=30))
def test_among_repeated_elements_the_longest_common_part_is_found(old, new):
    old, new = [0, 0, 1, 1, *old], [*new, 0, 0, 1, 1]  # nothing occurs once, so nothing is an anchor
    found = len(common(old, new))
    assert found >= longest_common(old, new) - 3  # stripping ends can leave single elements, which anchor

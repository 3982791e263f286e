"""The tree of heads: what it says depends on the agents' rows alone, and on each of them."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.sqlite.headtree import FANOUT, ROOTS_MAX, Group, Heads


def mac(number, version=0):
    return blake2b(b"%d %d" % (number, version), digest_size=16).digest()


def macs(numbers):
    return {number: mac(number) for number in numbers}


def test_few_agents_are_their_own_roots():
    assert Heads.of({}) == Heads()
    assert Heads.of(macs((1, 3))) == Heads(0, mac(1) + bytes(16) + mac(3))
    assert Heads.of(macs(range(1, ROOTS_MAX + 1))).depth == 0


@pytest.mark.parametrize(
    ("last", "depth", "groups"),
    [(64, 0, 64), (65, 1, 5), (1024, 1, 64), (1025, 2, 5), (16_384, 2, 64), (16_385, 3, 5)],
)
def test_it_becomes_deeper_before_its_roots_become_too_many(last, depth, groups):
    heads = Heads.of(macs((1, last)))
    assert (heads.depth, heads.groups) == (depth, groups)
    assert len(heads.roots) <= ROOTS_MAX * 16
    assert last in heads.numbers(heads.group_of(last))
    assert last + FANOUT**depth not in heads.numbers(heads.group_of(last))


@pytest.mark.parametrize("last", [64, 1024])
def test_a_tree_that_grew_is_the_one_that_is_made_at_once(last):
    before = Heads.of(macs(range(1, last + 1)))
    grown = before.with_room_for(last + 1)
    assert grown.depth == before.depth + 1
    group = Group(bytearray(mac(last + 1) + bytes(16 * (FANOUT**grown.depth - 1))))
    assert grown.with_root(grown.group_of(last + 1), group.root) == Heads.of(macs(range(1, last + 2)))


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 2)), min_size=1, max_size=30))
def test_a_group_that_was_changed_is_the_one_that_is_made_at_once(changes):
    leaves = bytearray(FANOUT**2 * 16)
    group = Group(bytearray(leaves))
    for number, version in changes:
        index = number % FANOUT**2
        leaves[index * 16 : index * 16 + 16] = mac(number, version)
        group.put(index, mac(number, version))
    assert group.levels == Group(leaves).levels


@given(st.sets(st.integers(1, 200), min_size=1, max_size=150), st.data())
def test_any_row_that_is_another_or_not_there_changes_it(numbers, data):
    right = macs(numbers)
    number = data.draw(st.sampled_from(sorted(numbers)))
    without = {other: one for other, one in right.items() if other != number}
    assert Heads.of(right) != Heads.of(without)
    assert Heads.of(right) != Heads.of(right | {number: mac(number, 1)})
    other = data.draw(st.integers(1, 200))
    if other != number:
        changed = {**without, other: right[number]} | ({number: right[other]} if other in right else {})
        assert Heads.of(right) != Heads.of(changed), "nor may two change places"

"""The graph of steps: rows that can run together, what is settled before a step, and cycles by name."""

from __future__ import annotations

import pytest

from holdfast.agents.workflow.graph import before, cycle, levels

DIAMOND = {"d": ("b", "c"), "b": ("a",), "c": ("a",), "a": (), "e": ()}


def test_each_row_needs_only_rows_above():
    assert levels(DIAMOND) == [["a", "e"], ["b", "c"], ["d"]]
    assert levels({}) == []


def test_what_comes_before_a_step_is_all_that_it_needs_and_they_need():
    assert before("d", DIAMOND) == {"a", "b", "c"}
    assert before("e", DIAMOND) == set()


@pytest.mark.parametrize(
    ("needs", "found"),
    [
        (DIAMOND, []),
        ({"a": ("a",)}, ["a"]),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, ["b", "c"]),
        ({"x": (), "a": ("x", "b"), "b": ("x", "c"), "c": ("a",)}, ["a", "b", "c"]),
        ({"a": ("unknown",)}, []),
    ],
)
def test_a_cycle_is_told_by_its_steps_each_needing_the_next(needs, found):
    assert cycle(needs) == found


def test_a_long_chain_is_no_recursion():
    chain = {f"s{number}": (f"s{number - 1}",) for number in range(1, 20_000)}
    assert cycle(chain) == []
    assert len(before("s19999", chain)) == 19_999

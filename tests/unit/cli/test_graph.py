"""The drawing of branches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.graph import Node, draw


def drawn(*edges: str) -> list[str]:
    """What is drawn for `child>parent` pairs, newest first; `x>` has no parent."""
    nodes = [Node(edge.split(">")[0], edge.split(">")[1] or None, None) for edge in edges]
    return [f"{line.drawing} {line.node.id if line.node else ''}".rstrip() for line in draw(nodes)]


def test_a_line_of_ancestors_is_a_column():
    assert drawn("c>b", "b>a", "a>") == ["* c", "* b", "* a"]


def test_branches_run_into_what_they_came_from():
    assert drawn("d>a", "c>a", "b>a", "a>") == ["* d", "| * c", "| | * b", "|/_/", "* a"]


def test_a_branch_crosses_one_that_goes_on():
    assert drawn("d>a", "c>b", "e>a", "a>", "b>") == ["* d", "| * c", "| | * e", "|_|/", "* | a", "  * b"]


def test_a_column_that_ended_is_used_again():
    assert drawn("b>a", "a>", "d>c", "c>") == ["* b", "* a", "* d", "* c"]


def test_a_parent_that_never_comes_leaves_its_branch_open():
    assert drawn("c>b", "z>y") == ["* c", "| * z"]


@given(st.lists(st.integers(0, 30), max_size=30))
def test_every_node_is_drawn_once_in_order_and_under_its_child(parents):
    edges = [(n, min(p, n - 1) if n else None) for n, p in enumerate(parents)]
    nodes = [Node(str(n), None if p is None else str(p), None) for n, p in reversed(edges)]
    lines = list(draw(nodes))
    assert [line.node.id for line in lines if line.node] == [node.id for node in nodes]
    columns = {line.node.id: line.column for line in lines if line.node}
    for line in lines:
        if line.node:
            assert line.drawing[2 * line.column] == "*"
    for node in nodes:
        if node.parent is not None:
            assert columns[node.parent] <= columns[node.id]

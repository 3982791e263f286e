"""The drawing of a forest of checkpoints: newest first, a column for each branch, a line for each checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """Something with an id, and the id of what it came from."""

    id: str
    parent: str | None
    content: T
    mark: str = "*"


@dataclass(frozen=True, slots=True)
class Line(Generic[T]):
    """A line of the drawing. One without a node only joins branches to what they came from."""

    drawing: str
    node: Node[T] | None
    column: int


def draw(nodes: Iterable[Node[T]]) -> Iterator[Line[T]]:
    r"""Draws nodes that come children first. A parent that never comes leaves its branch open at the end.

    >>> tree = [Node("d", "b", 0), Node("c", "a", 0), Node("b", "a", 0), Node("a", None, 0)]
    >>> print("\n".join(f"{line.drawing}  {line.node.id if line.node else ''}".rstrip() for line in draw(tree)))
    *  d
    | *  c
    * |  b
    |/
    *  a
    """
    columns: list[str | None] = []  # which node each column waits for
    for node in nodes:
        waiting = [i for i, wanted in enumerate(columns) if wanted == node.id]
        if len(waiting) > 1:
            yield Line(_join(columns, waiting), None, waiting[0])
            for i in waiting[1:]:
                columns[i] = None
        here = waiting[0] if waiting else _free(columns)
        cells = ["|" if wanted is not None else " " for wanted in columns]
        cells[here] = node.mark
        yield Line(" ".join(cells).rstrip(), node, here)
        columns[here] = node.parent
        while columns and columns[-1] is None:
            columns.pop()


def _free(columns: list[str | None]) -> int:
    if None in columns:
        here = columns.index(None)
    else:
        here = len(columns)
        columns.append(None)
    return here


def _join(columns: list[str | None], joining: list[int]) -> str:
    """Branches that end run to the left into the first of them, below or across those between."""
    cells = ["|" if wanted is not None else " " for wanted in columns]
    gaps = [" "] * len(columns)  # right of each column
    first, last = joining[0], joining[-1]
    for i in range(first, last):
        gaps[i] = "_"
        if i > first and i not in joining:
            cells[i] = "|"
    for i in joining[1:]:
        cells[i] = " "
        gaps[i - 1] = "/"
        if i < last:
            cells[i] = "_"
    return "".join(cell + gap for cell, gap in zip(cells, gaps, strict=True)).rstrip()

"""A program's text, in which the sandbox names places by their bytes: their lines, and which calls are awaited."""

from __future__ import annotations

import ast
from bisect import bisect_right
from typing import Final

_GATHERERS: Final = frozenset({"gather"})
_LOOKED_THROUGH: Final = (ast.Starred, ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.IfExp)


class Source:
    """The calls of one program.

    The sandbox does not say whether a call's result will be awaited, and an answer of the wrong kind fails late. The
    text mostly says it: `await fetch(1)`, `asyncio.gather(fetch(1), fetch(2))`, `gather(*[fetch(i) for i in ids])`.
    """

    def __init__(self, code: str) -> None:
        self._awaited: set[tuple[int, int]] = set()
        self._starts = _line_starts(code)
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # what this Python can't read, the sandbox refuses or it is left to how the tools are declared
        self._walk(tree)

    def line(self, start: int) -> int:
        """The number, from 1, of the line with this byte."""
        return bisect_right(self._starts, start)

    def awaits(self, start: int, end: int) -> bool:
        """Whether the call in these bytes of the encoded text is certainly awaited, alone or with others."""
        return (start, end) in self._awaited

    def _walk(self, tree: ast.AST) -> None:
        waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
        while waiting:
            node, awaited = waiting.pop()
            if awaited and isinstance(node, ast.Call):
                self._awaited.add((self._place(node.lineno, node.col_offset), self._end(node)))
            waiting += [(child, _hands_on(node, child, awaited)) for child in ast.iter_child_nodes(node)]

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _end(self, node: ast.Call) -> int:
        return self._place(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def _hands_on(node: ast.AST, child: ast.AST, awaited: bool) -> bool:  # noqa: FBT001 - the state of a walk
    """Whether a child's value is awaited, given that the node's is handed to a gathering call (or is not)."""
    if isinstance(node, ast.Await):
        return True
    if isinstance(node, ast.Call):
        return _name(node.func) in _GATHERERS and child is not node.func and not isinstance(child, ast.keyword)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return awaited and child is node.elt
    if isinstance(node, ast.IfExp):
        return awaited and child is not node.test
    return awaited and isinstance(node, _LOOKED_THROUGH)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _line_starts(code: str) -> list[int]:
    """Where each line begins, in bytes of UTF-8, by the line ends that Python knows."""
    starts, place = [0], 0
    for line in code.encode("utf-8", "surrogatepass").splitlines(
        keepends=True
    ):  # bytes: only \n, \r and \r\n end lines
        place += len(line)
        starts.append(place)
    return starts

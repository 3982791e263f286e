"""Kinds of values in a workflow file: each is taken if it is what it must be, and a problem if it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from holdfast.agents.workflow.document import Node
from holdfast.agents.workflow.problems import Problem, near


class Values:
    """Takes values out of nodes, and collects the problems instead of ending at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def problem(self, node: Node, key: str, message: str) -> None:
        self.problems.append(Problem(line=node.line, column=node.column, key=key, message=message))

    def mapping(self, node: Node, key: str, known: Collection[str] | None) -> dict[str, Node]:
        """The values by key; a key that is not known is a problem."""
        if not isinstance(node.value, dict):
            self.problem(node, key, f"must be an object with keys, not {shown(node)}")
            return {}
        values: dict[str, Node] = node.value
        for name in values:
            if known is not None and name not in known:
                line, column = node.keys[name]
                where = f"{key}.{name}" if key else name
                message = f"unknown key{near(name, known)}"
                self.problems.append(Problem(line=line, column=column, key=where, message=message))
        return values

    def listed(self, node: Node, key: str) -> list[Node]:
        if not isinstance(node.value, list):
            self.problem(node, key, f"must be a list, not {shown(node)}")
            return []
        return node.value

    def text(self, node: Node, key: str) -> str:
        if not isinstance(node.value, str) or not node.value.strip():
            self.problem(node, key, f"must be a text, not {shown(node)}")
            return ""
        return node.value

    def truth(self, node: Node | None, key: str, *, default: bool) -> bool:
        if node is None:
            return default
        if not isinstance(node.value, bool):
            self.problem(node, key, f"must be true or false, not {shown(node)}")
        return bool(node.value)

    def seconds(self, node: Node, key: str, *, above_zero: bool = False) -> float:
        number = node.value
        right = isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 1e9
        if not right or (above_zero and number == 0):
            self.problem(node, key, f"must be a number of seconds, not {shown(node)}")
            return 0.0
        return float(number)

    def understood(self, node: Node, key: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ValueError as error:
            self.problem(node, key, str(error))
            return None


def shown(node: Node) -> str:
    """A value in a few characters."""
    if isinstance(node.value, dict):
        return "an object"
    if isinstance(node.value, list):
        return "a list"
    return "nothing" if node.value is None else repr(node.value)[:40]

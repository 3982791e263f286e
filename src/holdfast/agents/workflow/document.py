"""A YAML document as plain nodes that know their places, within limits that no file for people needs to pass.

What is read is YAML 1.2's core: `yes` and `on` are texts. Nothing is constructed from tags: a tag is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from holdfast.agents.workflow.problems import Problem, invalid
from holdfast.errors import InvalidWorkflow, MissingExtra

BYTES_MAX: Final = 1 << 20
NODES_MAX: Final = 20_000  # aliases counted as what they stand for
DEPTH_MAX: Final = 32

_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUE, _FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_RADIX: Final = re.compile(r"0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A value and where it stands: a dict by key, a list, or a scalar. Keys know their places as well."""

    value: Any  # dict[str, Node], list[Node], or str, int, float, bool, None
    line: int
    column: int
    keys: dict[str, tuple[int, int]]  # of a dict: where each key stands
    nodes: int = 1  # how many there are from here on down

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read(data: bytes, source: str) -> Node:
    """The one document in these bytes. Whatever is wrong with it is an `InvalidWorkflow` that names the place."""
    if len(data) > BYTES_MAX:
        raise _refused(source, 1, f"the file has {len(data):,} bytes, and a workflow has at most {BYTES_MAX:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(source, line, "this is not UTF-8") from None
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra(
            "Workflows need PyYAML, which is not installed", hint="pip install 'holdfast[workflow]'"
        ) from error
    try:
        return _Reader(yaml.parse(text, Loader=yaml.SafeLoader), yaml, source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _refused(source, line, f"this is no YAML: {error.problem or error.context}", column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise _refused(source, line, f"the character #x{int(error.character):04x} is not allowed in YAML") from None


class _Reader:
    """Builds nodes from the parser's events, one by one, so that a limit is noticed before what lies beyond it."""

    def __init__(self, events: Iterator[Any], yaml: Any, source: str) -> None:
        self.events = events
        self.yaml = yaml
        self.source = source
        self.anchors: dict[str, Node] = {}
        self.nodes = 0
        self.line = 1  # of what was read last

    def next(self) -> Any:
        try:
            event = next(self.events)
        except (ValueError, OverflowError) as error:  # of PyYAML's own conversions: an escape beyond Unicode, say
            raise _refused(self.source, self.line, f"this or what follows is no YAML: {error}") from None
        self.line = event.start_mark.line + 1
        return event

    def document(self) -> Node:
        self.next()  # the beginning of the stream
        event = self.next()
        if isinstance(event, self.yaml.StreamEndEvent):
            raise self.refused(event, "the file is empty")
        root = self.node(self.next(), 0)
        self.next()  # the end of the document
        event = self.next()
        if not isinstance(event, self.yaml.StreamEndEvent):
            raise self.refused(event, "a second document begins here; a workflow is one document")
        return root

    def node(self, event: Any, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise self.refused(event, f"this is nested more than {DEPTH_MAX} deep")
        if isinstance(event, self.yaml.AliasEvent):
            return self.alias(event)
        self.count(event, 1)
        if event.tag is not None and event.tag != "!":
            raise self.refused(event, f"the tag {event.tag} is refused: a workflow has plain values only")
        if isinstance(event, self.yaml.MappingStartEvent):
            node = self.mapping(event, depth)
        elif isinstance(event, self.yaml.SequenceStartEvent):
            node = self.sequence(event, depth)
        else:
            node = self.made(event, scalar(event.value) if event.implicit[0] else event.value)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def alias(self, event: Any) -> Node:
        target = self.anchors.get(event.anchor)
        if target is None:  # also when it stands inside of what it names
            raise self.refused(event, f"nothing complete has the anchor &{event.anchor} before this")
        self.count(event, target.nodes)
        return target

    def mapping(self, start: Any, depth: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        while not isinstance(event := self.next(), self.yaml.MappingEndEvent):
            key = self.node(event, depth + 1)
            if not isinstance(key.value, str):
                raise self.refused(event, "a key must be a text; put it in quotes")
            if key.value in values:
                line = keys[key.value][0]
                raise self.refused(event, f"the key {key.value!r} is there already, in line {line}")
            keys[key.value] = (event.start_mark.line + 1, event.start_mark.column + 1)
            values[key.value] = self.node(self.next(), depth + 1)
        return self.made(start, values, keys=keys, nodes=1 + sum(1 + node.nodes for node in values.values()))

    def sequence(self, start: Any, depth: int) -> Node:
        values = []
        while not isinstance(event := self.next(), self.yaml.SequenceEndEvent):
            values.append(self.node(event, depth + 1))
        return self.made(start, values, nodes=1 + sum(node.nodes for node in values))

    def made(self, event: Any, value: Any, **more: Any) -> Node:
        mark = event.start_mark
        return Node(value=value, line=mark.line + 1, column=mark.column + 1, **{"keys": {}, **more})

    def count(self, event: Any, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            raise self.refused(event, f"up to here there are more than {NODES_MAX:,} values, with aliases followed")

    def refused(self, event: Any, message: str) -> InvalidWorkflow:
        return _refused(self.source, event.start_mark.line + 1, message, event.start_mark.column + 1)


def scalar(text: str) -> Any:
    """What a scalar without quotes is, by YAML 1.2's core schema.

    >>> [scalar(text) for text in ("12", "0x1F", "1.5", "true", "yes", "~", "1e3", "2026-03-01")]
    [12, 31, 1.5, True, 'yes', None, 1000.0, '2026-03-01']
    """
    if _NULL.fullmatch(text):
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text)
    if _RADIX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _refused(source: str, line: int, message: str, column: int = 1) -> InvalidWorkflow:
    return invalid(source, [Problem(line=line, column=column, key="", message=message)])

"""References, `${search.output.hotels[0]}`: how one is written, what it names, and what it becomes at use."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from holdfast.errors import InvalidArgument
from holdfast.history.jsonform import to_json

INPUT: Final = "input"
ENVIRONMENT: Final = "env"
PARTS: Final = ("output", "status", "error")
"""What a reference to a step may begin with."""

NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_WRITTEN: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}?")
_ENVIRONMENT: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_PATH: Final = re.compile(rf"({NAME})((?:\.{NAME}|\[\d{{1,9}}\])*)")
_STEP: Final = re.compile(rf"\.({NAME})|\[(\d+)\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """What `${…}` names: an input, a step's output, status or error, or a variable of the environment."""

    text: str  # as it is written
    source: str  # "input", "env", or the step's name
    path: tuple[str | int, ...]  # for "env", the variable's name alone

    @property
    def is_step(self) -> bool:
        return self.source not in (INPUT, ENVIRONMENT)


class Values(Protocol):
    """Where references find what they name now."""

    def inputs(self) -> Mapping[str, Any]: ...

    def step(self, name: str, part: str) -> Any: ...

    def environment(self, name: str) -> str: ...


def parse(text: str) -> Reference:
    """The reference that is written between the braces. A `ValueError` says what is wrong with it."""
    if match := _ENVIRONMENT.fullmatch(text):
        return Reference(text=text, source=ENVIRONMENT, path=(match[1],))
    match = _PATH.fullmatch(text)
    if match is None:
        raise ValueError(f"${{{text}}} is no reference; write ${{step.output}}, ${{input.name}} or ${{env:NAME}}")
    path = tuple(name or int(index) for name, index in _STEP.findall(match[2]))
    source = match[1]
    if source == INPUT:
        if not path or not isinstance(path[0], str):
            raise ValueError(f"${{{text}}} names no input; write ${{input.name}}")
    elif not path or path[0] not in PARTS:
        raise ValueError(f"${{{text}}} must go on with {', '.join('.' + part for part in PARTS)} of step {source}")
    elif path[0] != "output" and len(path) > 1:
        raise ValueError(f"${{{text}}}: .{path[0]} is a text and has no parts")
    return Reference(text=text, source=source, path=path)


def references(value: Any) -> Iterator[Reference]:
    """Every reference in a plain value. A `ValueError` says what is wrong with one."""
    if isinstance(value, str):
        for match in _WRITTEN.finditer(value):
            if match[0] != "$${":
                yield _of(match)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from references(inner)


def filled(value: Any, values: Values) -> Any:
    """The value with every reference replaced by what it names, as a copy.

    A text that is one reference becomes the very value; inside a longer text, a value that is no text becomes JSON.
    `$${` stands for `${`.
    """
    if isinstance(value, str):
        whole = _WRITTEN.fullmatch(value)
        if whole is not None and whole[0] != "$${":
            return resolved(_of(whole), values)
        return _WRITTEN.sub(lambda match: "${" if match[0] == "$${" else _as_text(_of(match), values), value)
    if isinstance(value, Mapping):
        return {key: filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, values) for inner in value]
    return value


def resolved(reference: Reference, values: Values) -> Any:
    """What a reference names now, as a copy that may be changed."""
    if reference.source == ENVIRONMENT:
        return values.environment(str(reference.path[0]))
    if reference.source == INPUT:
        return copy.deepcopy(_followed(values.inputs(), reference.path, reference))
    found = values.step(reference.source, str(reference.path[0]))
    return None if found is None else copy.deepcopy(_followed(found, reference.path[1:], reference))


def missing(wanted: Iterable[Reference], values: Values) -> list[str]:
    """A sentence for each input and variable of the environment that is named and not there."""
    sentences: dict[str, str] = {}
    for reference in wanted:
        if not reference.is_step:
            try:
                resolved(reference, values)
            except InvalidArgument as error:
                sentences.setdefault(reference.text, error.message)
    return list(sentences.values())


def _of(match: re.Match[str]) -> Reference:
    if match[1] is None or not match[0].endswith("}"):
        raise ValueError(f"{match[0]} has no end; `$${{` stands for a ${{ that is none")
    return parse(match[1].strip())


def _as_text(reference: Reference, values: Values) -> str:
    found = resolved(reference, values)
    return found if isinstance(found, str) else json.dumps(to_json(found), ensure_ascii=False)


def _followed(value: Any, path: tuple[str | int, ...], reference: Reference) -> Any:
    for place, key in enumerate(path):
        if _has(value, key):
            value = value[key]
        else:
            raise InvalidArgument(
                f"${{{reference.text}}}: there is no {_shown(path[: place + 1], reference)}", path=reference.text
            )
    return value


def _shown(path: tuple[str | int, ...], reference: Reference) -> str:
    begin = f"{reference.source}.output" if reference.is_step else reference.source
    return begin + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, Mapping):
        return key in value
    return isinstance(value, list | tuple) and isinstance(key, int) and key < len(value)

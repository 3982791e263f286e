"""Shapes: which keys a dict has that stands for a dataclass, model or TypedDict of the host."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.durable.runs.typenames import FIELDS, TypeNames, hints_of

_Field = tuple[str, Any, bool]  # its name, its annotation, and whether it may be left out


class Shapes(TypeNames):
    """Names types as `TypeNames` does, and shows the keys of such a dict: `{"to": str, "copies": int (optional)}`."""

    def __init__(self, *, is_result: bool = False) -> None:
        super().__init__()
        self._is_result = is_result
        self._open: list[type] = []

    def fields(self, cls: type[Any]) -> str:
        if cls in self._open:
            return FIELDS  # A shape that holds itself would have no end.
        # What an instance was made without, it has nevertheless; only a TypedDict comes without it.
        all_there = self._is_result and not typing.is_typeddict(cls)
        self._open.append(cls)
        try:
            parts = [
                f'"{name}": {self.of(annotation)}{" (optional)" if optional and not all_there else ""}'
                for name, annotation, optional in _fields(cls)
            ]
        finally:
            self._open.pop()
        return f"{{{', '.join(parts)}}}" if parts else FIELDS


def notes(parameters: Iterable[tuple[str, Any]], result: Any) -> Iterator[str]:
    """A line for each parameter whose annotation tells more than its type does, and for such a result."""
    for name, annotation in parameters:
        yield from _line(name, annotation, Shapes())
    yield from _line("returns", result, Shapes(is_result=True))


def _line(name: str, annotation: Any, shapes: Shapes) -> Iterator[str]:
    said = " ".join(part for part in (_description(annotation), _shape(annotation, shapes)) if part)
    if said:
        yield f"{name}: {said}"


def _shape(annotation: Any, shapes: Shapes) -> str:
    shape = shapes.of(annotation)
    return "" if shape == TypeNames().of(annotation) else shape


def _description(annotation: Any) -> str:
    """What is said of a parameter in its annotation, as in `Annotated[str, Field(description="…")]`."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return ""
    found = (getattr(one, "description", None) for one in annotation.__metadata__)
    return next((one for one in found if isinstance(one, str)), "")


def _fields(cls: type[Any]) -> Iterator[_Field]:
    hints = hints_of(cls)
    if typing.is_typeddict(cls):
        for name, annotation in hints.items():
            # While annotations are text, the class itself does not see what they say of a key.
            marks = {typing.Required: False, typing.NotRequired: True}
            optional = marks.get(typing.get_origin(annotation), name not in cls.__required_keys__)
            yield name, annotation, optional
    elif dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if field.init:
                missing = field.default is field.default_factory is dataclasses.MISSING
                yield field.name, hints.get(field.name, Any), not missing
    else:
        for name, info in getattr(cls, "model_fields", {}).items():
            yield name, info.annotation, not info.is_required()

"""Stubs: the tools as typed Python without bodies, for a model to read and for a type checker to hold calls against."""

from __future__ import annotations

import collections.abc
import inspect
import math
import re
import typing
from collections.abc import Iterable
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from holdfast.durable.runs.plain import text
from holdfast.durable.runs.shapes import notes
from holdfast.durable.runs.signature import body_of
from holdfast.durable.runs.typenames import FROM_TYPING, MODULES, TypeNames

if TYPE_CHECKING:
    from holdfast.durable.runs.tool import Tool

DOCSTRING_MAX = 2_000
IMPORTED = frozenset({*FROM_TYPING, *MODULES})

_DEFAULT_MAX = 80
_ENDING = re.compile(r'"""|"+\Z')  # what would end the docstring
_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def preamble(tools: Iterable[Tool]) -> str:
    """A stub for every tool, below the imports that their annotations need."""
    names = TypeNames()
    functions = [stub(tool, names) for tool in tools]
    return "\n\n".join(part for part in (names.imports(), *functions) if part) + "\n" if functions else ""


def stub(tool: Tool, names: TypeNames | None = None) -> str:
    """The stub of one tool. Its types are those of the values that a program passes and gets."""
    names = names or TypeNames()
    parameters, result = list(tool.signature.parameters.values()), _result(tool)
    keyword = "async def" if tool.is_async else "def"
    head = f"{keyword} {tool.name}({', '.join(_parameters(parameters, names))}) -> {names.of(result)}:"
    told = "\n".join(notes(((one.name, one.annotation) for one in parameters), result))
    docstring = _docstring("\n\n".join(part for part in (_shortened(tool.description), told) if part))
    return "\n".join((head, *docstring, "    ..."))


def _result(tool: Tool) -> Any:
    annotation = tool.signature.return_annotation
    body = body_of(tool.function)
    if annotation is Parameter.empty:
        return Any
    if inspect.isgeneratorfunction(body) and typing.get_origin(annotation) is collections.abc.Iterable:
        return list[typing.get_args(annotation)]  # type: ignore[misc]  # All that it yields has been drawn from it.
    return annotation


def _parameters(parameters: list[Parameter], names: TypeNames) -> Iterable[str]:
    kinds = [one.kind for one in parameters]
    starred = Parameter.VAR_POSITIONAL in kinds
    for index, one in enumerate(parameters):
        if one.kind is Parameter.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        yield _parameter(one, names)
        if one.kind is Parameter.POSITIONAL_ONLY and Parameter.POSITIONAL_ONLY not in kinds[index + 1 :]:
            yield "/"


def _parameter(one: Parameter, names: TypeNames) -> str:
    said = f"{_STARS.get(one.kind, '')}{one.name}: {names.of(one.annotation)}"
    return said if one.default is Parameter.empty else f"{said} = {_default(one.default)}"


def _default(value: Any) -> str:
    """A default as one would write it, or `...` for what a program could not write."""
    said = repr(value) if _is_literal(value) else "..."
    return said if len(said) <= _DEFAULT_MAX else "..."


def _is_literal(value: Any) -> bool:
    cls = type(value)
    if cls in (list, tuple):
        return len(value) <= _DEFAULT_MAX and all(map(_is_literal, value))
    if cls is dict:
        return not value
    return value is None or cls in (bool, int, str, bytes) or (cls is float and math.isfinite(value))


def _shortened(description: str) -> str:
    if len(description) <= DOCSTRING_MAX:
        return description
    return description[:DOCSTRING_MAX].rstrip() + " …"


def _docstring(description: str) -> Iterable[str]:
    if not description:
        return
    said = text(description).replace("\\", "\\\\")
    said = _ENDING.sub(lambda quotes: '\\"' * len(quotes[0]), said)
    said = "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in said)
    first, *rest = said.split("\n")
    yield f'    """{first}' + ("" if rest else '"""')
    for line in rest:
        yield f"    {line}" if line.strip() else ""
    if rest:
        yield '    """'

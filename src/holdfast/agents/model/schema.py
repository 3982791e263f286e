"""The JSON schema of a tool's arguments, as a model is shown it, and the way from what it wrote to the arguments."""

from __future__ import annotations

import inspect
import json
from inspect import Parameter
from typing import Any

from holdfast.durable.runs.tool import Tool

_ANYTHING: dict[str, Any] = {}


def schema_of(tool: Tool) -> dict[str, Any]:
    """An object with a property for each parameter. What pydantic can't describe may be anything."""
    from pydantic import TypeAdapter

    adapters: dict[str, Any] = {}
    for one in tool.signature.parameters.values():
        adapter = _adapter(one.annotation)
        if adapter is not None:
            adapters[one.name] = adapter
    named, definitions = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters.items()], ref_template="#/$defs/{model}"
    )
    schemas = {name: dict(schema) for (name, _), schema in named.items()}
    properties: dict[str, Any] = {}
    required: list[str] = []
    more: Any = False
    for one in tool.signature.parameters.values():
        schema = schemas.get(one.name, dict(_ANYTHING))
        if one.kind is Parameter.VAR_KEYWORD:
            more = schema or True
        elif one.kind is Parameter.VAR_POSITIONAL:
            properties[one.name] = {"type": "array", "items": schema}
        else:
            properties[one.name] = _with_default(schema, one.default)
            if one.default is Parameter.empty:
                required.append(one.name)
    whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    whole["additionalProperties"] = more
    if definitions.get("$defs"):
        whole["$defs"] = definitions["$defs"]
    return whole


def read_arguments(text: Any) -> Any:
    """What the model wrote as arguments: a dict if that is a JSON object, otherwise the text as it is."""
    if not isinstance(text, str):
        return {} if text is None else text
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def by_parameter(tool: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments in the form that `Tool.prepare` takes. TypeError or ValueError says what the model did wrong."""
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of {tool.name}() are no JSON object: {arguments!r:.200}")  # noqa: TRY004
    found: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    var_keyword = None
    for one in tool.signature.parameters.values():
        if one.kind is Parameter.VAR_KEYWORD:
            var_keyword = one.name
        elif one.name in arguments:
            found[one.name] = arguments[one.name]
    rest = {name: value for name, value in arguments.items() if name not in found}
    if rest and var_keyword is None:
        raise TypeError(f"{tool.name}() got an unexpected keyword argument {next(iter(rest))!r}")
    if rest and var_keyword is not None:
        found[var_keyword] = rest
    return found


def _adapter(annotation: Any) -> Any:
    from pydantic import TypeAdapter

    if annotation in (inspect.Parameter.empty, Any):
        return None
    try:
        adapter: Any = TypeAdapter(annotation)
        adapter.json_schema()
    except Exception:  # noqa: BLE001 - an annotation may be any object at all
        return None
    return adapter


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    if default is Parameter.empty:
        return schema
    try:
        return {**schema, "default": json.loads(json.dumps(default, allow_nan=False))}
    except (TypeError, ValueError, RecursionError):
        return schema


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")

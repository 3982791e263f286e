"""Validation: plain values become what the annotations of a tool ask for, by the rules of pydantic."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from holdfast.history.unkept import short

_ERRORS_SHOWN = 3
# pydantic would hand over an iterator that checks its items one by one, later, and can be read only once.
_LAZY = frozenset(
    {
        collections.abc.AsyncGenerator,
        collections.abc.AsyncIterable,
        collections.abc.AsyncIterator,
        collections.abc.Generator,
        collections.abc.Iterable,
        collections.abc.Iterator,
    }
)

_Validate = Callable[[Any], Any]


class Validation:
    """Validates the arguments of one tool. An annotation that pydantic can't make sense of lets every value through."""

    def __init__(self, name: str, signature: Signature) -> None:
        self._name = name
        self._parameters = signature.parameters
        self._by_parameter: dict[str, _Validate] = {}

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the types that the tool asks for; ValueError if one can't have it."""
        return {name: self._validated(name, value) for name, value in arguments.items()}

    def _validated(self, name: str, value: Any) -> Any:
        parameter = self._parameters.get(name)
        if parameter is None or parameter.annotation in (Parameter.empty, Any):
            return value
        validate = self._by_parameter.get(name)
        if validate is None:
            validate = self._by_parameter[name] = _validator(parameter.annotation)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return [self._checked(validate, f"{name}[{index}]", item) for index, item in enumerate(value)]
        if parameter.kind is Parameter.VAR_KEYWORD:
            return {key: self._checked(validate, key, item) for key, item in value.items()}
        return self._checked(validate, name, value)

    def _checked(self, validate: _Validate, place: str, value: Any) -> Any:
        from pydantic import ValidationError
        from pydantic.errors import PydanticUserError

        try:
            return validate(value)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            told = "; ".join(_told(place, one) for one in details[:_ERRORS_SHOWN])
            more = f"; and {len(details) - _ERRORS_SHOWN} more" if len(details) > _ERRORS_SHOWN else ""
            raise ValueError(f"{self._name}() got a wrong argument: {told}{more}") from None
        except PydanticUserError:
            return value  # A class that it can't know completely: one of its fields names what is not defined.
        except Exception as error:  # from a validator of the user's own
            raise ValueError(
                f"{self._name}() got a wrong argument: {place}: {type(error).__name__}: {error}"
            ) from error


def _validator(annotation: Any) -> _Validate:
    from pydantic import TypeAdapter

    if (typing.get_origin(annotation) or annotation) in _LAZY:
        return _anything
    try:
        adapter = TypeAdapter(annotation)
    except Exception:  # noqa: BLE001 (an annotation may be any object at all)
        return _anything
    # A result that was a model comes back with the names of its fields, whatever their aliases.
    by_name: dict[str, Any] = (
        {"by_name": True} if "by_name" in inspect.signature(adapter.validate_python).parameters else {}
    )
    return lambda value: adapter.validate_python(value, **by_name)


def _anything(value: Any) -> Any:
    return value


def _told(place: str, error: Any) -> str:
    path = place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    got = "" if error["type"] == "missing" else f", got {short(error['input'])}"
    return f"{path}: {error['msg']}{got}"

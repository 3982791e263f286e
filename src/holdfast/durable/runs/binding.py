"""How the arguments of a call find their parameters, and what is said when they don't: the words that Python uses."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter, Signature
from typing import Any

_BY_POSITION = frozenset({Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD})
_BY_NAME = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})


def bound(name: str, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by parameter, in the order of the signature and without defaults; TypeError if they don't fit.

    What goes into `*args` is a list under its name, and what goes into `**kwargs` is a dict.
    """
    parameters = signature.parameters.values()
    by_position = [one.name for one in parameters if one.kind in _BY_POSITION]
    given: dict[str, Any] = dict(zip(by_position, args, strict=False))
    _take_named(name, parameters, given, kwargs)
    rest = args[len(by_position) :]
    for one in parameters:
        if one.kind is Parameter.VAR_POSITIONAL and rest:
            given[one.name], rest = list(rest), ()
    if rest:
        raise TypeError(_too_many(name, parameters, len(args), given))
    _check_complete(name, parameters, given)
    return {one.name: given[one.name] for one in parameters if one.name in given}


def spread(name: str, signature: Signature, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The other way: what to call the function with; TypeError if the arguments don't fit (any more)."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left = dict(arguments)
    by_position = True  # as long as none has been left out
    for one in signature.parameters.values():
        if one.name not in left:
            by_position = False
        elif one.kind is Parameter.VAR_POSITIONAL:
            args.extend(left.pop(one.name))
        elif one.kind is Parameter.VAR_KEYWORD:
            kwargs.update(left.pop(one.name))
        elif one.kind in _BY_POSITION and (by_position or one.kind is Parameter.POSITIONAL_ONLY):
            args.append(left.pop(one.name))
        else:
            kwargs[one.name] = left.pop(one.name)
    kwargs.update(left)
    # What was recorded may be older than the function: say in Python's words what no longer fits.
    bound(name, signature, tuple(args), kwargs)
    return tuple(args), kwargs


def _take_named(name: str, parameters: Iterable[Parameter], given: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Adds the keyword arguments to what is given."""
    kinds = {one.name: one.kind for one in parameters}
    rest = next((one.name for one in parameters if one.kind is Parameter.VAR_KEYWORD), None)
    for key, value in kwargs.items():
        if kinds.get(key) in _BY_NAME:
            if key in given:
                raise TypeError(f"{name}() got multiple values for argument {key!r}")
            given[key] = value
        elif rest is not None:
            given.setdefault(rest, {})[key] = value
        elif misplaced := [one for one in kinds if one in kwargs and kinds[one] is Parameter.POSITIONAL_ONLY]:
            names = ", ".join(misplaced)
            raise TypeError(f"{name}() got some positional-only arguments passed as keyword arguments: '{names}'")
        else:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")


def _too_many(name: str, parameters: Iterable[Parameter], count: int, given: dict[str, Any]) -> str:
    by_position = [one for one in parameters if one.kind in _BY_POSITION]
    most = len(by_position)
    least = sum(one.default is Parameter.empty for one in by_position)
    takes = f"{most} positional {_plural('argument', most)}"
    if least != most:
        takes = f"from {least} to {most} positional arguments"
    named = sum(one.name in given for one in parameters if one.kind is Parameter.KEYWORD_ONLY)
    were = f"{count} {'was' if count == 1 else 'were'}"
    if named:
        others = f"{named} keyword-only {_plural('argument', named)}"
        were = f"{count} positional {_plural('argument', count)} (and {others}) were"
    return f"{name}() takes {takes} but {were} given"


def _check_complete(name: str, parameters: Iterable[Parameter], given: dict[str, Any]) -> None:
    needed = [one for one in parameters if one.default is Parameter.empty and one.name not in given]
    for kinds, description in ((_BY_POSITION, "positional"), ({Parameter.KEYWORD_ONLY}, "keyword-only")):
        missing = [repr(one.name) for one in needed if one.kind in kinds]
        if missing:
            what = f"{len(missing)} required {description} {_plural('argument', len(missing))}"
            raise TypeError(f"{name}() missing {what}: {_listed(missing)}")


def _listed(names: list[str]) -> str:
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"

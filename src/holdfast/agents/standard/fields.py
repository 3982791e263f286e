"""Fields: what an agent asks its user for (`InputField`), and what it gives back (`OutputField`)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.durable.calls import call

if TYPE_CHECKING:
    from holdfast.agents.standard.agent import StandardAgent

log = logging.getLogger("holdfast")

Validator = Callable[[str], Any]
"""Gets the answer's text. What it returns is kept; True keeps the text, None too; False or a ValueError refuses it."""


class Invalid(Exception):
    """An answer that a field does not take, with why."""


class InputField:
    """Something that an agent asks its user for. On the agent it is an attribute: the value, or the default.

    A `required` field without a value is asked for with its `prompt`, in the order of the class; an empty answer takes
    the `default`, if there is one. One that is not required is never asked for, but the agent may set it.

    The `validator` gets the text of the answer and returns the value to keep (`int` is one). True and None keep the
    text; False and a ValueError refuse it, and it is asked for again. A plain validator only checks and has no
    effects. An async one may look elsewhere: the message is durable before it begins.
    """

    def __init__(
        self,
        prompt: str,
        description: str = "",
        validator: Validator | None = None,
        *,
        required: bool = True,
        default: Any = None,
    ) -> None:
        self.prompt = prompt
        self.description = description
        self.validator = validator
        self.required = required
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, agent: StandardAgent | None, owner: type | None = None) -> Any:
        return self if agent is None else agent.collected_fields.get(self.name, self.default)

    def __set__(self, agent: StandardAgent, value: Any) -> None:
        agent.collected_fields[self.name] = value

    def __delete__(self, agent: StandardAgent) -> None:
        """Forgets the value: a required field is asked for again."""
        agent.collected_fields.pop(self.name, None)

    def __repr__(self) -> str:
        return f"InputField({self.prompt!r})"

    @property
    def looks_elsewhere(self) -> bool:
        """Whether its validator may do more than compute."""
        function = self.validator
        called = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)

    async def value_of(self, text: str) -> Any:
        """The value that this answer gives; `Invalid` with the reason otherwise."""
        if not text:
            if self.default is not None:
                return self.default
            raise Invalid("")
        if self.validator is None:
            return text
        try:
            value = await call(self.validator, text)
        except ValueError as error:
            raise Invalid(_reason(error)) from error
        except Exception as error:
            log.exception("The validator of field %s failed", self.name)
            raise Invalid("That can't be checked now.") from error
        if value is False:
            raise Invalid("That is not a valid answer.")
        return text if value is True or value is None else value


class OutputField:
    """Something that an agent gives back, as an attribute of it; kept in its checkpoints, and part of its results."""

    def __init__(self, description: str = "", *, default: Any = None) -> None:
        self.description = description
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, agent: StandardAgent | None, owner: type | None = None) -> Any:
        return self if agent is None else agent.outputs.get(self.name, self.default)

    def __set__(self, agent: StandardAgent, value: Any) -> None:
        agent.outputs[self.name] = value

    def __repr__(self) -> str:
        return f"OutputField({self.description!r})"


def _reason(error: ValueError) -> str:
    """What a user is told: the validator's own words, but not those of int() and float()."""
    words = str(error).strip()
    if not words or words.startswith(("invalid literal for", "could not convert")):
        return "That is not a valid answer."
    return words if words[-1] in ".!?" else f"{words}."

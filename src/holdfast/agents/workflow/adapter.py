"""What does a step: classes, factories and async functions by name, brought to one form."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.fields import Invalid
from holdfast.agents.standard.message import Message
from holdfast.agents.standard.result import AgentResult
from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.workflow.context import StepContext
from holdfast.durable.agents import put_back, status_text
from holdfast.durable.calls import call
from holdfast.errors import InvalidArgument, MissingMethod
from holdfast.history.checkpoint import Checkpoint


class StepAgent(Protocol):
    """What a class must have to do steps, unless it is a `StandardAgent`; each attempt gets an object of its own."""

    async def run(self, inputs: dict[str, Any], context: StepContext) -> Any:
        """Does the step and returns its output: any value that can be stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One attempt: the inputs with their references filled in, and, of an agent that waited, where it stood."""

    inputs: dict[str, Any]
    context: StepContext
    suspended: dict[str, Any] | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A step came to its end."""

    output: Any


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step needs a person before it can go on. `agent` is what it needs to do so, in any process."""

    status: AgentStatus
    prompt: str
    agent: dict[str, Any]


class Refusal(Exception):
    """An agent ended in a way that is no end of a step."""


class AgentFailed(Exception):
    """A `StandardAgent` answered with ERROR."""


Doer: TypeAlias = Callable[[Task], Awaitable[Done | Waiting]]

Agents: TypeAlias = Iterable[Any] | Mapping[str, Any]
"""Classes and async functions, known by their own names; or names with any of these or with factories, in a mapping
or in pairs."""

MESSAGE: Final = "message"
"""The input that is the content of the message which a `StandardAgent` gets, and the output that it says."""

_WAITING: Final = (AgentStatus.WAITING_FOR_INPUT, AgentStatus.WAITING_FOR_APPROVAL)


def doers(agents: Agents) -> dict[str, Doer]:
    """What each agent does, by its name."""
    found: dict[str, Doer] = {}
    for name, given in named(agents):
        if name in found:
            raise InvalidArgument(f"There are two agents {name}", hint="Give a mapping with other names.")
        found[name] = _function(name, given) if inspect.iscoroutinefunction(given) else _maker(name, given)
    return found


def named(agents: Agents) -> Iterator[tuple[str, Any]]:
    """What was given, each with its name."""
    if isinstance(agents, Mapping):
        yield from agents.items()
        return
    for given in agents:
        name, made = given if isinstance(given, tuple) else (getattr(given, "__name__", ""), given)
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidArgument(
                f"{given!r} has no name by which a step could ask for it", hint="Give a mapping: agents={'name': it}."
            )
        yield name, made


def _function(name: str, function: Callable[..., Awaitable[Any]]) -> Doer:
    """An async function of the inputs, or of the inputs and the context."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values())
    if count not in (1, 2):
        raise InvalidArgument(f"Agent {name} must be a function of (inputs) or (inputs, context)")

    async def do(task: Task) -> Done:
        return Done(await call(function, *(task.inputs, task.context)[:count]))

    return do


def _maker(name: str, factory: Callable[..., Any]) -> Doer:
    """A class, or a factory, of agents of either form. It gets the ids if it has parameters for them."""
    if not callable(factory):
        raise InvalidArgument(f"Agent {name} is no class, factory or async function, but {factory!r}")
    if inspect.isclass(factory) and not issubclass(factory, StandardAgent) and not hasattr(factory, "run"):
        raise _no_run(name, factory)
    parameters = inspect.signature(factory).parameters
    wants_ids = {"agent_id", "user_id"} <= parameters.keys() or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )

    async def do(task: Task) -> Done | Waiting:
        context = task.context
        ids = {"agent_id": context.idempotency_key, "user_id": context.user_id} if wants_ids else {}
        agent = await call(lambda: factory(**ids))
        if isinstance(agent, StandardAgent):
            return await _conversation(agent, task)
        if not hasattr(agent, "run"):
            raise _no_run(name, type(agent))
        return Done(await call(agent.run, task.inputs, context))

    return do


def _no_run(name: str, cls: type) -> MissingMethod:
    return MissingMethod(
        f"Agent {name} can't do a step: {cls.__name__} has no run(inputs, context)",
        method="run",
        hint="Give it `async def run(self, inputs, context)`, or make it a StandardAgent.",
    )


async def _conversation(agent: StandardAgent, task: Task) -> Done | Waiting:
    """One message to a `StandardAgent`: the step's inputs, or the answer that it has waited for.

    Inputs that have the name of one of its fields fill it, by its validator. The message's content is the input
    `message` or, without one, all the inputs; they are in its context as well.
    """
    context, turns = task.context, 0
    if task.suspended is None:
        await _fill(agent, task.inputs)
        content, message_id, before = task.inputs.get(MESSAGE, task.inputs or ""), context.idempotency_key, 0
    else:
        turns, before = task.suspended["turns"], task.suspended["attempt"]
        await put_back(agent, Checkpoint(id="", agent_id=agent.agent_id, **task.suspended["kept"]))
        content, message_id = task.answer, f"{context.idempotency_key}/answer-{turns}"
    result = await agent.reply(
        Message(
            content, role="user", id=message_id, attempt=context.attempt - before,
            context={"inputs": task.inputs, "step": context},
        )
    )  # fmt: skip
    if result.status in _WAITING:
        kept = {"status": status_text(agent.status), "state": await call(agent.checkpoint_state)}
        suspended = {"turns": turns + 1, "attempt": context.attempt, "kept": kept}
        return Waiting(result.status, result.raw_message, suspended)
    return Done(_output(agent, result))


async def _fill(agent: StandardAgent, inputs: Mapping[str, Any]) -> None:
    for name, field in agent.input_fields.items():
        value = inputs.get(name)
        try:
            if value is not None:
                agent.collected_fields[name] = await field.value_of(value) if isinstance(value, str) else value
        except Invalid as invalid:
            raise Refusal(f"Input {name} is not what {type(agent).__name__} takes: {invalid}") from invalid


def _output(agent: StandardAgent, result: AgentResult) -> dict[str, Any]:
    """What a `StandardAgent` collected, gave back and said."""
    if result.status is AgentStatus.ERROR:
        raise AgentFailed(result.error or result.raw_message)
    if result.status is not AgentStatus.COMPLETED:
        raise Refusal(f"{type(agent).__name__} is {result.status}, which is no end of a step: {result.raw_message}")
    return {**agent.collected_fields, **result.data, MESSAGE: result.raw_message}

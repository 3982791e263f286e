"""The catalog: which agents an orchestrator can start, and which of them a message starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.agents.standard.agent import StandardAgent
from holdfast.durable.calls import call
from holdfast.durable.selfregistered import registered_itself
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.agents.standard.message import Message

Factory: TypeAlias = Callable[..., Any]
"""Called with `agent_id` and `user_id`, for a new agent and for one that is restored; a class is one. May be async."""

Agents: TypeAlias = "Iterable[type[StandardAgent] | tuple[str, Factory]] | Mapping[str, Factory]"
"""Classes, or factories by the name of the class that they make: in pairs, or in a mapping."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One kind of agent: its name, what makes it, and its class as far as it is known."""

    name: str
    factory: Factory
    cls: type[StandardAgent] | None

    def accepts(self, message: Message) -> bool:
        """Whether the message starts such an agent; one whose class is not known accepts any."""
        return self.cls is None or self.cls.accepts(message)

    async def make(self, agent_id: str, user_id: str) -> StandardAgent:
        agent = await call(lambda: self.factory(agent_id=agent_id, user_id=user_id))
        if not isinstance(agent, StandardAgent) or type(agent).__name__ != self.name:
            raise InvalidArgument(
                f"The factory of {self.name} made a {type(agent).__name__}",
                agent_type=self.name,
                hint="Name a factory after the StandardAgent class that it makes: checkpoints are found by that name.",
            )
        if (agent.agent_id, agent.user_id) != (agent_id, user_id):
            raise InvalidArgument(
                f"The factory of {self.name} made an agent with ids of its own",
                agent_type=self.name,
                agent_id=agent_id,
                hint="Pass the agent_id and user_id that it gets on to the class.",
            )
        return agent


class Catalog:
    """Entries in the order in which they were listed."""

    def __init__(self, agents: Agents) -> None:
        self._entries: dict[str, Entry] = {}
        for name, factory in _pairs(agents):
            if name in self._entries:
                raise InvalidArgument(f"{name} is listed twice", agent_type=name)
            self._entries[name] = _entry(name, factory)
        if not self._entries:
            raise InvalidArgument("An orchestrator needs at least one class of agents")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise InvalidArgument(
                f"There is no agent {name} here", agent_type=name, hint=f"There are {', '.join(self._entries)}."
            )
        return self._entries[name]

    def first_for(self, message: Message) -> Entry | None:
        """The first listed that accepts the message."""
        return next((entry for entry in self if entry.accepts(message)), None)


def _pairs(agents: Agents) -> Iterator[tuple[str, Factory]]:
    if isinstance(agents, Mapping):
        yield from agents.items()
        return
    for listed in agents:
        if isinstance(listed, tuple):
            yield listed
        elif inspect.isclass(listed):
            yield listed.__name__, listed
        else:
            raise InvalidArgument(
                f"{listed!r} is not a class", hint='Give a factory its name: agents=[("TheAgentClass", factory)].'
            )


def _entry(name: str, factory: Factory) -> Entry:
    if not inspect.isclass(factory):
        if not callable(factory):
            raise InvalidArgument(f"{factory!r} is neither a class nor a factory", agent_type=name)
        cls = registered_itself(name)
        return Entry(name=name, factory=factory, cls=cls if cls and issubclass(cls, StandardAgent) else None)
    if not issubclass(factory, StandardAgent):
        raise InvalidArgument(f"{factory.__name__} is no StandardAgent", agent_type=name)
    if factory.__name__ != name:
        raise InvalidArgument(f"{factory.__name__} is listed as {name}: a class goes by its own name", agent_type=name)
    return Entry(name=name, factory=factory, cls=factory)

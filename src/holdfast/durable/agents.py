"""Agents as the manager sees them: what is read from one to save it, and how one is rebuilt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidArgument, MissingMethod, UnknownAgentType

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

_NEEDED: Final = ("agent_id", "user_id", "status", "checkpoint_state", "restore_state")

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Portrait:
    """What was read from a live agent at one moment."""

    agent_id: str
    user_id: str
    agent_type: str
    status: str
    state: dict[str, Any]
    state_version: int
    collected_fields: dict[str, Any]
    required_fields: list[Any]
    context_summary: str


async def portrait(agent: Any) -> Portrait:
    """Reads an agent. Raises MissingMethod or InvalidArgument that names what it lacks."""
    for name in _NEEDED:
        if not hasattr(agent, name):
            raise MissingMethod(f"{type(agent).__name__} has no {name}, which a checkpoint needs", owner=name)
    agent_id, user_id = agent.agent_id, agent.user_id
    for name, value in (("agent_id", agent_id), ("user_id", user_id)):
        if not isinstance(value, str) or not value:
            raise InvalidArgument(f"{type(agent).__name__}.{name} must be a non-empty str, not {value!r}")
    state = agent.checkpoint_state()
    if inspect.isawaitable(state):
        state = await state
    if type(state) is not dict:
        raise InvalidArgument(
            f"checkpoint_state() of agent {agent_id} returned {type(state).__name__}, not a dict", agent_id=agent_id
        )
    return Portrait(
        agent_id=agent_id,
        user_id=user_id,
        agent_type=type(agent).__name__,
        status=status_text(agent.status),
        state=state,
        state_version=int(getattr(agent, "state_version", 1)),
        collected_fields=dict(getattr(agent, "collected_fields", None) or {}),
        required_fields=list(getattr(agent, "required_fields", None) or []),
        context_summary=str(getattr(agent, "context_summary", None) or ""),
    )


def status_text(status: Any) -> str:
    """A status as it is kept: text; an Enum member by its value if that is text, else by its name."""
    if isinstance(status, Enum):
        return status.value if isinstance(status.value, str) else status.name
    return str(status)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recipe:
    build: Callable[[Checkpoint], Any]
    version: int | None  # None: a factory, which knows itself
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)


class AgentTypes:
    """The classes and factories that can rebuild agents, by the name of the agent's class."""

    def __init__(self) -> None:
        self._recipes: dict[str, _Recipe] = {}

    def register(
        self,
        cls_or_factory: Callable[..., Any],
        name: str | None = None,
        upgrades: Mapping[int, Upgrade] | None = None,
    ) -> None:
        """A class is rebuilt as `cls(agent_id=…, user_id=…)`; a factory gets the Checkpoint. The last one counts."""
        if inspect.isclass(cls_or_factory):
            cls: Any = cls_or_factory

            def build(checkpoint: Checkpoint) -> Any:
                return cls(agent_id=checkpoint.agent_id, user_id=checkpoint.user_id)

            name = name or cls.__name__
            version = int(getattr(cls, "state_version", 1))
            self._recipes[name] = _Recipe(build=build, version=version, upgrades=dict(upgrades or {}))
            return
        if not callable(cls_or_factory):
            raise InvalidArgument(f"{cls_or_factory!r} is neither a class nor a factory")
        if not name:
            raise InvalidArgument(
                "A factory must be registered by name", hint="manager.register(factory, name='TheAgentClass')"
            )
        self._recipes[name] = _Recipe(build=cls_or_factory, version=None, upgrades=dict(upgrades or {}))

    async def rebuild(self, checkpoint: Checkpoint) -> Any:
        """A live agent as the checkpoint has it: built, its status set, then its state restored."""
        recipe = self._recipes.get(checkpoint.agent_type)
        if recipe is None:
            raise UnknownAgentType(
                f"Nothing registered can rebuild a {checkpoint.agent_type} (agent {checkpoint.agent_id})",
                agent_type=checkpoint.agent_type,
                agent_id=checkpoint.agent_id,
                checkpoint_id=checkpoint.id,
            )
        checkpoint = checkpoint.evolve(state=_upgraded(checkpoint, recipe))
        agent = recipe.build(checkpoint)
        if inspect.isawaitable(agent):
            agent = await agent
        await put_back(agent, checkpoint)
        return agent


async def put_back(agent: Any, checkpoint: Checkpoint) -> None:
    """Sets the agent's status, then restores its state."""
    _set_status(agent, checkpoint.status)
    restored = agent.restore_state(checkpoint.state)
    if inspect.isawaitable(restored):
        await restored


def _set_status(agent: Any, status: str) -> None:
    """Sets the status as the type it has in a fresh agent; a computed one stays the agent's own."""
    fresh = getattr(agent, "status", None)
    value: Any = status
    if isinstance(fresh, Enum):
        members = {status_text(member): member for member in type(fresh)}
        value = members.get(status, status)
    try:
        agent.status = value
    except AttributeError:
        if not isinstance(inspect.getattr_static(type(agent), "status", None), property):
            raise


def _upgraded(checkpoint: Checkpoint, recipe: _Recipe) -> dict[str, Any]:
    state, version = checkpoint.state or {}, checkpoint.state_version
    wanted = recipe.version if recipe.version is not None else max([version, *(v + 1 for v in recipe.upgrades)])
    if version > wanted:
        raise InvalidArgument(
            f"Checkpoint {checkpoint.id} has a state of version {version}, but {checkpoint.agent_type} is at {wanted}",
            checkpoint_id=checkpoint.id,
            hint="It was saved by newer code: restore it with that.",
        )
    while version < wanted:
        upgrade = recipe.upgrades.get(version)
        if upgrade is None:
            raise InvalidArgument(
                f"Checkpoint {checkpoint.id} has a state of version {version}, and {checkpoint.agent_type} is at "
                f"{wanted}, but there is no upgrade from {version}",
                checkpoint_id=checkpoint.id,
                hint=f"manager.register({checkpoint.agent_type}, upgrades={{{version}: to_{version + 1}}})",
            )
        state = upgrade(state)
        version += 1
    return state

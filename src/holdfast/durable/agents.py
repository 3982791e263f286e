"""Agents as the manager sees them: what is read from one to save it, and how one is rebuilt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.durable.calls import call
from holdfast.durable.selfregistered import registered_itself
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
    state_version: int | None  # None: the agent does not say
    collected_fields: dict[str, Any]
    required_fields: list[Any]
    context_summary: str


async def portrait(agent: Any) -> Portrait:
    """Reads an agent. Raises MissingMethod or InvalidArgument that names what it lacks."""
    return cast("Portrait", await call(_drawn, agent, await call(_state_of, agent)))


def _state_of(agent: Any) -> Any:
    """What checkpoint_state() returns, or an awaitable of it."""
    for name in _NEEDED:
        if not hasattr(agent, name):
            raise MissingMethod(f"{type(agent).__name__} has no {name}, which a checkpoint needs", method=name)
    for name in ("agent_id", "user_id"):
        value = getattr(agent, name)
        if not isinstance(value, str) or not value:
            raise InvalidArgument(f"{type(agent).__name__}.{name} must be a non-empty str, not {value!r}")
    return agent.checkpoint_state()


def _drawn(agent: Any, state: Any) -> Portrait:
    if type(state) is not dict:
        raise InvalidArgument(
            f"checkpoint_state() of agent {agent.agent_id} returned {type(state).__name__}, not a dict",
            agent_id=agent.agent_id,
        )
    version = getattr(agent, "state_version", None)
    return Portrait(
        agent_id=agent.agent_id,
        user_id=agent.user_id,
        agent_type=type(agent).__name__,
        status=status_text(agent.status),
        state=state,
        state_version=None if version is None else int(version),
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
    declared: int | None = None  # the version that a class states
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """What is not stated follows from the upgrades: they lead to the version that the code has now."""
        return self.declared or max((before + 1 for before in self.upgrades), default=1)


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
        upgrades = dict(upgrades or {})
        if inspect.isclass(cls_or_factory):
            name = name or cls_or_factory.__name__
            self._recipes[name] = _recipe_of(cls_or_factory, name, upgrades)
            return
        if not callable(cls_or_factory):
            raise InvalidArgument(f"{cls_or_factory!r} is neither a class nor a factory")
        if not name:
            raise InvalidArgument(
                "A factory must be registered by name", hint="manager.register(factory, name='TheAgentClass')"
            )
        self._recipes[name] = _Recipe(build=cls_or_factory, upgrades=upgrades)

    def version_of(self, agent_type: str) -> int:
        """The version of a state whose agent does not say any."""
        recipe = self._recipe(agent_type)
        return 1 if recipe is None else recipe.version

    def check(self, checkpoint: Checkpoint) -> None:
        """Refuses a checkpoint that nothing registered can rebuild."""
        self._known(checkpoint)

    def knows(self, agent_type: str) -> bool:
        """Whether agents of this type can be rebuilt."""
        return self._recipe(agent_type) is not None

    async def rebuild(self, checkpoint: Checkpoint) -> Any:
        """A live agent as the checkpoint has it: built, its status set, then its state restored."""
        recipe = self._known(checkpoint)
        checkpoint = checkpoint.evolve(state=await call(_upgraded, checkpoint, recipe))
        agent = await call(recipe.build, checkpoint)
        await put_back(agent, checkpoint)
        return agent

    def _known(self, checkpoint: Checkpoint) -> _Recipe:
        name = checkpoint.agent_type
        recipe = self._recipe(name)
        if recipe is None:
            raise UnknownAgentType(
                f"Nothing registered can rebuild a {name} (agent {checkpoint.agent_id})",
                agent_type=name,
                agent_id=checkpoint.agent_id,
                checkpoint_id=checkpoint.id,
                hint=f"Call manager.register({name}) before restore; if the class has another name now, "
                f"manager.register(NewName, name={name!r}); or register a factory by this name.",
            )
        return recipe

    def _recipe(self, name: str) -> _Recipe | None:
        """What was registered here, else the class of this name that registered itself."""
        recipe = self._recipes.get(name)
        if recipe is None and (cls := registered_itself(name)) is not None:
            return _recipe_of(cls, name, {})
        return recipe

    async def put_back(self, agent: Any, checkpoint: Checkpoint) -> Checkpoint:
        """Brings a live agent to a checkpoint, brought up first if its type has upgrades; the checkpoint it is at."""
        recipe = self._recipe(checkpoint.agent_type)
        if recipe is not None:
            checkpoint = checkpoint.evolve(state=await call(_upgraded, checkpoint, recipe))
        await put_back(agent, checkpoint)
        return checkpoint


def _recipe_of(cls: Callable[..., Any], name: str, upgrades: Mapping[int, Upgrade]) -> _Recipe:
    def build(checkpoint: Checkpoint) -> Any:
        return cls(agent_id=checkpoint.agent_id, user_id=checkpoint.user_id)

    declared = getattr(cls, "state_version", None)
    if not isinstance(declared, int):  # a property or a slot: only an instance knows
        declared = None
    beyond = [before for before in upgrades if declared is not None and before >= declared]
    if beyond:
        raise InvalidArgument(
            f"{name} has state_version {declared}, but there is an upgrade from {max(beyond)}",
            agent_type=name,
            hint=f"Set {name}.state_version = {max(beyond) + 1}, the version that its states have now.",
        )
    return _Recipe(build=build, declared=declared, upgrades=upgrades)


async def put_back(agent: Any, checkpoint: Checkpoint) -> None:
    """Sets the agent's status, then restores its state."""
    await call(_set_status, agent, checkpoint.status)
    await call(agent.restore_state, checkpoint.state)


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
    if recipe.declared is not None and version > recipe.declared:
        raise InvalidArgument(
            f"Checkpoint {checkpoint.id} has a state of version {version}, but {checkpoint.agent_type} is at "
            f"{recipe.version}",
            checkpoint_id=checkpoint.id,
            hint="It was saved by newer code: restore it with that.",
        )
    while version < recipe.version:
        upgrade = recipe.upgrades.get(version)
        if upgrade is None:
            raise InvalidArgument(
                f"Checkpoint {checkpoint.id} has a state of version {version}, and {checkpoint.agent_type} is at "
                f"{recipe.version}, but there is no upgrade from {version}",
                checkpoint_id=checkpoint.id,
                hint=f"manager.register({checkpoint.agent_type}, upgrades={{{version}: to_{version + 1}}})",
            )
        state = upgrade(state)
        version += 1
    return state

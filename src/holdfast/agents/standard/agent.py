"""`StandardAgent`: asks for what it needs, has it approved, does its work, and can be interrupted anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.agents.standard import transitions
from holdfast.agents.standard.fields import InputField, Invalid, OutputField
from holdfast.agents.standard.handling import Handling
from holdfast.agents.standard.keeping import Keeper, NoKeeper
from holdfast.agents.standard.message import Message
from holdfast.agents.standard.ownstate import OURS, after_ours, with_ours
from holdfast.agents.standard.result import AgentResult
from holdfast.agents.standard.status import AgentStatus
from holdfast.agents.standard.triggers import Trigger, matches
from holdfast.agents.standard.yesno import yes_or_no
from holdfast.durable.selfregistered import register_itself
from holdfast.errors import IllegalTransition, InvalidArgument
from holdfast.storage.ids import new_id

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager

_NO_KEEPER = NoKeeper()


class Inner:
    """What an agent knows for itself, in one attribute that no subclass will want for its own."""

    __slots__ = ("before", "keeper", "summary", "task", "turn")

    def __init__(self) -> None:
        self.before: AgentStatus | None = None  # what a paused or failed agent goes back to
        self.summary: str | None = None
        self.keeper: Keeper = _NO_KEEPER
        self.turn = asyncio.Lock()
        self.task: asyncio.Task[Any] | None = None  # the one that handles a message now


class StandardAgent:
    """An agent that talks with one user until its work is done.

    Its class declares what it needs (`InputField`) and gives back (`OutputField`). A message goes to the handler of
    its status: `on_initializing`, `on_waiting_for_input`, `on_waiting_for_approval`, `on_running`, `on_paused`. A
    handler returns `make_result(…)`, or None to go on with what comes next: the next missing field, the approval,
    `on_running`. One that raises makes the status ERROR and is told to `on_error`; the next message tries again.

    A subclass has state of its own by overriding `checkpoint_state` and `restore_state`, and is known to every
    `CheckpointManager` by its name.
    """

    triggers: ClassVar[Sequence[Trigger]] = ()
    """Which messages start such an agent: words, or compiled patterns. Without any: every message."""

    input_fields: ClassVar[Mapping[str, InputField]] = {}
    output_fields: ClassVar[Mapping[str, OutputField]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        cls.input_fields = {name: value for name, value in fields.items() if isinstance(value, InputField)}
        cls.output_fields = {name: value for name, value in fields.items() if isinstance(value, OutputField)}
        if taken := sorted(_TAKEN & {*cls.input_fields, *cls.output_fields}):
            raise InvalidArgument(
                f"{cls.__name__} has a field {taken[0]}, which is what every agent has already",
                hint="Give the field another name.",
            )
        if isinstance(cls.triggers, str):
            raise InvalidArgument(
                f"{cls.__name__}.triggers is a text, not a tuple of texts", hint=f"triggers = ({cls.triggers!r},)"
            )
        for name, wrap in (("checkpoint_state", with_ours), ("restore_state", after_ours)):
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))
        register_itself(cls)

    def __init__(
        self,
        agent_id: str | None = None,
        user_id: str = "default",
        *,
        checkpoint_manager: CheckpointManager | None = None,
    ) -> None:
        self.agent_id = agent_id or new_id("agt")
        self.user_id = user_id
        self.status = AgentStatus.INITIALIZING
        self.checkpoint_manager = checkpoint_manager
        self.collected_fields: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.approved = False
        self.error: str | None = None
        self.handling: Message | None = None
        """The message that is being handled; in a checkpoint, one that was not handled to its end."""
        self._inner = Inner()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.agent_id} of {self.user_id}: {self.status}>"

    # --- what a subclass writes

    async def on_initializing(self, msg: Message) -> AgentResult | None:
        """The message that started the agent; it answers no field."""
        return None

    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        """An answer: to the field that was asked for."""
        missing = self.missing_fields
        if missing:
            field = self.input_fields[missing[0]]
            try:
                self.collected_fields[field.name] = await field.value_of(msg.text)
            except Invalid as refused:
                return self._question(str(refused))
        return None

    async def on_waiting_for_approval(self, msg: Message) -> AgentResult | None:
        """Yes, no, or neither, which is asked again. After a no the agent is CANCELLED."""
        answer = yes_or_no(msg.text)
        if answer is None:
            return None
        if answer:
            self.approved = True
            return None
        return self.make_result(status=AgentStatus.CANCELLED, raw_message="Not approved: nothing was done.")

    async def on_running(self, msg: Message) -> AgentResult | None:
        """The work. After None it is COMPLETED."""
        return None

    async def on_paused(self, msg: Message) -> AgentResult | None:
        """A message to an agent that is paused."""
        return self.make_result(raw_message="This is paused. It goes on when it is resumed.")

    async def on_error(self, msg: Message) -> AgentResult | None:
        """What to answer when a handler has raised; `self.error` says what."""
        return self.make_result(raw_message=f"That went wrong: {self.error}. The next message tries again.")

    def requires_approval(self) -> bool:
        """Whether somebody must say yes before `on_running`; may be async, or just an attribute."""
        return False

    def get_approval_prompt(self) -> str:
        """What is asked for the approval; may be async."""
        said = ", ".join(f"{name}: {value}" for name, value in self.collected_fields.items())
        return f"{said}. Shall I go on? (yes/no)" if said else "Shall I go on? (yes/no)"

    @classmethod
    def accepts(cls, message: Message) -> bool:
        """Whether this message may start such an agent: one without triggers accepts any."""
        return not cls.triggers or any(matches(trigger, message.text) for trigger in cls.triggers)

    # --- what its callers use

    async def reply(self, message: Message) -> AgentResult:
        """Handles a message, one at a time, and returns the answer. What a handler raises becomes the status ERROR."""
        self._not_from_inside("be sent a message")
        async with self._inner.turn:
            self._inner.task = asyncio.current_task()
            try:
                return await Handling(self, message, self._inner.keeper).result()
            finally:
                self._inner.task = None

    async def pause(self) -> AgentResult:
        """Stops until `resume()`: messages go to `on_paused`."""
        return await self._moved(AgentStatus.PAUSED, "Paused.")

    async def resume(self) -> AgentResult:
        """Goes back to where it was paused."""
        self._not_from_inside("be resumed")
        async with self._inner.turn:
            if self.status is not AgentStatus.PAUSED:
                raise IllegalTransition(
                    f"Agent {self.agent_id} is {self.status}, not {AgentStatus.PAUSED}: it can't be resumed",
                    agent_id=self.agent_id, before=self.status, after=AgentStatus.RUNNING,
                )  # fmt: skip
            status, self._inner.before = self._inner.before or AgentStatus.RUNNING, None
            self.status = status
            return await self._told(self._question() if status is AgentStatus.WAITING_FOR_INPUT else self.make_result())

    async def cancel(self) -> AgentResult:
        """Ends the agent without doing its work."""
        return await self._moved(AgentStatus.CANCELLED, "Cancelled.")

    def make_result(
        self,
        status: AgentStatus | None = None,
        raw_message: str = "",
        *,
        data: dict[str, Any] | None = None,
        error: str | None = None,
    ) -> AgentResult:
        """The answer that a handler returns; without a status, the agent stays what it is."""
        status = AgentStatus(status) if status is not None else self.status
        return AgentResult(
            status=status, raw_message=raw_message, data=dict(data or {}), error=error, agent_id=self.agent_id,
            agent_type=type(self).__name__,
        )  # fmt: skip

    def kept_by(self, keeper: Keeper) -> None:
        """Makes a keeper see to it that each step from now on is durable; an orchestrator does this."""
        self._inner.keeper = keeper

    # --- what it has

    @property
    def finished(self) -> bool:
        """Whether it is COMPLETED or CANCELLED: no message changes it any more."""
        return self.status.finished

    @property
    def required_fields(self) -> list[str]:
        """The names of the fields that it can't do without, in their order."""
        return [name for name, field in self.input_fields.items() if field.required]

    @property
    def missing_fields(self) -> list[str]:
        """The names of the required fields that have no value yet; the first is asked for next."""
        return [name for name in self.required_fields if name not in self.collected_fields]

    @property
    def context_summary(self) -> str:
        """One line that tells where it stands; it can be set to a better one."""
        if self._inner.summary is not None:
            return self._inner.summary
        said = ", ".join(f"{name}: {value}" for name, value in self.collected_fields.items())
        missing = ", ".join(self.missing_fields)
        return "; ".join(part for part in (said, f"missing: {missing}" if missing else "") if part)

    @context_summary.setter
    def context_summary(self, text: str) -> None:
        self._inner.summary = text

    # --- checkpoints

    def checkpoint_state(self) -> dict[str, Any]:
        """What is kept. A subclass that overrides this returns its own state; the fields are kept in any case."""
        return {OURS: self._ours()}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Takes a kept state back. A subclass that overrides this finds its fields restored already."""
        if OURS in state:  # a subclass that calls super() has had it restored already
            self._restore_ours(state[OURS])

    def _ours(self) -> dict[str, Any]:
        kept = {
            "fields": dict(self.collected_fields),
            "outputs": dict(self.outputs),
            "approved": self.approved,
            "error": self.error,
            "before": None if self._inner.before is None else str(self._inner.before),
            "summary": self._inner.summary,
            "handling": None if self.handling is None else self.handling.to_state(),
        }
        return {name: value for name, value in kept.items() if value not in (None, {}, False)}

    def _restore_ours(self, kept: dict[str, Any]) -> None:
        self.collected_fields = dict(kept.get("fields", {}))
        self.outputs = dict(kept.get("outputs", {}))
        self.approved = kept.get("approved", False)
        self.error = kept.get("error")
        self._inner.before = AgentStatus(kept["before"]) if "before" in kept else None
        self._inner.summary = kept.get("summary")
        self.handling = Message(**kept["handling"]) if "handling" in kept else None

    # --- parts

    def _question(self, before: str = "") -> AgentResult:
        """The question for the next missing field."""
        missing = self.missing_fields
        prompt = self.input_fields[missing[0]].prompt if missing else ""
        said = " ".join(part for part in (before, prompt) if part)
        return self.make_result(status=AgentStatus.WAITING_FOR_INPUT, raw_message=said)

    async def _moved(self, status: AgentStatus, said: str) -> AgentResult:
        self._not_from_inside(f"become {status}")
        async with self._inner.turn:
            transitions.check(self.status, status, agent_id=self.agent_id)
            if status is AgentStatus.PAUSED and self.status is not AgentStatus.PAUSED:
                self._inner.before = self.status
            if status.finished:
                self.handling = None  # a message that was cut off is not taken up again
            self.status = status
            return await self._told(self.make_result(raw_message=said))

    async def _told(self, result: AgentResult) -> AgentResult:
        await self._inner.keeper.done(self, None, result)
        return result

    def _not_from_inside(self, what: str) -> None:
        """A handler that waited for its own agent's turn would wait for ever."""
        if self._inner.task is not None and self._inner.task is asyncio.current_task():
            raise InvalidArgument(
                f"Agent {self.agent_id} can't {what} by its own handler, which it waits for",
                agent_id=self.agent_id,
                hint="Return self.make_result(status=…) instead.",
            )


_TAKEN: Final = {*vars(StandardAgent), *vars(StandardAgent())} - {"__doc__"}
"""What no field may be called."""

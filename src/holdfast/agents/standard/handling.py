"""`Handling`: one message on its way through an agent, each step kept before code that may have effects runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.standard import transitions
from holdfast.agents.standard.result import AgentResult
from holdfast.agents.standard.status import AgentStatus
from holdfast.durable.calls import call
from holdfast.errors import IllegalTransition

if TYPE_CHECKING:
    from holdfast.agents.standard.agent import StandardAgent
    from holdfast.agents.standard.keeping import Keeper
    from holdfast.agents.standard.message import Message

log = logging.getLogger("holdfast")

_HANDLERS: Final = {
    AgentStatus.INITIALIZING: "on_initializing",
    AgentStatus.WAITING_FOR_INPUT: "on_waiting_for_input",
    AgentStatus.WAITING_FOR_APPROVAL: "on_waiting_for_approval",
    AgentStatus.RUNNING: "on_running",
    AgentStatus.PAUSED: "on_paused",
    AgentStatus.ERROR: "on_error",
}


def handler_of(agent: StandardAgent) -> str:
    """The name of the handler that gets the next message."""
    status = agent.status
    if status is AgentStatus.ERROR:
        status = agent._inner.before or AgentStatus.RUNNING  # noqa: SLF001 - its own machinery
    return _HANDLERS.get(status, "reply")


class Handling:
    """Takes one message from the handler of the agent's status to the answer.

    What this class does by itself only computes: it is kept together with the answer, in one commit. Before a
    handler of a subclass begins, the message and the status are durable. Each status has a checkpoint of its own.
    """

    def __init__(self, agent: StandardAgent, message: Message, keeper: Keeper) -> None:
        self.agent = agent
        self.message = message
        self.keeper = keeper
        self._kept = False  # the message, in the status that the agent has now
        self._moved = False  # to a status that no checkpoint has

    async def result(self) -> AgentResult:
        agent = self.agent
        if agent.finished:
            return self._answered(agent.make_result(raw_message=f"This is {agent.status.lower()}: nothing more to do."))
        agent.handling = self.message
        if agent.status is AgentStatus.ERROR:
            await self._go(agent._inner.before or AgentStatus.RUNNING)  # noqa: SLF001 - its own machinery
        try:
            answer = await self._answer()
            transitions.check(agent.status, answer.status, agent_id=agent.agent_id)
        except _Failed as failed:
            answer = await self._failure(failed.error)
        except IllegalTransition as error:
            answer = await self._failure(error)
        await self._go(answer.status)
        agent.handling = None
        answer = self._answered(answer)
        await self.keeper.done(agent, self.message, answer)
        return answer

    async def _answer(self) -> AgentResult:
        """The answer of the handler of this status, or of what comes after it."""
        agent = self.agent
        answer = await self._call(agent.status)
        if answer is not None:
            return answer
        if agent.status is AgentStatus.RUNNING:
            return agent.make_result(status=AgentStatus.COMPLETED)
        if agent.status is AgentStatus.PAUSED:
            return agent.make_result()
        return await self._next()

    async def _next(self) -> AgentResult:
        agent = self.agent
        if agent.missing_fields:
            return agent._question()  # noqa: SLF001 - its own machinery
        try:
            asks: Any = agent.requires_approval
            must_ask = not agent.approved and (await call(asks) if callable(asks) else asks)
            prompt = await call(agent.get_approval_prompt) if must_ask else ""
        except Exception as error:
            raise _Failed(error) from error
        if must_ask:
            return agent.make_result(status=AgentStatus.WAITING_FOR_APPROVAL, raw_message=prompt)
        await self._go(AgentStatus.RUNNING)
        return await self._call(AgentStatus.RUNNING) or agent.make_result(status=AgentStatus.COMPLETED)

    async def _call(self, status: AgentStatus) -> AgentResult | None:
        """Calls the handler of a status. What it raises is the agent's failure; what keeping raises is not."""
        if self._may_have_effects(status):
            await self._keep()
        try:
            answer = await call(getattr(self.agent, _HANDLERS[status]), self.message)
        except Exception as error:
            raise _Failed(error) from error
        if answer is None or isinstance(answer, AgentResult):
            return answer
        raise _Failed(TypeError(f"{_HANDLERS[status]} returned {answer!r}, not self.make_result(…) or None"))

    async def _failure(self, error: Exception) -> AgentResult:
        """A handler has raised: the agent is kept as it is, its status is ERROR, and the next message tries again."""
        agent = self.agent
        log.warning("Agent %s failed while it was %s", agent.agent_id, agent.status, exc_info=error)
        if agent.status is AgentStatus.PAUSED:  # it stays so: what it goes back to must not be forgotten
            return agent.make_result(raw_message=f"That went wrong: {_told(error)}.", error=_told(error))
        agent._inner.before, agent.error = agent.status, _told(error)  # noqa: SLF001 - its own machinery
        await self._go(AgentStatus.ERROR)
        try:
            answer = await self._call(AgentStatus.ERROR)
            if answer is not None:
                transitions.check(agent.status, answer.status, agent_id=agent.agent_id)
        except (_Failed, IllegalTransition) as again:
            log.warning("on_error of agent %s failed, too", agent.agent_id, exc_info=again)
            answer = None
        if answer is None:
            answer = agent.make_result(raw_message=f"That went wrong: {agent.error}.")
        return answer.evolve(error=answer.error or agent.error)

    async def _go(self, status: AgentStatus) -> None:
        """Moves the agent on; a status that it leaves has its checkpoint first."""
        agent = self.agent
        if status is agent.status:
            return
        if self._moved:
            await self._keep()
        if agent.status is AgentStatus.ERROR:
            agent.error = None
        if status not in (AgentStatus.ERROR, AgentStatus.PAUSED):
            agent._inner.before = None  # noqa: SLF001 - its own machinery
        elif agent._inner.before is None:  # noqa: SLF001
            agent._inner.before = agent.status  # noqa: SLF001
        agent.status = status
        self._moved, self._kept = True, False

    async def _keep(self) -> None:
        if not self._kept:
            await self.keeper.keep(self.agent, self.message)
            self._kept, self._moved = True, False

    def _may_have_effects(self, status: AgentStatus) -> bool:
        """Whether code that is not ours is about to run, other than the plain validator of a field."""
        from holdfast.agents.standard.agent import StandardAgent

        agent, name = self.agent, _HANDLERS[status]
        if getattr(type(agent), name) is not getattr(StandardAgent, name) or name in vars(agent):
            return True
        missing = agent.missing_fields if status is AgentStatus.WAITING_FOR_INPUT else []
        return bool(missing) and agent.input_fields[missing[0]].looks_elsewhere

    def _answered(self, answer: AgentResult) -> AgentResult:
        """The answer with what it is known by, and with what the agent gives back."""
        data = {**self.agent.outputs, **answer.data}
        return answer.evolve(message_id=self.message.id, data=data)


class _Failed(Exception):
    """A handler raised this."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _told(error: Exception) -> str:
    said = str(error).strip()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

"""`Orchestrator`: takes the messages of many users, each to the agent that it is for, and loses none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.agents.orchestrator.autosave import AutoSave
from holdfast.agents.orchestrator.catalog import Agents, Catalog, Entry
from holdfast.agents.orchestrator.loader import Loader
from holdfast.agents.orchestrator.roster import Roster, Seat
from holdfast.agents.orchestrator.seating import Outdated, Seating
from holdfast.agents.orchestrator.watching import Watches
from holdfast.agents.standard.agent import StandardAgent
from holdfast.agents.standard.message import Message
from holdfast.agents.standard.result import AgentResult
from holdfast.agents.standard.status import AgentStatus
from holdfast.durable.manager import CheckpointManager
from holdfast.durable.turn import turns_of
from holdfast.errors import (
    Closed,
    HoldfastError,
    InvalidArgument,
    MissingMethod,
    OwnedElsewhere,
    StaleWriter,
    WrongOwner,
)
from holdfast.storage.ids import new_id

if TYPE_CHECKING:
    from holdfast.drift.protocol import Detector

log = logging.getLogger("holdfast")

T = TypeVar("T")
_RELOADS_MAX = 5


class Orchestrator:
    """Takes each user's messages to that user's active agent, or to a new one that accepts them.

    With `auto_checkpoint` every change of an agent has a checkpoint, and a message is durable before code of the agent
    sees it: one that was cut off is handled again after a restart, with the same `id` and the next `attempt`; one
    that was handled never is. Messages of one agent are handled one at a time, those of others meanwhile.

    `detector` makes one detector of drift for each agent, which is told of each message with its answer. `on_drift`
    says what is done when it finds drift: "notify" (the default: the manager's event `drift_detected` alone),
    "checkpoint", "refresh" (the agent is built anew; the next time without a new field it is stopped), or "stop" (it is
    cancelled, and the answer says so); with None, nobody looks for drift.

    `prepare_context`, `should_process`, `route_message` and `post_process` can be overridden.
    """

    def __init__(
        self,
        agents: Agents,
        checkpoint_manager: CheckpointManager | None = None,
        *,
        auto_checkpoint: bool = True,
        detector: Callable[[], Detector] | None = None,
        on_drift: str | None = "notify",
    ) -> None:
        watches = Watches(detector, on_drift)
        self.catalog = Catalog(agents)
        self.checkpoint_manager = checkpoint_manager if checkpoint_manager is not None else CheckpointManager()
        self.auto_checkpoint = auto_checkpoint
        for entry in self.catalog:
            self._register(entry)
        self._loader = Loader(self.checkpoint_manager, self.catalog, watches)
        self._turns = turns_of(self.checkpoint_manager)
        self._seating = Seating(
            self._loader, AutoSave(self._turns, watches), watches,
            manager=self.checkpoint_manager, auto_checkpoint=auto_checkpoint,
        )  # fmt: skip
        self._rosters: dict[str, Roster] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._redone: set[asyncio.Task[AgentResult | None]] = set()  # messages that were cut off, now
        self._waited_for: list[list[asyncio.Task[AgentResult | None]]] = []  # of those, by each call of recover()
        self._first_use: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"Orchestrator([{', '.join(entry.name for entry in self.catalog)}], {self.checkpoint_manager!r})"

    # --- what can be overridden

    async def prepare_context(self, user_id: str, message: Message) -> Mapping[str, Any]:
        """What the agent finds in `message.context`, and what the other three are told."""
        return {"user_id": user_id}

    async def should_process(self, message: Message, context: Mapping[str, Any]) -> bool:
        """Whether to handle the message at all."""
        return True

    async def route_message(
        self, user_id: str, message: Message, context: Mapping[str, Any]
    ) -> StandardAgent | type[StandardAgent] | str | None:
        """Who gets the message: an active agent of this user, or the class (or name) of a new one; None: nobody.

        By default the active agent that was used last, one that is paused only if there is no other; else a new one
        of the first listed class that accepts the message.
        """
        active = await self.active_agents(user_id)
        for agent in sorted(active, key=lambda agent: agent.status is AgentStatus.PAUSED):
            return agent
        entry = self.catalog.first_for(message)
        return None if entry is None else entry.name

    async def post_process(self, result: AgentResult, context: Mapping[str, Any]) -> AgentResult:
        """The answer as its sender gets it; that of a message that was handled again as `recover()` returns it."""
        return result

    # --- what its callers use

    async def handle_message(self, user_id: str, message: str | Message) -> AgentResult:
        """Handles a user's message and returns the answer.

        A message that was begun is handled to its end, even if its sender does not wait for it any more.
        """
        self._check_open()
        self._check_user(user_id)
        if not isinstance(message, Message):
            message = Message(message)
        await self._recovery_begun()
        context = await self.prepare_context(user_id, message)
        if not await self.should_process(message, context):
            return AgentResult(
                status=AgentStatus.CANCELLED, raw_message="The message was not processed.", message_id=message.id
            )
        handling = self._task(self._handled(user_id, message.evolve(context=context)))
        try:
            return await asyncio.shield(handling)
        except asyncio.CancelledError:
            handling.add_done_callback(_logged)  # there is nobody else to tell
            raise

    async def active_agents(self, user_id: str) -> list[StandardAgent]:
        """The user's agents that are not finished, the one used last first."""
        self._check_user(user_id)
        async with self._roster(user_id) as roster:
            await self._load(roster)
            return [agent for agent in roster.agents() if not agent.finished]

    async def recover(self) -> list[AgentResult]:
        """Handles again what was cut off by the death of a process, and returns the answers.

        Called without being waited for on first use. A storage that can't list every user's agents is asked for each
        user's when a message comes.
        """
        self._check_open()
        waited_for = list(self._redone)
        self._waited_for.append(waited_for)
        try:
            self._first_use = None  # what is found now is all that there is to find
            await self._recovery_begun()
        finally:
            self._waited_for = [one for one in self._waited_for if one is not waited_for]
        answers = await asyncio.gather(*waited_for, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, AgentResult)]

    async def close(self) -> None:
        """Waits until the messages on their way are handled, and takes no more. Idempotent."""
        self._closed = True
        while self._tasks:
            await asyncio.gather(*list(self._tasks), return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- one message

    async def _handled(self, user_id: str, message: Message) -> AgentResult:
        async with self._roster(user_id) as roster:
            while True:
                async with roster.routing:
                    seat = await self._seat_for(roster, message)
                if seat is None:
                    return await self._answered(self._nobody(message), message.context)
                async with seat.lock:
                    result = await self._in_seat(roster, seat, message)
                if result is not None:
                    return await self._answered(result, message.context)

    async def _seat_for(self, roster: Roster, message: Message) -> Seat | None:
        """The seat of the agent that the message goes to, a new one maybe."""
        await self._load(roster)
        roster.fresh = True
        try:
            target = await self.route_message(roster.user_id, message, message.context)
        finally:
            roster.fresh = False
        if target is None:
            return None
        if isinstance(target, StandardAgent):
            seat = roster.seats.get(target.agent_id)
            if seat is None:
                raise InvalidArgument(
                    f"Agent {target.agent_id} is not active for {roster.user_id}",
                    agent_id=target.agent_id,
                    user_id=roster.user_id,
                    hint="route_message returns one of active_agents(user_id), a class, a name, or None.",
                )
        else:
            entry = self.catalog[target if isinstance(target, str) else target.__name__]
            seat = roster.add(self._seating.ours(await entry.make(new_id("agt"), roster.user_id)))
        roster.used(seat)
        return seat

    async def _in_seat(self, roster: Roster, seat: Seat, message: Message) -> AgentResult | None:
        """The answer of the agent in this seat; None when it is finished, so that the message goes elsewhere."""
        for _ in range(_RELOADS_MAX):
            try:
                await self._cut_off_first(roster, seat)
                agent = await self._seating.live(roster, seat)
                return None if agent is None else await self._seating.reply(roster, seat, agent, message)
            except Outdated as outdated:
                error = outdated.error
        raise error

    async def _cut_off_first(self, roster: Roster, seat: Seat) -> AgentResult | None:
        """The answer to the message that the agent was handling when it was cut off; None if there is none."""
        agent = await self._seating.live(roster, seat)
        if agent is None or agent.handling is None:
            return None
        message = agent.handling.again()
        context = await self.prepare_context(roster.user_id, message)
        result = await self._seating.reply(roster, seat, agent, message.evolve(context=context))
        return await self._answered(result, context)

    async def _answered(self, result: AgentResult, context: Mapping[str, Any]) -> AgentResult:
        """The answer through `post_process`. The message is handled by now: a failure there must not hide that."""
        try:
            return await self.post_process(result, context)
        except Exception:
            log.exception("post_process failed; the answer is given as it was")
            return result

    def _nobody(self, message: Message) -> AgentResult:
        names = ", ".join(entry.name for entry in self.catalog)
        said = f"No agent here takes that message. There are: {names}."
        return AgentResult(status=AgentStatus.ERROR, raw_message=said, error=said, message_id=message.id)

    # --- who is there

    @asynccontextmanager
    async def _roster(self, user_id: str) -> AsyncIterator[Roster]:
        """The user's roster, which is forgotten when nobody is in it and no message on its way."""
        roster = self._rosters.get(user_id)
        if roster is None:
            roster = self._rosters[user_id] = Roster(user_id)
        roster.guests += 1
        try:
            yield roster
        finally:
            roster.guests -= 1
            if not roster.guests and not roster.seats:
                self._rosters.pop(user_id, None)

    async def _load(self, roster: Roster) -> None:
        """Fills a roster that has nobody: other processes may have begun agents since it was filled last."""
        async with roster.loading:
            for seat in [seat for seat in roster.seats.values() if seat.agent is None]:
                self._redo_if_cut_off(seat, await self._seating.live(roster, seat))
            if not roster.seats and not roster.fresh:
                await self._fill(roster)

    async def _load_again(self, roster: Roster, agent_ids: set[str]) -> None:
        """Looks anew at these agents, which somebody else had, and for others that were begun meanwhile."""
        async with roster.loading:
            for seat in [seat for seat in roster.seats.values() if seat.agent_id in agent_ids]:
                if not seat.lock.locked():
                    seat.agent = None
                    self._redo_if_cut_off(seat, await self._seating.live(roster, seat))
            await self._fill(roster)

    async def _fill(self, roster: Roster) -> None:
        for agent in await self._loader.active(roster.user_id, roster.seats):
            self._redo_if_cut_off(roster.add(self._seating.ours(agent)), agent)

    def _register(self, entry: Entry) -> None:
        """A factory rebuilds its agents, too; a class is known by itself, maybe with upgrades that were registered."""
        if entry.factory is not entry.cls:
            self.checkpoint_manager.register(lambda found: entry.make(found.agent_id, found.user_id), entry.name)

    # --- what was cut off

    async def _recovery_begun(self) -> None:
        """On first use: what was cut off is found, and is being handled again; nobody waits for that but its agent."""
        if self._first_use is None:
            self._first_use = self._task(self._look_for_cut_off())
        try:
            await asyncio.shield(self._first_use)
        except Exception:
            self._first_use = None  # the next message tries again
            raise

    async def _look_for_cut_off(self) -> None:
        """Loads the agents of every user who has one that was held by a process which died."""
        try:
            infos = await self.checkpoint_manager.store.agents(self.checkpoint_manager.user_id)
        except MissingMethod:
            return
        held = [info for info in infos if info.owner is not None and not self._turns.under_way(info.agent_id)]
        for user_id in dict.fromkeys(info.user_id for info in held):
            try:
                async with self._roster(user_id) as roster:
                    await self._load_again(roster, {info.agent_id for info in held if info.user_id == user_id})
            except HoldfastError as error:  # one user's agent that can't be restored must not keep others from theirs
                log.warning("The agents of user %s are not taken up again: %s", user_id, error)

    def _redo_if_cut_off(self, seat: Seat, agent: StandardAgent | None) -> None:
        if agent is None or agent.handling is None or self._turns.under_way(agent.agent_id):
            return
        task = self._task(self._again(seat))
        self._redone.add(task)
        for waited_for in self._waited_for:
            waited_for.append(task)
        task.add_done_callback(self._redone.discard)

    async def _again(self, seat: Seat) -> AgentResult | None:
        """Handles the message again that the agent was handling; None if somebody was quicker."""
        agent = seat.agent
        if agent is None:
            return None
        async with self._roster(agent.user_id) as roster, seat.lock:
            try:
                return await self._cut_off_first(roster, seat)
            except (OwnedElsewhere, StaleWriter, Outdated):  # another process is at it
                return None
            except Exception:
                log.exception("Agent %s could not handle again what was cut off", seat.agent_id)
                raise

    # --- parts

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits is told; nobody may wait any more

    def _check_user(self, user_id: object) -> None:
        if not isinstance(user_id, str) or not user_id:
            raise InvalidArgument(f"A user_id is a non-empty str, not {user_id!r}")
        scope = self.checkpoint_manager.user_id
        if scope not in (None, user_id):
            raise WrongOwner(f"This orchestrator's manager is {scope}'s, not {user_id}'s", user_id=user_id)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("This orchestrator was closed", hint="Make a new one; its agents are in the store.")


def _logged(task: asyncio.Task[AgentResult]) -> None:
    """Says how a message failed whose sender does not wait any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("A message that nobody waits for failed", exc_info=error)

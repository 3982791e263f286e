"""`ModelAgent`: an agent whose next step a language model chooses, and that can be killed anywhere on its way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.agents.model.asking import Asker, OnText
from holdfast.agents.model.conversation import Call, Conversation
from holdfast.agents.model.drifting import Drifting, about
from holdfast.agents.model.history import History, Return
from holdfast.agents.model.journal import Journal
from holdfast.agents.model.limits import ModelLimits
from holdfast.agents.model.messages import prompt_content
from holdfast.agents.model.result import ModelResult, PendingCall
from holdfast.agents.model.toolbox import NeedsApproval, Toolbox
from holdfast.agents.model.turn import Setting, Turn
from holdfast.agents.watch import Answer
from holdfast.durable.redaction import Redact, Redactor
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.runs.tool import Tool
from holdfast.durable.users import users_of
from holdfast.errors import Closed, InvalidArgument, StillWaiting, UnknownCall, WrongOwner
from holdfast.history.checkpoint import Kind
from holdfast.history.records import Record, ToolApproval, ToolResult, UserMessage
from holdfast.storage.adapter import as_store
from holdfast.storage.ids import new_id
from holdfast.storage.memory import InMemoryCheckpointStorage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from holdfast.drift.protocol import Detector, Drift
    from holdfast.durable.manager import CheckpointManager
    from holdfast.storage.protocol import CheckpointStorage

log = logging.getLogger("holdfast")

_STATUS = {
    "complete": "WAITING_FOR_INPUT",
    "waiting": "WAITING_FOR_APPROVAL",
    "parked": "PAUSED",
    "stopped": "WAITING_FOR_INPUT",
}
_SUMMARY_MAX = 200


@dataclass(slots=True)
class _Operation:
    """What one operation begins with."""

    journal: Journal
    conversation: Conversation
    back: Return | None

    def is_pending(self, *, again_asked: bool) -> bool:
        """Whether calls have no result yet, or a request (if that counts) has no answer."""
        return bool(self.conversation.open_calls) or (again_asked and self.conversation.wants_answer)


class ModelAgent:
    """Asks a model, makes the tool calls that it wants, tells it their results, until it has answered.

    Each of these steps is recorded before the next one begins. `model` is a name or a model of pydantic-ai's. `tools`
    are for the model to call; with `run_python` its programs can call them, too (a `PythonRunner` on the same storage
    gives programs tools of their own). `needs_approval` names the tools whose calls a person must approve.

    `detector` is told of each tool call, anew for each prompt. `on_drift` says what is done when it finds drift:
    "notify", "checkpoint", "refresh" (what was tried is not shown to the model any more; the next time it is stopped),
    "stop", or "ask" (the default: a message to the model, then a refresh, then it is stopped); with None, nobody looks
    for drift. A `checkpoint_manager` tells the event `drift_detected`, and saves a `recovery` checkpoint first.

    >>> ModelAgent("openai:gpt-5", agent_id="a")
    ModelAgent('openai:gpt-5', agent_id='a')
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and all but the model may be left out
        self,
        model: Model | str,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        storage: CheckpointStorage | None = None,
        agent_id: str | None = None,
        user_id: str = "default",
        instructions: str | None = None,
        run_python: bool | PythonRunner = True,
        needs_approval: NeedsApproval = False,
        limits: ModelLimits = ModelLimits(),  # noqa: B008 - frozen
        model_settings: ModelSettings | None = None,
        redact_arguments: Redact | None = Redactor(),  # noqa: B008 - frozen
        detector: Detector | None = None,
        on_drift: str | None = "ask",
        checkpoint_manager: CheckpointManager | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if storage is None:
            storage = InMemoryCheckpointStorage() if checkpoint_manager is None else checkpoint_manager.storage
        self.storage = storage
        self.store = as_store(self.storage)
        self.model = model
        self.agent_id = agent_id or new_id("agt")
        self.user_id = user_id
        self.status = "WAITING_FOR_INPUT"
        toolbox = Toolbox(tools, needs_approval)
        self._own_runner: PythonRunner | None = None
        if run_python is True:
            run_python = self._own_runner = PythonRunner(
                self.storage, toolbox.of_programs(), redact_arguments=redact_arguments
            )
        if isinstance(run_python, PythonRunner):
            if run_python.storage is not self.storage:
                raise InvalidArgument("The runner of an agent must have the agent's storage", agent_id=self.agent_id)
            toolbox.with_runner(run_python)
        self.checkpoint_manager = checkpoint_manager
        if checkpoint_manager is None and on_drift == "checkpoint":
            raise InvalidArgument(
                'on_drift="checkpoint" needs a checkpoint_manager, which makes them', agent_id=self.agent_id,
                hint="Pass the CheckpointManager of the agent's storage as checkpoint_manager.",
            )  # fmt: skip
        if checkpoint_manager is not None and checkpoint_manager.storage is not self.storage:
            raise InvalidArgument(
                "The checkpoint_manager of an agent must have the agent's storage", agent_id=self.agent_id
            )
        self._setting = Setting(
            history=History(self.store, self.agent_id), toolbox=toolbox, limits=limits, instructions=instructions,
            redact=redact_arguments, drifting=Drifting(detector, on_drift), tell_drift=self._tell_drift,
            asker=Asker(model, agent_id=self.agent_id, settings=model_settings, limits=limits, sleep=sleep),
        )  # fmt: skip
        self._restored: dict[str, Any] | None = None  # the state to go on from, until something is recorded
        self._went: Return | None = None  # to that state, when the turn under way began
        self._recovered = False
        self._turn: Turn | None = None
        self._result: asyncio.Future[ModelResult] | None = None
        self._users = users_of(self.storage)
        self._users.join(self)
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, agent_id={self.agent_id!r})"

    # --- what one does with it

    async def run(
        self, prompt: str | Sequence[Any], *, on_text: OnText | None = None, take_over: bool = False
    ) -> ModelResult:
        """Takes a prompt up, and returns the model's answer, or what a person must decide before it can go on.

        `on_text` is given the answer's text as it comes. Whatever a dead process left is brought to its end before.
        """
        async with self._operation(take_over=take_over) as operation:
            pending, self._recovered = operation.is_pending(again_asked=not self._recovered), True
            if pending:
                before = await self._gone(operation, None)
                if before.status not in ("complete", "stopped"):
                    raise self._still_waiting(before)
            return await self._gone(operation, on_text, UserMessage(content=prompt_content(prompt)))

    async def recover(
        self, *, on_text: OnText | None = None, again: bool = False, take_over: bool = False
    ) -> ModelResult | None:
        """Brings to its end whatever is pending: calls, programs, a request without an answer. None: nothing was.

        With `again`, a parked program is tried once more.
        """
        async with self._operation(take_over=take_over) as operation:
            self._recovered = True
            if not operation.is_pending(again_asked=True):
                return None
            return await self._gone(operation, on_text, again=again)

    async def approve(self, call_id: str, *, on_text: OnText | None = None, take_over: bool = False) -> ModelResult:
        """A person approves a tool call that waits: it is made, and the agent goes on."""
        return await self._decided(call_id, "approved", None, on_text=on_text, take_over=take_over)

    async def deny(
        self, call_id: str, reason: str = "", *, on_text: OnText | None = None, take_over: bool = False
    ) -> ModelResult:
        """A person denies a tool call that waits: the model is told so, with the reason, and the agent goes on."""
        return await self._decided(call_id, "denied", reason, on_text=on_text, take_over=take_over)

    async def close(self) -> None:
        """Ends what programs run in and lets go of the storage. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._own_runner is not None:
            await self._own_runner.close()
        if self._users.leave(self):
            await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- what a checkpoint keeps of it

    @property
    def context_summary(self) -> str:
        """The beginning of the newest answer, for those who list checkpoints."""
        return self._setting.history.conversation.output[:_SUMMARY_MAX]

    def checkpoint_state(self) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Where in its history the agent stands, and the conversation up to there. The history itself is the truth.

        Awaitable while the history has not been read yet.
        """
        if self._turn is not None and self._turn.has_written:
            self._is_back(self._went)
        if self._restored is not None:
            return self._restored
        return self._state() if self._setting.history.known else self._read_state()

    def restore_state(self, state: dict[str, Any]) -> None:
        """Goes back to a state: what was recorded after it no longer counts once the agent goes on from here."""
        self._restored = dict(state)

    # --- parts

    def _state(self) -> dict[str, Any]:
        history = self._setting.history
        return {"agent_id": self.agent_id, "position": history.position, "messages": history.conversation.plain()}

    async def _read_state(self) -> dict[str, Any]:
        await self._setting.history.refresh()
        return self._state()

    @asynccontextmanager
    async def _operation(self, *, take_over: bool) -> AsyncIterator[_Operation]:
        """One operation at a time, on the conversation as it is, or as it was in the state that was restored."""
        if self._closed:
            raise Closed(f"Agent {self.agent_id} was closed", agent_id=self.agent_id, hint="Make a new ModelAgent.")
        with self._users.advancing(self.agent_id):
            conversation = await self._read()
            back = None if self._restored is None else self._setting.history.back_to(self._restored)
            if back is None:
                self._restored = None
            journal = Journal(self.store, self.agent_id, self.user_id, agent_type=type(self).__name__,
                              take_over=take_over)  # fmt: skip
            yield _Operation(journal, conversation if back is None else back.conversation, back)

    async def _read(self) -> Conversation:
        info = await self.store.agent(self.agent_id)
        if info is not None and info.user_id != self.user_id:
            raise WrongOwner(f"Agent {self.agent_id} belongs to another user than {self.user_id}",
                             agent_id=self.agent_id, user_id=self.user_id)  # fmt: skip
        if info is None:  # it is new, or everything of it was erased
            self._setting.history = History(self.store, self.agent_id)
        return await self._setting.history.refresh()

    async def _gone(
        self, operation: _Operation, on_text: OnText | None, *records: Record, again: bool = False
    ) -> ModelResult:
        """A turn to its end, for everybody who waits for it."""
        turn = Turn(self._setting, operation.journal, on_text=on_text, again=again)
        back, operation.back = operation.back, None
        self._went = back
        first = records if back is None else (back.rewind, *records)
        self._turn, self.status = turn, "RUNNING"
        self._result = asyncio.get_running_loop().create_future()
        try:
            async with self._setting.asker.open():
                result = await turn.go(*first)
                self._turn = None  # it takes no decision any more
        except BaseException as error:
            self.status = "ERROR" if isinstance(error, Exception) else "PAUSED"
            self._fail(error)
            raise
        else:
            self.status = _STATUS[result.status]
            self._result.set_result(result)
            return result
        finally:
            self._turn = self._result = self._went = None
            if operation.journal.has_written:
                self._is_back(back)

    def _is_back(self, back: Return | None) -> None:
        """The way back to the state that was restored is on record: the history says where the agent stands."""
        if back is not None and self._restored is not None:
            self._restored = None
            self._users.lineage.set(self, back.checkpoint_id)  # type: ignore[arg-type]  # None: it has no parent

    async def _tell_drift(self, drift: Drift, answer: Answer) -> None:
        """Logs and tells that the model drifts; the checkpoint is of the agent before anything was done about that."""
        log.warning("Agent %s drifts (%s): %s", self.agent_id, answer, drift.reason)
        manager = self.checkpoint_manager
        if manager is None:
            return
        if answer is not Answer.NOTIFY:
            await manager.save(self, kind=Kind.RECOVERY, metadata=about(drift))
        await manager.events.tell("drift_detected", drift, self)

    def _fail(self, error: BaseException) -> None:
        """Tells whoever waits for the turn, if anybody does, that it failed."""
        assert self._result is not None  # noqa: S101 - a turn is under way
        if isinstance(error, Exception):
            self._result.set_exception(error)
            self._result.exception()  # whoever runs the turn is told in any case
        else:
            self._result.cancel()

    async def _decided(
        self, call_id: str, decision: str, reason: str | None, *, on_text: OnText | None, take_over: bool
    ) -> ModelResult:
        if self._turn is not None and self._result is not None:
            turn, result = self._turn, self._result
            call = self._waiting_call(await self._setting.history.refresh(), call_id)
            if not turn.decide(*self._decision(call, decision, reason)):
                raise self._unknown_call(call_id)
            return await asyncio.shield(result)
        async with self._operation(take_over=take_over) as operation:
            self._recovered = True
            call = self._waiting_call(operation.conversation, call_id)
            return await self._gone(operation, on_text, *self._decision(call, decision, reason))

    def _waiting_call(self, conversation: Conversation, call_id: str) -> Call:
        call = conversation.call(call_id)
        if call is None or call.decision != "asked":
            raise self._unknown_call(call_id)
        return call

    def _unknown_call(self, call_id: str) -> UnknownCall:
        return UnknownCall(
            f"No tool call {call_id} of agent {self.agent_id} waits for a decision", agent_id=self.agent_id,
            tool_call_id=call_id,
        )  # fmt: skip

    def _decision(self, call: Call, decision: str, reason: str | None) -> tuple[ToolApproval, *tuple[Record, ...]]:
        approval = ToolApproval(tool_call_id=call.id, decision=decision, reason=reason or None)
        if decision == "approved":
            return (approval,)
        told = f"A person denied this call: {reason}" if reason else "A person denied this call."
        return approval, ToolResult(tool_call_id=call.id, content=told, is_error=True)

    def _still_waiting(self, result: ModelResult) -> StillWaiting:
        what = ", ".join(_named(one) for one in result.waiting) or result.reason
        return StillWaiting(f"Agent {self.agent_id} takes no new prompt: {what}", agent_id=self.agent_id)


def _named(call: PendingCall) -> str:
    return f"{call.tool_name} (call {call.call_id}) waits for a decision"

"""A turn: one operation of an agent, from wherever its history stands to where nothing is left that it could do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.agents.model.asking import Asker, OnText
from holdfast.agents.model.calls import Calls, failed
from holdfast.agents.model.conversation import Call, Conversation
from holdfast.agents.model.drifting import Drifting, note
from holdfast.agents.model.history import History
from holdfast.agents.model.journal import Journal
from holdfast.agents.model.limits import ModelLimits
from holdfast.agents.model.messages import recorded, sent
from holdfast.agents.model.result import ModelResult, PendingCall
from holdfast.agents.model.toolbox import RUN_PYTHON, Toolbox
from holdfast.agents.watch import Answer
from holdfast.durable.redaction import Redact
from holdfast.errors import HoldfastError, LimitReached
from holdfast.history.records import AssistantMessage, Record, ToolApproval, ToolCall, ToolResult

if TYPE_CHECKING:
    from holdfast.drift.protocol import Drift
    from holdfast.durable.runs.result import RunResult


@dataclass(kw_only=True)
class Setting:
    """What all turns of one agent share."""

    history: History
    toolbox: Toolbox
    asker: Asker
    limits: ModelLimits
    drifting: Drifting
    tell_drift: Callable[[Drift, Answer], Awaitable[None]]
    instructions: str | None = None
    redact: Redact | None = None
    secrets: dict[str, Any] = field(default_factory=dict)  # arguments that this process knows and no record has


class Turn:
    """Does what the history says is to be done next, until that is nothing, or needs a person.

    A prompt, a recovery and a decision differ only in what they record first.
    """

    def __init__(self, setting: Setting, journal: Journal, *, on_text: OnText | None, again: bool = False) -> None:
        self._setting = setting
        self._journal = journal
        self._on_text = on_text
        self._again = again  # parked programs are tried, too
        self._calls = Calls(setting.toolbox, journal, result_bytes_max=setting.limits.result_bytes_max)
        self._tasks: dict[str, asyncio.Task[ToolResult | RunResult]] = {}
        self._stuck: dict[str, RunResult] = {}
        self._decisions: list[tuple[ToolApproval, *tuple[Record, ...]]] = []
        self._recorded = 0  # how many of them are
        self._decided = asyncio.Event()

    @property
    def has_written(self) -> bool:
        """Whether anything of it is on record."""
        return self._journal.has_written

    async def go(self, *first: Record) -> ModelResult:
        """Records what the turn begins with, and then does what there is to do."""
        try:
            if first:
                await self._journal.commit(*first)
            return await self._gone()
        except BaseException:
            known = await self._stop()
            with suppress(HoldfastError):  # what went wrong first matters more
                await self._journal.end(*known)
            raise

    def decide(self, decision: ToolApproval, *also: Record) -> bool:
        """Takes a person's decision while the turn is under way; False if it has one about this call already."""
        if any(known.tool_call_id == decision.tool_call_id for known, *_ in self._decisions):
            return False
        self._decisions.append((decision, *also))
        self._decided.set()
        return True

    # --- the loop

    async def _gone(self) -> ModelResult:
        while True:
            await self._record_decisions()
            conversation = await self._setting.history.refresh()
            stopped: ModelResult | None = None
            if conversation.open_calls:
                stopped = await self._answer_calls(conversation)
            elif conversation.wants_answer:
                if (drift := self._setting.drifting.found(conversation)) is not None:
                    await self._answer_drift(drift, conversation)
                else:
                    await self._ask_model(conversation)
            else:
                await self._journal.end()
                stopped = self._result(conversation)
            if stopped is not None and not self._decided.is_set():  # nobody has decided meanwhile
                return stopped

    async def _record_decisions(self) -> None:
        if not self._decided.is_set():
            return
        self._decided.clear()
        new = [record for decision in self._decisions[self._recorded :] for record in decision]
        self._recorded = len(self._decisions)
        await self._journal.commit(*new)

    async def _answer_drift(self, drift: Drift, conversation: Conversation) -> None:
        """Tells of a drift, and records what is done about it before the model is asked again."""
        drifting = self._setting.drifting
        answer = drifting.due()
        await self._setting.tell_drift(drift, answer)
        said = note(answer, drift, conversation.work)
        if said is not None:
            await self._journal.commit(said)
        drifting.done()

    async def _ask_model(self, conversation: Conversation) -> None:
        """One request. Its answer is durable before anything acts on it; the last one gives the agent back."""
        self._check_limits(conversation)
        if not self._journal.holds:
            await self._journal.commit()  # two processes must not ask the same
        parameters = self._setting.toolbox.parameters(self._setting.instructions)
        response = await self._setting.asker.ask(sent(conversation), parameters, self._on_text)
        message = self._without_secrets(recorded(response, conversation.call_ids))
        if message.tool_calls:
            await self._journal.commit(message)
        else:
            await self._journal.end(message)

    def _check_limits(self, conversation: Conversation) -> None:
        limits, used, agent_id = self._setting.limits, conversation.usage, self._journal.agent_id
        if used.requests >= limits.requests_max:
            raise LimitReached(f"The run of agent {agent_id} has made {used.requests} requests, the most it may make",
                               agent_id=agent_id)  # fmt: skip
        if limits.tokens_max is not None and used.total_tokens >= limits.tokens_max:
            raise LimitReached(
                f"The run of agent {agent_id} has used {used.total_tokens:,} tokens, and may use {limits.tokens_max:,}",
                agent_id=agent_id,
            )

    def _without_secrets(self, message: AssistantMessage) -> AssistantMessage:
        """The message as it is recorded. A program's text is kept whole: its run records it anyway."""
        if self._setting.redact is None:
            return message
        calls, found = [], []
        for index, call in enumerate(message.tool_calls):
            if call["name"] != RUN_PYTHON:
                arguments, paths = self._setting.redact(call["arguments"], f"toolCalls[{index}].arguments")
                if paths:
                    self._setting.secrets[call["id"]] = call["arguments"]
                    call = {**call, "arguments": arguments}  # noqa: PLW2901 - the same call, without its secrets
                    found += paths
            calls.append(call)
        return message.evolve(tool_calls=calls, redacted=found) if found else message

    # --- tool calls

    async def _answer_calls(self, conversation: Conversation) -> ModelResult | None:
        """Starts the calls that can start, and records the next results; what it returns ends the turn."""
        waiting, progress = await self._start(conversation)
        if self._tasks:
            await self._next_results()
        elif not progress:
            return self._result(conversation, waiting)
        return None

    async def _start(self, conversation: Conversation) -> tuple[list[Call], bool]:
        """The calls that a person must decide about, and whether anything was done about the others."""
        todo = [one for one in conversation.open_calls if one.id not in self._tasks and one.id not in self._stuck]
        records: list[Record] = []
        begun: list[tuple[Call, Callable[[], Awaitable[ToolResult | RunResult]]]] = []
        waiting: list[Call] = []
        for call in todo:
            step = await self._step(call)
            if isinstance(step, ToolResult):
                records.append(step)
            elif step is None:
                waiting.append(call)
            else:
                begun.append((call, step))
                if not call.attempts and not self._is_program(call):
                    records.append(ToolCall(tool_call_id=call.id, tool_name=call.name, attempt=1))
        progress = bool(records or begun)
        records += [ToolApproval(tool_call_id=one.id, decision="asked") for one in waiting if one.decision is None]
        if progress or self._tasks:
            if records or not self._journal.holds:
                await self._journal.commit(*records)
        else:
            await self._journal.end(*records)
        for call, make in begun:
            self._tasks[call.id] = asyncio.ensure_future(make())
        return waiting, progress

    async def _step(self, call: Call) -> ToolResult | Callable[[], Awaitable[ToolResult | RunResult]] | None:
        """What is to be done about an open call: it is answered now, or made, or (None) a person must decide."""
        arguments = self._setting.secrets.get(call.id, call.arguments)
        if self._is_program(call):
            if not isinstance(arguments, dict) or not isinstance(arguments.get("code"), str):
                return failed(call, f"The arguments of {RUN_PYTHON} are no JSON object with a text named code")
        elif call.attempts:
            return lambda: self._calls.again(call, arguments)
        elif (refusal := await self._calls.refusal(call, arguments)) is not None:
            return refusal
        if call.decision != "approved" and (call.decision or await self._asks_about(call, arguments)):
            return None
        if self._is_program(call):
            return lambda: self._run_program(call, arguments["code"])
        return lambda: self._calls.made(call, arguments)

    async def _asks_about(self, call: Call, arguments: Any) -> bool:
        return await self._setting.toolbox.asks_about(self._shown(call, arguments))

    def _is_program(self, call: Call) -> bool:
        return call.name == RUN_PYTHON and self._setting.toolbox.runner is not None

    async def _run_program(self, call: Call, code: str) -> RunResult:
        """Runs the program, or goes on with it. Its end, the call's result included, is in the runner's own commit."""
        runner, agent_id = self._setting.toolbox.runner, self._journal.agent_id
        assert runner is not None  # noqa: S101 - asked before
        found = await runner.store.runs(agent_id=agent_id, name=call.id, limit=1)
        if found and found[0].end is None:
            return await runner.go_on(agent_id, call.id, again=self._again)
        return await runner.run(agent_id, code, call.id, user_id=self._journal.user_id)

    async def _next_results(self) -> None:
        """Waits until a call has its result or a person has decided, and records what there is."""
        decided = asyncio.ensure_future(self._decided.wait())
        try:
            await asyncio.wait({*self._tasks.values(), decided}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            decided.cancel()
        done = {call_id: _outcome(call_id, task) for call_id, task in self._tasks.items() if task.done()}
        conversation = await self._setting.history.refresh()
        results: list[Record] = []
        for call_id, outcome in done.items():
            del self._tasks[call_id]
            self._setting.secrets.pop(call_id, None)
            if conversation.call(call_id) is None:
                continue  # the runner recorded its result with the run's end
            if isinstance(outcome, ToolResult):
                results.append(outcome)
            elif outcome.status == "complete":  # a fork goes on with a call of its past, which the runner can't see
                results.append(ToolResult(tool_call_id=call_id, content=outcome.content, is_error=outcome.is_error))
            else:
                self._stuck[call_id] = outcome
        if results:
            await self._journal.commit(*results)

    async def _stop(self) -> list[Record]:
        """Ends the calls that are under way; the results of those that came to their end before."""
        for task in self._tasks.values():
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        return [outcome for outcome in outcomes if isinstance(outcome, ToolResult)]

    # --- the result

    def _result(self, conversation: Conversation, waiting: list[Call] | None = None) -> ModelResult:
        result = ModelResult(
            agent_id=self._journal.agent_id, output=conversation.output, usage=conversation.usage,
            waiting=tuple(self._shown(one, self._setting.secrets.get(one.id, one.arguments)) for one in waiting or ()),
        )  # fmt: skip
        if waiting:
            return replace(result, status="waiting")
        if conversation.stopped_because is not None:
            return replace(result, status="stopped", reason=conversation.stopped_because)
        if self._stuck:
            return replace(result, status="parked", reason="; ".join(str(one.error) for one in self._stuck.values()))
        return result

    def _shown(self, call: Call, arguments: Any) -> PendingCall:
        return PendingCall(call_id=call.id, tool_name=call.name, arguments=arguments, agent_id=self._journal.agent_id)


def _outcome(call_id: str, task: asyncio.Task[ToolResult | RunResult]) -> ToolResult | RunResult:
    if task.cancelled():  # by itself: nobody else has cancelled it
        return ToolResult(tool_call_id=call_id, content="CancelledError: the tool cancelled itself", is_error=True)
    return task.result()

"""What an orchestrator adds to the saves that it makes, what an idle agent takes, how one loop serves many."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from pathlib import Path

from benchmarks.booker import CHANGES, SAID, Booker, Looking
from benchmarks.numbers import Samples, ms, times
from benchmarks.options import Options, say
from benchmarks.result import Result, Target
from holdfast import AgentStatus, CheckpointManager, Orchestrator, SQLiteCheckpointStorage

_IDLE = 1000
_ACTIVE = 200
_STATUSES = (
    *[AgentStatus.WAITING_FOR_INPUT] * 3, AgentStatus.WAITING_FOR_APPROVAL, AgentStatus.RUNNING, AgentStatus.COMPLETED,
)  # fmt: skip
_TICK_SECONDS = 0.001


def measure(options: Options) -> list[Result]:
    return [_cost(options), _idle(options), _active(options)]


def _manager(path: Path) -> CheckpointManager:
    return CheckpointManager(SQLiteCheckpointStorage(path / "checkpoints.db", max_checkpoints_per_user=None))


# --- what a change costs


def _cost(options: Options) -> Result:
    conversations = options.some(400, 60)
    result = Result(
        name="agents",
        title="An orchestrator's message beside the saves of its changes",
        how=(
            f"{conversations} conversations of {len(SAID)} messages, each with a new agent: three fields, an approval, "
            f"the work; {CHANGES} changes. By turns: one with auto_checkpoint, one without, and {CHANGES} plain "
            "manager.save of such an agent, in the same statuses and with the same fields. The p50 of conversations; "
            "what auto_checkpoint costs is the first less the second."
        ),
        columns=("what", "ms a conversation, p50 (p10 … p90)", "commits", "beside a save per change"),
    )
    for cls, name in ((Booker, ""), (Looking, ", each answer seen by code of the agent")):
        say(f"  {conversations} conversations{name}")
        with options.workspace() as path:
            kept, alone, saves, commits = asyncio.run(_talks(path, cls, conversations))
        cost = Samples([one - other for one, other in zip(kept.seconds, alone.seconds, strict=True)])
        ratio = Samples([one / other for one, other in zip(cost.seconds, saves.seconds, strict=True)]).p50
        if cls is Booker:
            result.add(f"{CHANGES} times manager.save", saves.spread, f"{CHANGES}", "1")
        result.add(f"auto_checkpoint{name}", kept.spread, f"{commits:g}", times(kept.p50 / saves.p50))
        result.add(f"without{name}", alone.spread, "0", times(alone.p50 / saves.p50))
        if cls is Booker:
            what = "cost of auto_checkpoint for each change / manager.save, p50"
            result.targets.append(Target(what=what, measured=ratio, at_most=1.3, unit=" x"))
            result.figures |= {"ratio": ratio, "conversation": kept.p50, "saves": saves.p50}
        else:
            each = ratio * CHANGES / commits
            result.notes.append(
                f"Where code of the agent sees each answer, the message is durable before it does: {commits:g} commits "
                f"for {CHANGES} changes, {times(ratio)} a save for each change, {times(each)} for each checkpoint."
            )
            result.figures |= {"looking_ratio": ratio, "looking_commits": commits}
    return result


async def _talks(path: Path, cls: type[Booker], count: int) -> tuple[Samples, Samples, Samples, float]:
    kept, alone, saves = Samples(), Samples(), Samples()
    async with _manager(path) as manager:
        keeping = Orchestrator([cls], manager)
        forgetting = Orchestrator([cls], manager, auto_checkpoint=False)
        await manager.save(cls("first", "nobody"))
        before = await _commits(manager)
        for number in range(count):
            for orchestrator, samples in ((keeping, kept), (forgetting, alone)):
                with samples.timed():
                    for said in SAID:
                        await orchestrator.handle_message(f"user-{number}", said)
            agent = cls(f"plain-{number}", f"user-{number}")
            fields = (("guests", 4), ("day", SAID[2]), ("name", SAID[3]))
            with saves.timed():
                for step, status in enumerate(_STATUSES):
                    agent.status = status
                    agent.collected_fields = dict(fields[:step])
                    await manager.save(agent, kind="auto")
        commits = (await _commits(manager) - before) / count - CHANGES
    return kept, alone, saves, commits


async def _commits(manager: CheckpointManager) -> int:
    """The number of the newest commit, which is also the number of commits."""
    return max((info.commit_number for info in await manager.store.agents()), default=0)


# --- what an idle agent takes


def _idle(options: Options) -> Result:
    result = Result(
        name="agents-idle",
        title=f"{_IDLE:,} idle agents in one process",
        how=(
            f"{_IDLE:,} users, each with an agent that waits for its second answer; then, in a new store object, the "
            "same agents picked up again. Python's memory by tracemalloc, everything included: agents, their users, "
            "what the manager and the open store remember of them."
        ),
        columns=("what", "KB an agent", "seconds in all"),
    )
    with options.workspace() as path:
        say(f"  {_IDLE:,} idle agents")
        begun, picked_up, began, took = asyncio.run(_idling(path))
    result.add("begun", f"{begun:.1f}", f"{began:.2f}")
    result.add("picked up after a restart", f"{picked_up:.1f}", f"{took:.2f}")
    result.targets.append(Target(what="an idle agent", measured=max(begun, picked_up), at_most=20, unit=" KB"))
    result.figures |= {"begun_kb": begun, "picked_up_kb": picked_up}
    return result


async def _idling(path: Path) -> tuple[float, float, float, float]:
    measured = []
    for texts in (SAID[:2], ()):
        async with _manager(path) as manager:
            orchestrator = Orchestrator([Booker], manager)
            await orchestrator.recover()
            gc.collect()
            tracemalloc.start()
            started = time.perf_counter()
            for number in range(_IDLE):
                for text in texts:
                    await orchestrator.handle_message(f"user-{number}", text)
                if not texts:
                    await orchestrator.active_agents(f"user-{number}")
            took = time.perf_counter() - started
            gc.collect()
            measured.append((tracemalloc.get_traced_memory()[0] / _IDLE / 1024, took))
            tracemalloc.stop()
            assert len(await orchestrator.active_agents("user-7")) == 1
    (begun, began), (picked_up, took) = measured
    return begun, picked_up, began, took


# --- many at once


def _active(options: Options) -> Result:
    rounds = options.some(10, 2)
    result = Result(
        name="agents-active",
        title=f"{_ACTIVE} active agents on one event loop",
        how=(
            f"{_ACTIVE} users at once, each sending the {len(SAID)} messages of a conversation, the next as soon as "
            f"the one before is answered; {rounds} times. Meanwhile a task wakes up every millisecond: how late it is "
            "shows how long the loop was busy at a stretch."
        ),
        columns=("what", "p50", "p99"),
    )
    with options.workspace() as path:
        say(f"  {_ACTIVE} active agents")
        answers, late, rates = asyncio.run(_serving(path, rounds))
    result.add("an answer, ms", ms(answers.p50), ms(answers.percentile(99)))
    result.add("how late the loop is, ms", ms(late.p50), ms(late.percentile(99)))
    result.add("messages a second", f"{rates.p50:,.0f}", "")
    result.figures |= {"messages_per_second": rates.p50, "answer_p50": answers.p50, "late_p99": late.percentile(99)}
    return result


async def _serving(path: Path, rounds: int) -> tuple[Samples, Samples, Samples]:
    answers, late, rates = Samples(), Samples(), Samples()

    async def ticking() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_TICK_SECONDS)
            late.seconds.append(max(0.0, time.perf_counter() - before - _TICK_SECONDS))

    async with _manager(path) as manager:
        orchestrator = Orchestrator([Booker], manager)

        async def user(name: str) -> None:
            for said in SAID:
                with answers.timed():
                    result = await orchestrator.handle_message(name, said)
            assert result.status is AgentStatus.COMPLETED

        ticker = asyncio.create_task(ticking())
        for _ in range(rounds):
            started = time.perf_counter()
            await asyncio.gather(*(user(f"user-{number}") for number in range(_ACTIVE)))
            rates.seconds.append(_ACTIVE * len(SAID) / (time.perf_counter() - started))
        ticker.cancel()
    return answers, late, rates

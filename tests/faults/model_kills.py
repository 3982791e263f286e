"""A conversation whose process is killed with SIGKILL: what `test_model_kills` starts.

    python -m tests.faults.model_kills FOLDER boundaries MOST [MUTANT]
    python -m tests.faults.model_kills FOLDER moments KILLS [MUTANT]

It is killed at one boundary after the other: a process dies after the commit that ends at a record, or before the next
one begins; then the tools between have had their effects. At most so many are tried, spread evenly. Or it is killed at
random moments until it has come to its end, one conversation after the other, until there were so many kills.

It prints one JSON object: how many boundaries there are, what was counted, and every claim that did not hold, with
which it ends at once. It forks its children before anything of Holdfast runs in it. With a mutant, they do what
`mutants` says under this name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic_ai.models.openai  # noqa: F401 - so that the children need not
import pydantic_monty  # noqa: F401

from holdfast.agents.model.agent import ModelAgent
from holdfast.agents.model.calls import RESTARTED
from holdfast.agents.model.conversation import Conversation
from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.executor import TOO_EARLY
from holdfast.durable.runs.outcomes import DidNotHappen, Happened
from holdfast.durable.runs.tool import Tool
from holdfast.history.fold import live_path
from holdfast.history.records import (
    Record,
    RlmStart,
    RlmToolCall,
    RlmToolResult,
    ToolCall,
    ToolResult,
    UserMessage,
)
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.mortals import forked, lived
from tests.faults.mutants import broken_by
from tests.openai_server import Says, Server, answered

PROGRAM = """
print("shipping")
shipped = ship(order=30)
told = note(text="shipped 30")
[shipped, told]
"""
TOGETHER = """
import asyncio
await asyncio.gather(ship(order=40), ship(order=41))
"""

PROMPTS = [f"prompt {number}" for number in range(10)]
ANSWERS = [
    Says("I charge it", [("c0", "charge", {"order": 1})]),
    Says("charged"),
    Says("", [("c1", "note", {"text": "a"}), ("c2", "ship", {"order": 2}), ("c3", "charge", {"order": 2})]),
    Says("all three"),
    Says("a program", [("c4", "run_python", {"code": PROGRAM})]),
    Says("ran"),
    Says("", [("c5", "run_python", {"code": TOGETHER}), ("c6", "note", {"text": "b"})]),
    Says("both"),
    Says("", [("c7", "invented", {}), ("c8", "charge", '{"order":')]),
    Says("I try again", [("c9", "charge", {"order": 3})]),
    Says("mended"),
    Says("just text"),
    Says("", [("c10", "ship", {"order": 4})]),
    Says("shipped"),
    Says("", [("c11", "note", {"text": "c"}), ("c12", "note", {"text": "d"})]),
    Says("noted"),
    Says("", [("c13", "run_python", {"code": "ship(order=50)"})]),
    Says("ran again"),
    Says("the end"),
]


class Effects:
    """What really happened: a line for each effect, in a file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, tool: str, value: object) -> str:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        line = {"tool": tool, "value": value, "key": current_call().idempotency_key}
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)
        return f"{tool} {value}"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def counts(self) -> Counter[str]:
        return Counter(f"{line['tool']} {line['value']}" for line in self.lines())


def tools_of(effects: Effects) -> list[Tool]:
    def charge(order: int) -> str:
        return effects.add("charge", order)

    async def ship(order: int) -> str:
        await asyncio.sleep(0)
        return effects.add("ship", order)

    def note(text: str) -> str:
        return effects.add("note", text)

    def shipped(call):
        found = [line for line in effects.lines() if line["key"] == call.idempotency_key]
        return Happened(f"ship {found[0]['value']}") if found else DidNotHappen()

    return [
        Tool(charge),
        Tool(ship, on_restart="reconcile", reconcile=shipped),
        Tool(note, on_restart="retry"),
    ]


class Mortal(SQLiteCheckpointStorage):
    """A store whose process dies at a record: after the commit that reaches it, or before the one that follows."""

    dies_at: int | None = None
    dies_before = False
    ends: list[int]

    async def commit(self, *changes):
        if self.dies_before and self.dies_at is not None and self.ends and self.ends[-1] >= self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await super().commit(*changes)
        self.ends.append(done[0].last_seq)
        if not self.dies_before and self.dies_at is not None and self.ends[-1] >= self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


async def child(folder: Path, dies_at: int | None, *, dies_before: bool) -> None:
    """Goes on with the conversation, from wherever it stands to its end."""
    store = Mortal(folder / "store.db")
    store.dies_at, store.dies_before, store.ends = dies_at, dies_before, []
    agent = ModelAgent("openai-chat:gpt-5", tools_of(Effects(folder / "effects")), storage=store, agent_id="a")
    os.write(1, b".")  # from here on it may be killed at any moment
    await agent.recover()
    prompted = [one for one in await store.read("a") if isinstance(one, UserMessage) and one.origin is None]
    for prompt in PROMPTS[len(prompted) :]:
        await agent.run(prompt)
    (folder / "ends").write_text(json.dumps(sorted(set(store.ends))))
    await agent.close()


def ended(folder: Path, dies_at: int | None = None, *, dies_before: bool = False) -> int:
    """Runs a child to its end or death, and returns how it ended."""
    with Path(os.devnull).open("wb") as nowhere:
        pid = forked(child(folder, dies_at, dies_before=dies_before), stdout=nowhere.fileno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def served() -> tuple[int, str]:
    """A process that answers for the model, and its address."""
    server = Server(lambda request: ANSWERS[answered(request)])
    pid = os.fork()
    if not pid:
        server.serve_forever()
    return pid, server.url


async def history(folder: Path) -> list[Record]:
    store = SQLiteCheckpointStorage(folder / "store.db")
    records = live_path(await store.read("a", snapshots=False))
    report = await store.verify()
    assert report.ok, report.damaged
    await store.close()
    return records


def said(records: list[Record]) -> list[dict[str, Any]]:
    """The conversation without what the system appended; each result stands with its call."""
    mine = [one for one in records if not (isinstance(one, UserMessage) and one.origin is not None)]
    return Conversation(mine).plain()


def inner(records: list[Record]) -> dict[str, list[Any]]:
    """What each program called, and what it was told: a call that was made again counts once."""
    found: dict[str, list[Any]] = {}
    for record in records:
        if isinstance(record, RlmToolCall) and record.attempt is None:
            found.setdefault(record.tool_call_id, []).append(["call", record.tool_name, record.tool_args])
        elif isinstance(record, RlmToolResult):
            found.setdefault(record.tool_call_id, []).append(["result", record.tool_result, record.tool_is_error])
    return {name: sorted(steps, key=json.dumps) for name, steps in found.items()}


def lost(records: list[Record]) -> tuple[set[str], set[str]]:
    """What the dead process leaves undecided: charges that it may have made, programs that called nothing yet."""
    answered_ids = {one.tool_call_id for one in records if isinstance(one, ToolResult)}
    charges = {one.tool_call_id for one in records if isinstance(one, ToolCall) and one.tool_name == "charge"}
    called = {one.tool_call_id for one in records if isinstance(one, RlmToolCall)}
    programs = {one.tool_call_id for one in records if isinstance(one, RlmStart)} - called
    return charges - answered_ids, programs - answered_ids


class Conversations:
    """The undisturbed one, what the others must be, and what is counted of those."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken: list[str] = []
        self.counts: Counter[str] = Counter()
        reference = folder / "undisturbed"
        reference.mkdir(parents=True)
        if ended(reference) != 0:
            self.broken.append("the undisturbed conversation failed")
            return
        self.undisturbed = asyncio.run(history(reference))
        self.whole = Effects(reference / "effects").counts()
        ends = json.loads((reference / "ends").read_text())
        self.boundaries = [(end, before) for end in ends for before in (False, True)]

    def at_boundaries(self, most: int) -> None:
        """A death at each boundary, or at so many of them."""
        step = max(1.0, len(self.boundaries) / most)
        for place in range(min(most, len(self.boundaries))):
            at, before = self.boundaries[int(place * step)]
            here = self.folder / f"{at}-{before}"
            here.mkdir()
            code = ended(here, at, dies_before=before)
            self.counts["boundaries"] += 1
            self.counts["kills"] += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL):
                self.broken.append(f"{here.name} ended with {code}")
                return
            left = lost(asyncio.run(history(here)))
            if code and (code := ended(here)):
                self.broken.append(f"{here.name} was recovered with {code}")
            else:
                self.broken += self.claims(here, *left)
            if self.broken:
                return

    def at_moments(self, kills: int, chance: random.Random) -> None:
        """Deaths at random moments, several in each conversation."""
        while self.counts["kills"] < kills and not self.broken:
            self.counts["conversations"] += 1
            here = self.folder / f"{self.counts['conversations']}"
            here.mkdir()
            charges: set[str] = set()
            programs: set[str] = set()
            for lives in range(200):
                # They all come to an end, in the end.
                code = lived(child(here, None, dies_before=False), chance.random() * 0.2 * (1 + lives / 10))
                if code is not None:
                    break
                self.counts["kills"] += 1
                left = lost(asyncio.run(history(here)))
                charges |= left[0]
                programs |= left[1]
            if code != 0:
                self.broken.append(f"{here.name} ended with {code}")
            else:
                self.broken += self.claims(here, charges, programs)

    def claims(self, folder: Path, charges: set[str], programs: set[str]) -> list[str]:
        """Every claim that does not hold for a conversation that was brought to its end.

        Deaths left undecided whether these charges were made, and whether these programs had begun.
        """
        records = asyncio.run(history(folder))
        wanted_inner = inner(self.undisturbed)
        expected = []
        for message in said(self.undisturbed):
            call_id = message.get("toolCallId")
            if call_id in charges:
                message = {**message, "content": RESTARTED, "isError": True}  # noqa: PLW2901
            elif call_id in programs:
                message = {**message, "content": TOO_EARLY, "isError": True}  # noqa: PLW2901
                wanted_inner.pop(call_id, None)
            expected.append(message)
        broken = []
        if (found := said(records)) != expected:
            differ = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
            broken.append(f"{len(found)} messages for {len(expected)}: {differ[:2]}")
        if (found_inner := inner(records)) != wanted_inner:
            broken.append(f"the programs did {found_inner}, not {wanted_inner}")
        broken += self._of_effects(Effects(folder / "effects").counts(), charges | programs)
        self.counts["in doubt"] += len(charges | programs)
        return [f"{folder.name}: {one}" for one in broken]

    def _of_effects(self, counts: Counter[str], given_up: set[str]) -> Iterator[str]:
        for effect in sorted(self.whole | counts):
            self.counts["calls"] += counts[effect] > 0
            if counts[effect] == 0 and _CALL_OF.get(effect) not in given_up:
                self.counts["lost"] += 1
                yield f"{effect} did not happen"
            if counts[effect] > 1 and effect.startswith("note"):
                self.counts["made again"] += 1
            elif counts[effect] > 1:
                self.counts["made twice"] += 1
                yield f"{effect} happened {counts[effect]} times"


_CALL_OF = {
    "charge 1": "c0", "charge 2": "c3", "charge 3": "c9", "ship 30": "c4", "note shipped 30": "c4", "ship 40": "c5",
    "ship 41": "c5", "ship 50": "c13",
}  # fmt: skip


def main() -> None:
    folder, how, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    broken_by("".join(sys.argv[4:]))
    server, url = served()
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    try:
        conversations = Conversations(folder)
        if not conversations.broken and how == "boundaries":
            conversations.at_boundaries(most)
        elif not conversations.broken:
            conversations.at_moments(most, random.Random(1))
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    told = {"boundaries": len(conversations.boundaries), "counts": conversations.counts, "broken": conversations.broken}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()

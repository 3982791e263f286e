"""Whatever is sent, heard, cut, crashed and brought back, in any order: no message is lost, doubled or made up."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from holdfast import CheckpointManager, InMemoryCheckpointStorage
from holdfast.agents.loop.group import LoopGroup
from holdfast.agents.loop.loop import AgentLoop
from holdfast.agents.loop.mailbox import Mailbox
from tests.unit.agents.loop.samples import Clock, until

NAMES = ("a", "b", "c")
ROUTES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), ROUTES),
    st.tuples(st.just("go on"), st.integers(1, 60)),
    st.tuples(st.just("cut"), st.none()),
    st.tuples(st.just("crash"), st.none()),
    st.tuples(st.just("bring back"), st.integers(0, 3)),
)


class Relay:
    """Hears a message and hands it on along its route; the last one makes a task of it. Each await may be the end."""

    def __init__(self, agent_id, user_id="u"):
        self.agent_id, self.user_id, self.status = agent_id, user_id, ""
        self.heard, self.worked = [], []

    def checkpoint_state(self):
        return {"heard": list(self.heard), "worked": list(self.worked)}

    def restore_state(self, state):
        self.heard, self.worked = list(state["heard"]), list(state["worked"])

    async def on_message(self, message, turn):
        number, (place, *rest) = message.content
        assert place == self.agent_id
        self.heard.append(number)
        await asyncio.sleep(0)
        if rest:
            turn.send(rest[0], [number, rest])
        else:
            turn.add_task("finish", number)
        await asyncio.sleep(0)

    async def on_task(self, task, turn):
        await asyncio.sleep(0)
        if task.progress_percentage:
            self.worked.append(task.content)
            turn.complete()
        else:
            turn.progress(50)


class World:
    """A store that outlives its processes, and the messages that were sent into it."""

    def __init__(self):
        self.storage = InMemoryCheckpointStorage(max_checkpoints=None)
        self.sent = {}  # number -> route
        self.groups = []
        self.running = None
        self.start()

    def start(self, agents=None):
        """A new process."""
        self.manager = CheckpointManager(self.storage)
        self.manager.register(Relay)
        agents = agents or [Relay(name) for name in NAMES]
        clock = Clock()
        self.group = LoopGroup(
            [AgentLoop(one, self.manager, clock=clock, idle_seconds=60, on_drift="notify") for one in agents]
        )

    async def send(self, route):
        self.sent[len(self.sent)] = route
        await Mailbox(self.manager, route[0], user_id="u").send([len(self.sent) - 1, route], sender="person")

    async def go_on(self, ticks):
        if self.running is None:
            self.running = asyncio.ensure_future(self.group.run())
        for _ in range(ticks):
            await asyncio.sleep(0)

    async def crash(self):
        """What was not committed is gone, wherever the loops are. (A killed process: tests/faults.)"""
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait([self.running])
            self.running = None
        self.start()

    async def cut(self):
        self.groups.append(await self.group.save_group())

    async def bring_back(self, number):
        if self.groups:
            await self.crash()
            agents = await LoopGroup.restore_group(self.manager, self.groups[number % len(self.groups)])
            await self.check_places(agents)
            self.start(agents)

    async def check_places(self, agents):
        """Each message is where its route has brought it: heard by the first ones, and then it waits or is done."""
        heard = {agent.agent_id: Counter(agent.heard) for agent in agents}
        waiting = Counter()
        for name in NAMES:
            for message in await Mailbox(self.manager, name).receive(10_000):
                number, rest = message.content
                assert rest[0] == name
                waiting[number, len(rest)] += 1
        for number, route in self.sent.items():
            left = [length for (one, length), times in waiting.items() if one == number for _ in range(times)]
            assert len(left) <= 1, f"message {number} waits {len(left)} times"
            done = route[: len(route) - (left[0] if left else 0)]
            assert {name: heard[name][number] for name in NAMES} == {name: done.count(name) for name in NAMES}

    async def finish(self):
        await self.go_on(1)
        await until(self.is_done)
        self.group.stop()
        await self.running
        for loop in self.group.loops:
            name = loop.agent_id
            routes = Counter(number for number, route in self.sent.items() for place in route if place == name)
            assert Counter(loop.agent.heard) == routes
            ends = Counter(number for number, route in self.sent.items() if route[-1] == name)
            assert Counter(loop.agent.worked) == ends

    async def is_done(self):
        if self.running.done():
            self.running.result()
        waiting = [await loop.mailbox.waiting() for loop in self.group.loops]
        tasks = [task.status != "completed" for loop in self.group.loops for task in await loop.tasks.all()]
        return not any(waiting) and not any(tasks)


async def live(actions):
    world = World()
    for what, detail in actions:
        if what == "send":
            await world.send(detail)
        elif what == "go on":
            await world.go_on(detail)
        elif what == "cut":
            await world.cut()
        elif what == "crash":
            await world.crash()
        else:
            await world.bring_back(detail)
    event(f"{len(world.groups)} cuts")
    await world.finish()
    assert (await world.manager.verify()).ok


@given(st.lists(ACTIONS, min_size=3, max_size=30))
def test_no_message_is_lost_doubled_or_made_up(actions):
    asyncio.run(live(actions))

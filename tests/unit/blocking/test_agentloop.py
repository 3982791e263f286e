"""The loop without asyncio: the same, with the agent's methods on the caller's thread."""

from __future__ import annotations

import inspect
import signal
import threading

import pytest

from holdfast import InMemoryCheckpointStorage
from holdfast.agents.loop.mailbox import Mailbox as AsyncMailbox
from holdfast.agents.loop.tasklist import TaskList as AsyncTaskList
from holdfast.blocking import AgentLoop, Mailbox, Manager, TaskList
from tests.unit.agents.loop.samples import HOUR, Clock


class Agent:
    """A plain agent, whose methods note the thread that they were called on."""

    def __init__(self, agent_id="ada", user_id="u"):
        self.agent_id, self.user_id, self.status = agent_id, user_id, ""
        self.heard, self.threads = [], set()

    def checkpoint_state(self):
        self.threads.add(threading.current_thread())
        return {"heard": list(self.heard)}

    def restore_state(self, state):
        self.threads.add(threading.current_thread())
        self.heard = list(state["heard"])

    def refresh(self):
        self.threads.add(threading.current_thread())

    def on_message(self, message, turn):
        self.threads.add(threading.current_thread())
        self.heard.append(message.content)
        try:
            with turn.operation("deploy") as operation:
                self.heard.append(operation.name)
                if message.content == "fails":
                    raise ConnectionError("no")  # noqa: TRY301 - a block is what an operation is
        except ConnectionError:
            self.heard.append("taken back")
        if message.content == "stop":
            signal.raise_signal(signal.SIGTERM)

    def on_task(self, task, turn):
        self.threads.add(threading.current_thread())
        turn.complete(task.content * 2)


@pytest.fixture
def manager():
    with Manager(InMemoryCheckpointStorage()) as manager:
        yield manager


def test_a_loop_runs_on_the_callers_thread(manager):
    clock, agent = Clock(), Agent()
    loop = AgentLoop(agent, manager, clock=clock, idle_seconds=300)
    mailbox = Mailbox(manager, "ada", user_id="u")
    for word in ("one", "fails"):
        mailbox.send(word, sender="eve")
    task_id = loop.tasks.add("double", 21)
    clock.at(3 * HOUR, loop.stop)
    ended = loop.run()
    assert ended.why == "stopped"
    assert agent.heard == ["one", "deploy", "fails", "taken back"]
    assert loop.tasks.get(task_id).result == 42
    assert agent.threads == {threading.current_thread()}
    assert manager.load(ended.checkpoint_id).state == {"heard": agent.heard}
    assert manager.latest("ada", kind="recovery") is not None


def test_a_stop_signal_ends_it_after_its_step(manager):
    before = signal.getsignal(signal.SIGTERM)
    loop = AgentLoop(Agent(), manager, clock=Clock())
    for word in ("stop", "two"):
        loop.mailbox.send(word, sender="eve")
    ended = loop.run()
    assert (ended.why, ended.detail) == ("signal", "SIGTERM")
    assert loop.agent.heard == ["stop", "deploy"]
    assert loop.mailbox.waiting() == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_it_runs_on_any_thread_and_is_stopped_from_another(manager):
    agent = Agent()
    loop = AgentLoop(agent, manager)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(loop.run()))
    heard = threading.Event()
    agent.on_task = lambda task, turn: (turn.complete(), heard.set())
    thread.start()
    loop.tasks.add("one")
    assert heard.wait(10)
    loop.stop()
    thread.join(10)
    assert ended[0].why == "stopped"


def test_a_list_of_tasks_may_be_shared(manager):
    tasks = TaskList(manager, "work", user_id="u")
    assert AgentLoop(Agent(), manager, tasks=tasks).tasks is tasks
    tasks.add("one")
    assert tasks.claim("bob").name == "one"


@pytest.mark.parametrize(("twin", "cls"), [(Mailbox, AsyncMailbox), (TaskList, AsyncTaskList)])
def test_what_an_agent_needs_from_outside_is_there_with_its_signature(twin, cls):
    own = {"held", "settle", "outgoing", "checkpoint_state", "restore_state"}  # a list's part as an agent, the loop's
    for name, method in vars(cls).items():
        if name.startswith("_") or name in own:
            continue
        assert inspect.signature(getattr(twin, name)).parameters.keys() == inspect.signature(method).parameters.keys()

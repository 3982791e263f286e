"""Stop signals end a loop's process after a final checkpoint, wherever it is."""

import signal

import pytest

from holdfast.durable.manager import CheckpointManager
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.children import ended, line, running

pytestmark = pytest.mark.faults

PROGRAM = """
from holdfast.agents.loop.loop import AgentLoop
from holdfast.durable.manager import CheckpointManager

class Agent:
    def __init__(self):
        self.agent_id, self.user_id, self.status, self.heard = "ada", "u", "", []
    def checkpoint_state(self):
        return {"heard": list(self.heard)}
    def restore_state(self, state):
        self.heard = state["heard"]
    async def on_message(self, message, turn):
        self.heard.append(message.content)
        say("heard", message.content)
        if message.content == "wait":
            sys.stdin.readline()
        if message.content == "hang":
            await asyncio.Event().wait()

async def main():
    async with CheckpointManager(SQLiteCheckpointStorage(path)) as manager:
        loop = AgentLoop(Agent(), manager)
        for word in sys.argv[2:]:
            await loop.mailbox.send(word, sender="me")
        ended = await loop.run()
        say("ended", ended.why, ended.detail)

asyncio.run(main())
"""


async def final(path):
    async with CheckpointManager(SQLiteCheckpointStorage(path)) as manager:
        latest = await manager.latest("ada")
        info = await manager.store.agent("ada")
        assert info.owner is None
        state = (await manager.load(latest.id)).state
        return latest.kind, latest.metadata["loop"]["why"], state["heard"], info.inbox_last - info.inbox_acknowledged


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_loop_with_a_final_checkpoint(tmp_path, number):
    with running(PROGRAM, tmp_path / "store.db", "one") as child:
        assert line(child) == "heard one"
        child.send_signal(number)
        assert ended(child) == [f"ended signal {number.name}"]
    assert await final(tmp_path / "store.db") == ("routine", "signal", ["one"], 0)


async def test_a_signal_within_a_step_lets_it_come_to_its_end(tmp_path):
    with running(PROGRAM, tmp_path / "store.db", "wait", "two") as child:
        assert line(child) == "heard wait"
        child.send_signal(signal.SIGTERM)
        child.stdin.write("\n")
        child.stdin.flush()
        assert ended(child) == ["ended signal SIGTERM"]
    assert await final(tmp_path / "store.db") == ("routine", "signal", ["wait"], 1)


async def test_a_second_signal_takes_the_step_back(tmp_path):
    with running(PROGRAM, tmp_path / "store.db", "one", "hang") as child:
        assert [line(child), line(child)] == ["heard one", "heard hang"]
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGINT)
        assert ended(child) in (["ended signal SIGTERM"], ["ended signal SIGINT"]), "they may come in any order"
    assert await final(tmp_path / "store.db") == ("routine", "signal", ["one"], 1)


async def test_what_signals_did_before_comes_back_after_the_last_loop():
    from holdfast.agents.loop.group import LoopGroup
    from tests.unit.agents.loop.test_group import Relay, loops_of, new_manager

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    manager = new_manager(Relay)
    loops = loops_of(manager, Relay("a"), Relay("b"))
    loops[0].clock.at(10, lambda: signal.raise_signal(signal.SIGTERM))
    assert [one.detail for one in await LoopGroup(loops).run()] == ["SIGTERM", "SIGTERM"]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before

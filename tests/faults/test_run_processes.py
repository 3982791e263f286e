"""Programs' processes: sandboxes die with their host, and a host that closes nothing ends well and at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.faults.children import line, running, start

pytestmark = pytest.mark.faults

RUNNER = """
from holdfast import PythonRunner

async def tool(n: int) -> int:
    return n

def runner():
    return PythonRunner(SQLiteCheckpointStorage(path), tools=[tool], type_check=False)
"""

CLOSES_NOTHING = (
    RUNNER
    + """
async def main():
    many = [runner().run(f"a{n}", "await tool(1)", "call_1") for n in range(4)]
    print([result.output for result in await asyncio.gather(*many)], flush=True)
asyncio.run(main())
"""
)

ENDS_IN_A_TURN = (
    RUNNER
    + """
async def main():
    asyncio.ensure_future(runner().run("a", "await tool(1)\\nwhile True: pass", "call_1"))
    await asyncio.sleep(0.3)
asyncio.run(main())
print("over", flush=True)
"""
)

THREAD_IN_A_TURN = (
    RUNNER
    + """
import threading
def in_a_turn():
    asyncio.run(runner().run("a", "await tool(1)\\nwhile True: pass", "call_1"))
threading.Thread(target=in_a_turn, daemon=True).start()
import time
time.sleep(0.5)
print("over", flush=True)
"""
)

BUSY = (
    RUNNER
    + """
async def main():
    made = runner()
    asyncio.ensure_future(made.run("a", "await tool(1)\\nwhile True: pass", "call_1"))
    while not (seats := made._executor.seats._made) or seats[0].pid is None:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    print(seats[0].pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
)


@pytest.mark.parametrize("program", [CLOSES_NOTHING, ENDS_IN_A_TURN, THREAD_IN_A_TURN])
def test_a_program_that_closes_nothing_ends_with_0_and_at_once(tmp_path, program):
    """Several at a time: an abort of the interpreter shows under load."""
    for _ in range(3):
        children = [start(program, tmp_path / f"{time.monotonic_ns()}.db") for _ in range(4)]
        for child in children:
            out, _ = child.communicate(timeout=15)
            assert child.returncode == 0, out


def test_a_sandbox_dies_with_its_host(tmp_path):
    with running(BUSY, tmp_path / "store.db") as child:
        pid = int(line(child))
        assert computes(pid)
        child.kill()
        child.wait()
        deadline = time.monotonic() + 10
        while computes(pid):
            assert time.monotonic() < deadline, f"the sandbox {pid} computes on"
            time.sleep(0.05)


def computes(pid: int) -> bool:
    """Whether a process is there and more than a zombie that nobody has waited for."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

"""Programs made to do harm: each comes to a clear result, which is kept, and leaves a store that verifies."""

import asyncio
import json
from collections import Counter

import pytest

from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.limits import Limits
from holdfast.durable.runs.runner import PythonRunner
from holdfast.durable.transfer import export_lines, parse_lines
from holdfast.history import codec
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.report import LONG, tell

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

SMALL = Limits(
    turn_seconds_max=1.0, memory_bytes_max=64 << 20, recursion_depth_max=200, suspensions_max=2000,
    tool_calls_max=100, print_bytes_max=100_000, result_bytes_max=100_000, value_bytes_max=100_000, crashes_max=2,
)  # fmt: skip

QUICK = {
    "nothing": "",
    "a comment": "# nothing",
    "no Python": "this is no Python",
    "a NUL": "1\0",
    "a lone surrogate in the code": "x = '\ud800'\nx",
    "brackets without end": "(" * 50_000,
    "nested deep": "[" * 500 + "]" * 500,
    "signs without end": "-" * 20_000 + "1",
    "a long program": "x = 1\n" * 50_000 + "x",
    "a long name": f"{'n' * 100_000} = 1\n{'n' * 100_000}",
    "odd names": "\u00aa = 1\n\u210c = 2\n__class__ = 3\n[\u00aa, \u210c, __class__]",
    "ten to the 5000th": "10 ** 5000",
    "its digits": "str(10 ** 5000)",
    "a number read from text": "int('9' * 10000)",
    "a tower of powers": "2 ** 2 ** 2 ** 2 ** 2 ** 2",
    "a shift without end": "1 << (1 << 60)",
    "a large text": "'x' * 10 ** 7",
    "a text of a terabyte": "'x' * 10 ** 12",
    "a list of a terabyte": "[0] * 10 ** 12",
    "bytes of a terabyte": "bytes(10 ** 12)",
    "a wide format": "'{:>100000000000}'.format(1)",
    "a wide percent": "'%100000000000d' % 1",
    "a range as a list": "list(range(10 ** 18))",
    "a range": "range(10 ** 30)",
    "a list in itself": "a = []\na.append(a)\na",
    "a dict in itself": "a = {}\na['a'] = a\na",
    "a list ten thousand deep": "a = []\nfor _ in range(10000):\n    a = [a]\na",
    "lists that share themselves": "a = [0]\nfor _ in range(60):\n    a = [a, a]\na",
    "a recursion": "def f():\n    return f()\nf()",
    "a recursion in two": "def f(): return g()\ndef g(): return f()\nf()",
    "a generator": "(x for x in range(3))",
    "a yield": "def f():\n    yield 1\nlist(f())",
    "a function": "def f(): pass\nf",
    "a lambda": "lambda: 1",
    "a class": "class A: pass\nA",
    "an instance": "class A:\n    def __init__(self):\n        self.a = self\nA()",
    "a repr that raises": "class A:\n    def __repr__(self):\n        raise ValueError('no')\nrepr(A())",
    "an error that raises": "class E(Exception):\n    def __str__(self):\n        raise ValueError('no')\nraise E()",
    "an error as a value": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    x = e\nx",
    "an error with a large message": "raise ValueError('x' * 10 ** 6)",
    "an error with a lone surrogate": "raise ValueError('\\ud800')",
    "an exit": "raise SystemExit(3)",
    "an interrupt": "raise KeyboardInterrupt()",
    "out of memory": "raise MemoryError()",
    "an assertion": "assert False, [1, {2: 3}]",
    "a lone surrogate": "'\\ud800'",
    "a printed surrogate": "print('\\ud800\\x00\\x1b[2J')",
    "floats": "[float('nan'), float('inf'), -0.0, 5e-324]",
    "a set with NaN": "{float('nan'), float('nan')}",
    "odd keys": "{(1, 2): 3, None: 4, float('nan'): 5, b'x': 6, True: 7, 1.5: 8}",
    "an import": "import os\nos.system('true')",
    "a dunder import": "__import__('os')",
    "an eval": "eval('1')",
    "an exec": "exec('x = 1')",
    "a file": "open('/etc/passwd').read()",
    "a path": "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "the way up": "().__class__.__bases__[0].__subclasses__()",
    "globals": "globals()",
    "the environment": "import os\nos.environ['PATH']",
    "much chance": "import os\nlen(os.urandom(10 ** 12))",
    "a call of nothing": "nothing(1)",
    "too few arguments": "await echo()",
    "too many": "await echo(1, 2, 3)",
    "an odd argument": "await echo(**{'': 1})",
    "an argument with a NUL": "await echo(**{'\\x00': 1})",
    "an argument twice": "await echo(1, value=2)",
    "a tool for an argument": "await echo(echo)",
    "a large argument": "await echo('x' * 10 ** 6)",
    "a large number": "await echo(10 ** 5000)",
    "a deep argument": "a = []\nfor _ in range(5000):\n    a = [a]\nawait echo(a)",
    "an argument in itself": "a = []\na.append(a)\nawait echo(a)",
    "a surrogate for an argument": "await echo('\\ud800')",
    "a tool that is another thing": "echo = 3\nawait echo(1)",
    "a tool that is not awaited": "echo(1)\n2",
    "a tool awaited twice": "a = echo(1)\n[await a, await a]",
    "an awaited number": "await 3",
    "calls without end": "while True:\n    await echo(1)",
    "many at once": "import asyncio\nlen(await asyncio.gather(*[echo(n) for n in range(500)]))",
    "errors caught without end": "while True:\n    try:\n        await fail()\n    except Exception:\n        pass",
    "a tool that raises oddly": "await odd()",
    "a tool that returns much": "await much()",
    "a tool that returns itself": "await itself()",
    "sleeps to the past": "import time\ntime.sleep(-1)",
    "sleeps for no number": "import time\ntime.sleep(float('nan'))",
    "the clock without end": "import time\nwhile True:\n    time.time()",
    "prints": "for n in range(10 ** 6):\n    print('x' * 1000)",
    "one large print": "print('x' * 10 ** 6)",
    "prints of nothing": "for n in range(10 ** 5):\n    print(end='')",
    "a comparison in circles": "a = []\na.append(a)\nb = []\nb.append(b)\na == b",
    "a sort that lies": "class A:\n    def __lt__(self, other):\n        return True\n"
    "sorted([A() for _ in range(100)])",
}
SLOW = {  # each takes its second
    "a loop without end": "while True:\n    pass",
    "a loop that catches all": "while True:\n    try:\n        while True:\n            pass\n"
    "    except BaseException:\n        pass",
    "a sum without end": "sum(range(10 ** 15))",
    "memory without end": "a = []\nwhile True:\n    a.append('x' * 1000 + str(len(a)))",
    "a regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "a loop after a call": "await echo(1)\nwhile True:\n    pass",
    "keys that collide": "{n * (2 ** 61 - 1): n for n in range(10 ** 6)}",
    "doubled without end": "a = 'x'\nwhile True:\n    a = a + a",
}  # fmt: skip


def tools(made):
    async def echo(value):
        made[current_call().agent_id] += 1
        return value

    def fail():
        made[current_call().agent_id] += 1
        raise ValueError("no")

    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("not even that")

        __repr__ = __str__

    def odd():
        raise Odd

    def much():
        return "x" * 10**6

    def itself():
        found = {}
        found["self"] = [found]
        return found

    return [echo, fail, odd, much, itself]


async def all_end_clearly(store, programs):
    made = Counter()
    runner = PythonRunner(store, tools=tools(made), limits=SMALL, type_check=False, workers=2)
    names = list(programs)
    results = await asyncio.gather(
        *(runner.run(name, programs[name], "call_1") for name in names), return_exceptions=True
    )
    outcomes = Counter()
    for name, result in zip(names, results, strict=True):
        if isinstance(result, BaseException):
            outcomes["raised in the host"] += 1
            continue
        assert result.status == "complete", (name, result)
        assert isinstance(result.print_output, str), name
        assert (result.error is None) == (not result.is_error), name
        assert result.error is None or (isinstance(result.error, str) and result.error), name
        assert len(result.print_output.encode("utf-8", "surrogatepass")) <= SMALL.print_bytes_max, name
        assert made[name] <= SMALL.tool_calls_max, name
        assert result.tool_call_count <= SMALL.suspensions_max, "a refused call is recorded too, until that limit"
        again = await runner.run(name, programs[name], "call_1")
        assert codec.encode([again.output, again.error]) == codec.encode([result.output, result.error]), name
        lines = await export_lines(store, name)
        assert len(parse_lines(lines)) == len(lines)
        assert all(json.loads(line) for line in lines)
        outcomes["ended in an error" if result.is_error else "ended with a value"] += 1
    assert await store.pending("run") == []
    # And the same sandboxes go on to serve others.
    assert (await runner.run("after", "await echo(7)", "call_1")).output == 7
    report = await store.verify()
    assert report.ok, report.damaged
    await runner.close()
    return outcomes


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_hostile_program_comes_to_a_clear_result_and_leaves_a_whole_store(tmp_path):
    outcomes = await all_end_clearly(SQLiteCheckpointStorage(tmp_path / "store.db"), QUICK)
    tell("Hostile programs", WHAT, programs=len(QUICK), **figures(outcomes))
    assert outcomes["raised in the host"] == 0
    assert outcomes["ended in an error"]
    assert outcomes["ended with a value"]


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_program_without_end_is_ended_by_its_limits(tmp_path):
    programs = SLOW if LONG else {name: SLOW[name] for name in ("a loop that catches all", "doubled without end")}
    outcomes = await all_end_clearly(SQLiteCheckpointStorage(tmp_path / "store.db"), programs)
    tell("Hostile programs without end", WHAT, programs=len(programs), **figures(outcomes))
    assert outcomes["raised in the host"] == 0
    assert outcomes["ended in an error"] >= 2


WHAT = "Each is run, asked for again, exported, and its store verified."


def figures(outcomes):
    return {"raised in the host": outcomes["raised in the host"], **outcomes}

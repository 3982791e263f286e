"""`holdfast run`: what is printed where, what the same command does again, and what is refused."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdfast import SQLiteCheckpointStorage
from tests.unit.cli.conftest import BOOK, TOOLS

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

BOOK_WITH = ("run", "book.py", "--tools", "tools.py")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def paid():
    return Path("paid.txt").read_text().split("\n")[:-1] if Path("paid.txt").exists() else []


def test_a_program_prints_its_output_and_then_the_value_of_its_last_expression(holdfast, programs):
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.out) == (0, "looking\npaid Rome Ritz\npaid Rome Plaza\nrefused: full\nbooked\n")
    assert ran.err == "note: checkpoints.db is a new store\n"
    assert paid() == ["Rome Ritz", "Rome Plaza"]


def test_the_same_command_again_shows_the_recorded_result_and_does_nothing(holdfast, programs):
    first = holdfast(*BOOK_WITH)
    again = holdfast(*BOOK_WITH)
    assert (again.code, again.out) == (0, first.out)
    assert again.err == snapshot("""\
note: Run book was finished before; this is its recorded result
hint: Another --id runs the program from its beginning.
""")
    assert len(paid()) == 2
    assert holdfast(*BOOK_WITH, "--id", "second").code == 0
    assert len(paid()) == 4


def test_a_run_that_was_left_behind_goes_on_and_prints_all_that_it_prints(holdfast, programs, left_behind):
    left_behind(BOOK, "book", "book")
    ran = holdfast(*BOOK_WITH)
    assert ran.code == 1
    assert ran.out == "looking\n"
    assert ran.err == snapshot("""\
note: Run book goes on after 2 calls
Traceback (most recent call last):
  File "book.py", line 3, in <module>
    print(await pay(hotel))
          ~~~~~~~~~~~~~~~~
RuntimeError: Process was restarted
note: Run book ended with this error, which is recorded
hint: A call was cut short: a tool whose calls may be repeated can say Tool(function, on_restart='retry').
""")
    assert paid() == []


def test_a_tool_that_may_be_repeated_is_called_again(holdfast, programs, left_behind):
    left_behind(BOOK, "book", "book")
    programs(tools="from holdfast import Tool\n" + TOOLS + "\npay = Tool(pay, on_restart='retry')\n")
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.out) == (0, "looking\npaid Rome\nrefused: full\nbooked\n")
    assert paid() == ["Rome"]


def test_a_run_whose_host_died_three_times_is_parked(holdfast, programs, left_behind):
    programs(
        book="await pay('x')", tools="from holdfast import Tool\n" + TOOLS + "\npay = Tool(pay, on_restart='retry')"
    )
    left_behind("await pay('x')", "book", "book")
    for _ in range(2):
        left_behind("await pay('x')", "book", "book", retried=True)
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.err.splitlines()[-1]) == (
        6, "hint: `holdfast trace book` shows where; `holdfast resume book --tools tools.py --again` tries once more.",
    )  # fmt: skip
    assert holdfast("resume", "book", "--tools", "tools.py", "--again").code == 0
    assert paid() == ["x"]


def test_a_run_with_another_text_is_refused_and_told_how_to_begin_anew(holdfast, programs):
    holdfast(*BOOK_WITH)
    programs(book=BOOK.replace("Rome", "Paris"))
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == snapshot("""\
error: Run book of agent book is finished, with another text than this program has now
hint: --id book-2 runs this program from its beginning; `holdfast trace book` shows the other.
""")
    assert len(paid()) == 2
    assert holdfast(*BOOK_WITH, "--id", "book-2").code == 0
    assert paid()[2:] == ["Paris Ritz", "Paris Plaza"]


def test_a_program_that_failed_before_it_did_anything_is_mended_and_run(holdfast, programs):
    programs(book="pay(7)")
    slip = holdfast(*BOOK_WITH)
    assert slip.code == 1
    assert "Argument to function `pay` is incorrect" in slip.err
    assert slip.err.endswith("hint: It called no tool: mend the program, and the same command runs it.\n")
    programs(book="await pay('x')")
    assert (holdfast(*BOOK_WITH).out, holdfast(*BOOK_WITH).out) == ("paid x\n", "paid x\n")
    assert paid() == ["x"]
    assert holdfast(*BOOK_WITH, "--id", "book").code == 1  # who names a run means that one


def test_a_run_that_was_stopped_before_its_first_call_begins_anew(holdfast, programs, left_behind):
    programs(book="1 + 1")
    asyncio.run(_begun_only(Path("checkpoints.db")))
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.out) == (0, "2\n")
    assert ran.err.startswith("note: Run book was stopped before its first call; the program begins anew")
    assert holdfast(*BOOK_WITH).out == "2\n"


async def _begun_only(path):
    from holdfast.history.records import RlmStart
    from holdfast.storage.protocol import Change

    store = SQLiteCheckpointStorage(path)
    start = RlmStart(tool_call_id="book", code="1 + 1")
    await store.commit(Change(agent_id="book", user_id="ada", records=(start,)))
    await store.close()


def test_a_programs_own_error_ends_with_1_and_its_traceback(holdfast, programs):
    programs(book="def fail():\n    refuse()\nprint('before')\nfail()")
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.out) == (1, "before\n")
    assert ran.err == snapshot("""\
note: checkpoints.db is a new store
Traceback (most recent call last):
  File "book.py", line 4, in <module>
    fail()
    ~~~~~~
  File "book.py", line 2, in fail
    refuse()
    ~~~~~~~~
ValueError: full
note: Run book ended with this error, which is recorded
hint: Another --id runs the program from its beginning.
""")


def test_json_is_one_document_whatever_the_tools_print(holdfast, programs):
    programs(
        tools="def find(city: str) -> tuple:\n    print('on the side')\n    return (city,)",
        book="print(1)\nfind('Rome')",
    )
    ran = holdfast(*BOOK_WITH, "--json")
    assert json.loads(ran.out) == snapshot(
        {
            "agent_id": "book",
            "tool_call_id": "book",
            "state": "finished",
            "recovered": False,
            "tool_call_count": 1,
            "output": {"$tuple": ["Rome"]},
            "print_output": "1\n",
            "is_error": False,
            "error": None,
            "session": None,
            "was_finished": False,
        }
    )
    assert "on the side\n" in ran.err


def test_at_a_terminal_each_call_is_a_line(holdfast, programs, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    assert holdfast(*BOOK_WITH).code == 0
    lines = terminal.getvalue().replace("\r\x1b[K", "").split("\n")
    assert [line.rpartition("…")[2] or line for line in lines] == snapshot(
        [
            "note: checkpoints.db is a new store",
            '#1   find(city="Rome") = ["Rome Ritz", "Rome Plaza"]',
            '#2   pay(hotel="Rome Ritz") = "paid Rome Ritz"',
            '#3   pay(hotel="Rome Plaza") = "paid Rome Plaza"',
            "#4   refuse() ! ValueError: full",
            "",
        ]
    )
    assert max(map(len, lines)) < 60 * 2


def test_what_a_program_prints_moves_no_cursor_at_a_terminal_and_is_untouched_on_a_pipe(
    holdfast, programs, monkeypatch
):
    programs(book=r"print('a\x1b[2Jb\tc\r')" + "\nfind('Rome')")
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        holdfast(*BOOK_WITH)
    assert terminal.getvalue().startswith("a\\x1b[2Jb\tc\\r\n")
    assert holdfast(*BOOK_WITH).out.startswith("a\x1b[2Jb\tc\r\n")


def test_a_reader_that_has_seen_enough_does_not_stop_the_program(programs, tmp_path):
    programs(book="for n in range(300):\n    print('x' * 1000)\n    find('Rome')\nawait pay('last')")
    ran = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *BOOK_WITH], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert ran.stdout.readline() == "x" * 1000 + "\n"
    ran.stdout.close()
    with ran.stderr:
        assert ran.stderr.read() == "note: checkpoints.db is a new store\n"
    assert ran.wait() == 0
    assert paid() == ["last"]


def test_a_session_goes_on_from_the_variables_of_the_one_before(holdfast, programs):
    programs(first="hotels = find('Rome')", second="hotels[0]")
    of = ("--tools", "tools.py", "--agent", "trip", "--session", "s")
    holdfast("run", "first.py", *of)
    assert holdfast("run", "second.py", *of).out == "Rome Ritz\n"
    other = holdfast("run", "second.py", *of, "--session", "other")
    assert (other.code, other.err.splitlines()[0]) == (
        1, "error: Run second of agent trip is finished, with the session s",
    )  # fmt: skip


def test_folders_and_variables_are_seen_only_when_they_are_given(holdfast, programs, monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("content")
    monkeypatch.setenv("CITY", "Rome")
    programs(
        see="import os\nfrom pathlib import Path\nfind('x')\n"
        "(os.getenv('CITY'), os.getenv('LAND'), Path('/data/a.txt').read_text())",
        write="from pathlib import Path\nfind('x')\nPath('/out/b.txt').write_text('made')",
    )
    of = ("--tools", "tools.py")
    ran = holdfast("run", "see.py", *of, "--env", "CITY", "--env", "LAND=IT", "--mount", "/data=data")
    assert ran.out == "('Rome', 'IT', 'content')\n"
    assert holdfast("run", "see.py", *of, "--id", "blind").code == 1
    assert holdfast("run", "write.py", *of, "--mount", "/out=data").code == 1
    assert holdfast("run", "write.py", *of, "--mount", "/out=data:rw", "--id", "w").code == 0
    assert (tmp_path / "data" / "b.txt").read_text() == "made"


RECONCILED = """
from holdfast import Tool
def a(): ...
def was(c): ...
t = Tool(a, name='z', on_restart='reconcile', reconcile=was)
def b(): ...
"""
WRAPPED = """
import functools
def wrap(f):
    @functools.wraps(f)
    def w(*a): return f(*a)
    return w
@functools.lru_cache
def a(): ...
@wrap
def b(): ...
TOOLS = (a, b)
"""
POSTPONED = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class D:
    x: int
def a(d: D) -> D: ...
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def a(): ...\ndef _b(): ...\nfrom os.path import join\nclass C: ...\nx = 5", ["a"]),
        (RECONCILED, ["z", "b"]),
        ("def a(): ...\ndef b(): ...\nTOOLS = [b]", ["b"]),
        ("def a(): ...\nb = a", ["a"]),
        (WRAPPED, ["a", "b"]), (WRAPPED.replace("TOOLS", "_all"), ["a", "b", "wrap"]),
        ("import neighbour\ndef a() -> neighbour.N: ...", ["a"]),
        (POSTPONED, ["a"]),
    ],
)  # fmt: skip
def test_the_tools_are_the_list_or_the_public_functions_and_tool_objects(programs, tmp_path, text, names):
    from holdfast.cli.toolsfile import tools_of

    programs(mine=text, neighbour="class N: ...")
    assert sorted(tool.name for tool in tools_of(tmp_path / "mine.py")) == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["bok.py", "--tools", "tools.py"], "There is no file bok.py\nhint: Did you mean book.py?"),
        ([".", "--tools", "tools.py"], ". is a directory\nhint: Name the file of a program."),
        (["torn.py", "--tools", "tools.py"], "torn.py, line 2: SyntaxError: '(' was never closed\nhint: Nothing"),
        (["bits.py", "--tools", "tools.py"], "bits.py is no text: invalid or missing encoding declaration"),
        (["book.py", "--tools", "tols.py"], "There is no file tols.py\nhint: Did you mean tools.py?"),
        (["book.py", "--tools", "."], ". is a directory\nhint: Name the file of the tools."),
        (["book.py", "--tools", "none.py"], "none.py has no tools\nhint: Write a function into it"),
        (["book.py", "--tools", "torn.py"], "torn.py, line 2: SyntaxError"),
        (["book.py", "--tools", "missing.py"], "missing.py, line 2: ModuleNotFoundError: No module named 'reqests'"),
        (["book.py", "--tools", "over.py"], "over.py, line 1 (in "),
        (["book.py", "--tools", "ends.py"], "ends.py, line 1: SystemExit: 3"),
        (["book.py", "--tools", "number.py"], "TOOLS in number.py is int and no list"),
        (["book.py", "--tools", "builtin.py"], "builtin.py: The name 'print' means something else"),
        (["book.py", "--tools", "twice.py"], "twice.py: Two tools have the name 'a'"),
        (["book.py", "--tools", "tools.py", "--mount", "data"], "--mount data names no path and folder"),
        (["book.py", "--tools", "tools.py", "--mount", "/d=data"], "There is no folder data"),
        (["book.py", "--tools", "tools.py", "--env", "CTIY"], "The environment has no variable CTIY"),
        (["book.py", "--tools", "tools.py", "--store", "."], ". is a folder of checkpoint files, which"),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_one_error_and_begins_nothing(holdfast, programs, tmp_path, arguments, error):
    (tmp_path / "bits.py").write_bytes(b"\xff\xfe")
    programs(
        torn="x = 1\ny = (", none="x = 1", missing="x = 1\nimport reqests", over="import missing",
        ends="raise SystemExit(3)", number="TOOLS = 5", builtin="def print(): ...",
        twice="def a(): ...\nTOOLS = [a, a]",
    )  # fmt: skip
    ran = holdfast("run", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {error}")
    assert ran.err.count("\n") <= 2
    assert not Path("checkpoints.db").exists()
    assert not {"missing", "ends"} & set(sys.modules)  # a file that failed is no module


def test_without_the_sandbox_it_is_said_how_to_install_it(holdfast, programs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    ran = holdfast(*BOOK_WITH)
    assert (ran.code, ran.err) == snapshot(
        (
            1,
            """\
error: run_python needs pydantic-monty, which is not installed
hint: pip install 'holdfast[python]'
""",
        )
    )
    assert not Path("checkpoints.db").exists()

"""`holdfast trace`: the program, where it stands, and every call with its answer."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdfast import SQLiteCheckpointStorage
from holdfast.cli import output
from tests.unit.cli.conftest import BOOK, timeless

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

BOOK_WITH = ("run", "book.py", "--tools", "tools.py")


def test_a_finished_run_is_drawn_with_all_that_it_did(holdfast, programs):
    holdfast(*BOOK_WITH)
    assert timeless(holdfast("trace", "book").out) == snapshot("""\
run      book of agent book
begun    <time>
state    finished, 4 calls

   1  print("looking")
   2  for hotel in find("Rome"):
   3      print(await pay(hotel))
   4  try:
   5      refuse()
   6  except ValueError as error:
   7      print("refused:", error)
   8  "booked"

      | looking
#1    find(city="Rome")  line 2
      = ["Rome Ritz", "Rome Plaza"]
#2    pay(hotel="Rome Ritz")  line 3
      = "paid Rome Ritz"
      | paid Rome Ritz
#3    pay(hotel="Rome Plaza")  line 3
      = "paid Rome Plaza"
      | paid Rome Plaza
#4    refuse()  line 5
      ! ValueError: full
      | refused: full

ended well
      = "booked"
""")


def test_a_pending_run_is_marked_where_it_waits(holdfast, left_behind):
    left_behind(BOOK)
    assert timeless(holdfast("trace", "trip").out) == snapshot("""\
run      trip of agent trip
begun    <time>
state    pending, 2 calls

   1  print("looking")
   2  for hotel in find("Rome"):
 > 3      print(await pay(hotel))
   4  try:
   5      refuse()
   6  except ValueError as error:
   7      print("refused:", error)
   8  "booked"

      | looking
#1    find(city="Rome")  line 2
      = ["Rome"]
#2    pay(hotel="Rome")  line 3
      … no answer is recorded
""")
    assert '#1    find(city="Rome")  line 2, snapshot\n' in holdfast("trace", "trip").out  # the first always has one
    found = json.loads(holdfast("trace", "trip", "--json").out)
    assert (found["state"], found["lines"]) == ("pending", [3])
    assert [(one["number"], one["tool"], one["answered"]) for one in found["calls"]] == [
        (1, "find", True), (2, "pay", False),
    ]  # fmt: skip


def test_restarts_attempts_and_sleeps_are_among_the_calls(holdfast, programs, left_behind):
    left_behind("import time\ntime.sleep(0.06)\nawait pay('x')", "book", "book")
    programs(
        book="import time\ntime.sleep(0.06)\nawait pay('x')",
        tools="from holdfast import Tool\nasync def pay(hotel: str) -> int: return 7\n"
        "TOOLS = [Tool(pay, on_restart='retry')]",
    )
    assert holdfast(*BOOK_WITH).code == 0
    assert timeless(holdfast("trace", "book").out) == snapshot("""\
run      book of agent book
begun    <time>
state    finished, 1 call

   1  import time
   2  time.sleep(0.06)
   3  await pay('x')

      sleep(0.06)  line 2
#1    pay(hotel="x")  line 3
      … no answer is recorded
--    the process was restarted
#1    pay(hotel="x")  line 3, attempt 2
      = 7

ended well
      = 7
""")
    [restart] = json.loads(holdfast("trace", "book", "--json").out)["restarts"]
    assert (restart["attempt"], restart["after_call"], restart["reason"]) == (1, 1, None)


def test_an_answer_that_came_after_a_restart_is_shown_after_it(holdfast, programs, left_behind):
    left_behind("await pay('x')", "book", "book")
    programs(book="await pay('x')")
    assert holdfast(*BOOK_WITH).code == 1
    assert timeless(holdfast("trace", "book").out) == snapshot("""\
run      book of agent book
begun    <time>
state    failed, 1 call

 ! 1  await pay('x')

#1    pay(hotel="x")  line 1
      … no answer is recorded
--    the process was restarted
#1    pay(hotel="x")  line 1
      ! RuntimeError: Process was restarted

ended with an error
      Traceback (most recent call last):
        File "<python-input-0>", line 1, in <module>
          await pay('x')
          ~~~~~~~~~~~~~~
      RuntimeError: Process was restarted
""")


def test_a_failed_run_is_marked_where_it_failed(holdfast, programs):
    programs(book="def fail():\n    refuse()\n\nfail()\n")
    holdfast(*BOOK_WITH)
    assert timeless(holdfast("trace", "book").out) == snapshot("""\
run      book of agent book
begun    <time>
state    failed, 1 call

   1  def fail():
 ! 2      refuse()
   3
   4  fail()

#1    refuse()  line 2
      ! ValueError: full

ended with an error
      Traceback (most recent call last):
        File "<python-input-0>", line 4, in <module>
          fail()
          ~~~~~~
        File "<python-input-0>", line 2, in fail
          refuse()
          ~~~~~~~~
      ValueError: full
""")


def test_long_runs_are_shortened_unless_full_is_asked_for(holdfast, programs):
    programs(
        book="for n in range(60):\n    print('x' * 200)\n    find('y' * 200)\n"
        "for n in range(9):\n    print(n)\nfind('z')"
    )
    holdfast(*BOOK_WITH)
    short = holdfast("trace", "book").out
    assert "… 21 more; --full shows them all" in short
    assert "… 3 more lines; --full shows them all" in short
    assert max(map(len, short.splitlines())) <= 100
    full = holdfast("trace", "book", "--full").out
    assert "more" not in full
    assert (full.count("#"), full.count("x" * 200), full.count(f'city="{"y" * 200}"')) == (61, 60, 60)


def test_at_a_terminal_every_line_fits(holdfast, programs, monkeypatch):
    programs(book="find('y' * 200)  # " + "a long comment " * 10 + "\nprint('x' * 200)\nrefuse()")
    holdfast(*BOOK_WITH)
    monkeypatch.setattr(output, "at_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(map(len, holdfast("trace", "book").out.splitlines())) <= 50


def test_what_is_shown_moves_no_cursor(holdfast, programs):
    programs(book=r"print('\x1b[2J'); find('\x1b[2J')  # " + "\x1b[2J", tools="def find(x: str): return x")
    holdfast(*BOOK_WITH)
    assert "\x1b" not in holdfast("trace", "book").out + holdfast("trace", "book", "--full").out
    assert "\x1b" not in holdfast("trace", "book", "--json").out


def test_a_read_only_copy_is_enough_and_no_snapshot_is_read(holdfast, programs, left_behind, monkeypatch):
    holdfast(*BOOK_WITH)
    left_behind(BOOK)
    expected = {name: holdfast("trace", name).out for name in ("book", "trip")}
    Path("copy").mkdir()
    for path in Path().glob("checkpoints.db*"):
        if path.is_file():
            shutil.copy(path, Path("copy") / path.name)
    for path in [*Path("copy").iterdir(), Path("copy")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    before = {path.name: path.read_bytes() for path in Path("copy").iterdir()}

    async def never(*_):
        raise AssertionError

    async def without_any(self, agent_id, *, snapshots=True, **options):
        assert not snapshots
        return await read(self, agent_id, snapshots=False, **options)

    read = SQLiteCheckpointStorage.read
    monkeypatch.setattr(SQLiteCheckpointStorage, "snapshot", never)
    monkeypatch.setattr(SQLiteCheckpointStorage, "read", without_any)
    for name, drawn in expected.items():
        assert holdfast("trace", name, "--store", "copy/checkpoints.db").out == drawn
    assert holdfast("runs", "--store", "copy/checkpoints.db").code == 0
    assert {path.name: path.read_bytes() for path in Path("copy").iterdir()} == before
    Path("copy").chmod(0o700)


def test_an_ambiguous_name_is_refused_and_told_how_to_name_it(holdfast, programs):
    holdfast(*BOOK_WITH)
    holdfast(*BOOK_WITH, "--agent", "other")
    ran = holdfast("trace", "book")
    assert (ran.code, ran.err) == snapshot(
        (
            1,
            """\
error: 2 agents have a run book: book, other
hint: Say whose: --agent book.
""",
        )
    )
    assert holdfast("trace", "book", "--agent", "other").out.startswith("run      book of agent other\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["trace", "bok"], "There is no run bok\nhint: Did you mean book?"),
        (["trace", "zzz"], "There is no run zzz\nhint: `holdfast runs` lists"),
        (["trace", "book", "--agent", "bok"], "There is no agent bok\nhint: Did you mean book?"),
        (["trace", "book", "--agent", "idle"], "Agent idle has no run book\nhint: Another agent has one"),
    ],
)
def test_an_unknown_run_is_answered_with_the_near_one(holdfast, programs, arguments, told):
    holdfast(*BOOK_WITH)
    programs(idle="1")
    holdfast("run", "idle.py", "--tools", "tools.py")
    ran = holdfast(*arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {told}")

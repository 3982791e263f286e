"""`holdfast fork`: another answer to one call, and what would have come of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.unit.cli.conftest import timeless

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

BOOK_WITH = ("run", "book.py", "--tools", "tools.py")


def paid():
    return Path("paid.txt").read_text().split("\n")[:-1]


def test_a_fork_is_answered_from_the_record_and_needs_no_tools(holdfast, programs):
    holdfast(*BOOK_WITH)
    ran = holdfast("fork", "book", "--at", 2, "--result", '"nothing paid"', "--agent", "what-if")
    assert (ran.code, ran.out) == (0, "looking\nnothing paid\npaid Rome Plaza\nrefused: full\nbooked\n")
    assert ran.err == snapshot("""\
note: The fork is agent what-if, and came to its end
hint: `holdfast trace book --agent what-if` shows it.
""")
    assert len(paid()) == 2
    assert "forked   from run book of agent book, at its call #2" in holdfast("trace", "book", "--agent", "what-if").out
    assert holdfast("trace", "book").out.startswith("run      book of agent book\n")  # not ambiguous


def test_a_fork_stops_where_nothing_is_recorded(holdfast, programs):
    holdfast(*BOOK_WITH)
    ran = holdfast("fork", "book", "--at", 1, "--result", '["Elsewhere"]')
    assert (ran.code, ran.out) == (1, "looking\n")
    assert timeless(ran.err) == snapshot("""\
The fork stopped before pay(), to which the original has no recorded answer
note: The fork is agent book-<id>
hint: With --tools FILE --live the real tools are called. `holdfast trace book --agent book-<id>` shows it.
""")


def test_a_live_fork_calls_the_real_tools(holdfast, programs):
    holdfast(*BOOK_WITH)
    ran = holdfast("fork", "book", "--at", 1, "--result", '["Elsewhere"]', "--live", "--tools", "tools.py")
    assert (ran.code, ran.out) == (0, "looking\npaid Elsewhere\nrefused: full\nbooked\n")
    assert paid()[2:] == ["Elsewhere"]


def test_a_fork_can_be_answered_with_an_exception(holdfast, programs):
    holdfast(*BOOK_WITH)
    ran = holdfast("fork", "book", "--at", 4, "--exception", "ValueError: no, really: no", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["at"], found["output"]) == (0, 4, "booked")
    assert found["print_output"].endswith("refused: no, really: no\n")


def test_exact_values_are_given_as_they_are_shown(holdfast, programs):
    programs(book="x = find('Rome')\n(type(x).__name__, x)", tools="def find(city: str): return (1, 2)")
    holdfast(*BOOK_WITH)
    assert holdfast("fork", "book", "--at", 1, "--result", '{"$tuple": [3]}').out == "('tuple', (3,))\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["book", "--at", "1"], 2, "A fork needs another answer: either --result or --exception"),
        (["book", "--at", "1", "--result", "1", "--exception", "ValueError: x"], 2, "A fork needs another answer"),
        (["book", "--result", "1"], 2, "Missing option '--at'"),
        (["book", "--at", "0", "--result", "1"], 2, "Invalid value for '--at'"),
        (["book", "--at", "9", "--result", "1"], 1, "Run book has 4 tool calls, there is none numbered 9"),
        (["book", "--at", "1", "--result", "paid"], 1, "--result is no JSON: "),
        (["book", "--at", "1", "--result", '{"$tuple": 5}'], 1, "--result is no value: "),
        (["book", "--at", "1", "--exception", "ValueErr: x"], 1,
         "Programs know no exception 'ValueErr'\nhint: Did you mean ValueError?"),
        (["book", "--at", "1", "--exception", "x"], 1, "Programs know no exception 'x'"),
        (["book", "--at", "1", "--result", "1", "--live"], 2, "--live needs the real tools: --tools FILE"),
        (["bok", "--at", "1", "--result", "1"], 1, "There is no run bok\nhint: Did you mean book?"),
        (["book", "--at", "1", "--result", "1", "--agent", "book"], 1, "There is an agent book already"),
        (["book", "--at", "1", "--result", "1", "--source-agent", "bok"], 1,
         "There is no agent bok\nhint: Did you mean book?"),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_one_error(holdfast, programs, arguments, code, told):
    holdfast(*BOOK_WITH)
    ran = holdfast("fork", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"error: {told}")
    assert ran.err.count("\n") <= 2
    assert len(holdfast("agents").out.splitlines()) == 2


def test_of_two_runs_of_one_name_one_must_be_named(holdfast, programs):
    holdfast(*BOOK_WITH)
    holdfast(*BOOK_WITH, "--agent", "other")
    ran = holdfast("fork", "book", "--at", 1, "--result", "[]")
    assert (ran.code, ran.err) == snapshot(
        (
            1,
            """\
error: 2 agents have a run book: book, other
hint: Say whose: --source-agent book.
""",
        )
    )
    assert holdfast("fork", "book", "--at", 1, "--result", "[]", "--source-agent", "other").code == 0

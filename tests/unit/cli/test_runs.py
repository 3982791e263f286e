"""`holdfast runs`: which programs were run, and how each stands."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from tests.unit.cli.conftest import BOOK, timeless

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")


def test_each_run_has_its_state_and_its_calls(holdfast, programs, left_behind):
    programs(fails="find('x')\n1 / 0")
    holdfast("run", "book.py", "--tools", "tools.py")
    holdfast("run", "fails.py", "--tools", "tools.py", "--agent", "book")
    left_behind(BOOK, "trip", "call_1", session="talk")
    assert timeless(holdfast("runs").out) == snapshot("""\
RUN     AGENT  BEGUN                     STATE     CALLS  SESSION
call_1  trip   <time>  pending   2      talk
fails   book   <time>  failed    1      -
book    book   <time>  finished  4      -
""")
    assert [one["tool_call_id"] for one in json.loads(holdfast("runs", "--pending", "--json").out)] == ["call_1"]
    assert [one["tool_call_id"] for one in json.loads(holdfast("runs", "--limit", 2, "--json").out)] == [
        "call_1", "fails",
    ]  # fmt: skip
    assert json.loads(timeless(holdfast("runs", "--agent", "book", "--json").out))[1] == snapshot(
        {
            "agent_id": "book",
            "tool_call_id": "book",
            "user_id": "default",
            "session": None,
            "state": "finished",
            "begun": "<time>",
            "tool_call_count": 4,
            "forked_from": None,
        }
    )


def test_a_run_that_diverges_is_parked(holdfast, programs, left_behind):
    left_behind(BOOK)
    holdfast_parks(holdfast, programs)
    assert json.loads(holdfast("runs", "--json").out)[0]["state"] == "parked"
    assert json.loads(holdfast("runs", "--pending", "--json").out)[0]["state"] == "parked"


def holdfast_parks(holdfast, programs):
    """Goes on with tools whose parameters have other names, so that the recorded calls are not repeated."""
    programs(
        tools="def find(town: str) -> list:\n    return []\n"
        "async def pay(hotel: str) -> str:\n    return ''\ndef refuse(): ..."
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.durable.runs.log.RunLog.snapshots", lambda _: [])
        ran = holdfast("resume", "--tools", "tools.py")
    assert ran.code == 6
    return ran


def test_that_there_is_none_is_said(holdfast, ids):
    assert holdfast("runs", "--agent", "bob's").out == "No program was run here.\n"
    assert holdfast("runs", "--agent", "bob's", "--pending").out == "No run is pending here.\n"
    assert holdfast("runs", "--agent", "bob").err == snapshot("""\
error: There is no agent bob
hint: Did you mean bob's?
""")

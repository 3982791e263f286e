"""The demo: what it shows happened."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.demo_agent import STEPS

pytestmark = [pytest.mark.blocks_the_loop("a command has the loop to itself"), pytest.mark.slow]


def test_the_demo_kills_goes_on_and_branches(holdfast):
    told = json.loads(holdfast("demo", "--keep", "kept", "--json").out)
    assert told["killed"]["signal"] == "SIGKILL"
    assert told["verified"] == {"checkpoints": len(told["killed"]["saved"]), "damaged": 0}
    assert told["went_on"]["from_step"] == told["killed"]["in_step"]
    assert (told["went_on"]["status"], told["went_on"]["twice"]) == ("COMPLETED", 0)
    assert told["went_on"]["tool_calls"] == sum(name != "ask" for name, _ in STEPS)
    assert told["sizes"]["json_bytes"] > 10 * told["sizes"]["store_bytes"]
    found = json.loads(holdfast("log", "--store", told["store"], "--json").out)
    assert [one["id"] for one in reversed(found)][: len(told["killed"]["saved"])] == told["killed"]["saved"]
    parents = [one["parent_checkpoint_id"] for one in found]
    assert max(map(parents.count, filter(None, parents))) == 2
    assert holdfast("verify", "--store", told["store"]).code == 0


def test_the_demo_tells_its_story_on_one_screen_and_keeps_nothing_unasked(holdfast, tmp_path):
    ran = holdfast("demo")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert len(lines) <= 50
    assert [line[0] for line in lines if line[:2].endswith(".")] == list("1234567")
    assert list(tmp_path.iterdir()) == []


def test_the_demo_leaves_a_store_that_is_there_alone(holdfast):
    assert holdfast("demo", "--keep", "kept").code == 0
    ran = holdfast("demo", "--keep", "kept")
    assert (ran.code, ran.out) == (1, "")

"""A model's conversation whose process is killed, after each record or anywhere: it comes to the same end."""

from __future__ import annotations

import pytest

from tests.faults.children import told_by
from tests.faults.report import tell, times

BOUNDARIES = times("HOLDFAST_MODEL_BOUNDARIES", short=3, long=1000)  # as many as there are
KILLS = times("HOLDFAST_MODEL_KILLS", short=4, long=100)

pytestmark = [pytest.mark.slow, pytest.mark.faults]


@pytest.mark.timeout(max(60, 10 * BOUNDARIES))
def test_a_killed_conversation_comes_to_the_same_end_with_every_effect_as_its_tool_promises(tmp_path):
    told = told_by("tests.faults.model_kills", tmp_path / "kills", "boundaries", BOUNDARIES)
    counts = told["counts"]
    tell(
        "kills, conversations at boundaries",
        "The process of a model's agent dies after each commit, and before each.",
        **_figures(told, "boundaries"),
    )
    assert told["broken"] == []
    assert counts["boundaries"] == min(BOUNDARIES, told["boundaries"])
    assert counts["kills"] >= counts["boundaries"] - 1  # after the last record there is no commit to die before


@pytest.mark.timeout(max(60, 10 * KILLS))
def test_a_conversation_that_is_killed_at_any_moment_comes_to_the_same_end(tmp_path):
    told = told_by("tests.faults.model_kills", tmp_path / "kills", "moments", KILLS)
    tell(
        "kills, conversations anywhere",
        "The process of a model's agent is killed at random moments until the conversation has come to its end.",
        **_figures(told, "conversations"),
    )
    assert told["broken"] == []
    assert told["counts"]["kills"] >= KILLS


@pytest.mark.timeout(120)
def test_the_harness_sees_a_models_call_that_was_made_before_its_record(tmp_path):
    """The control: without this precaution a call is made twice."""
    mutant = "a_models_call_is_made_before_its_record"
    told = told_by("tests.faults.model_kills", tmp_path / "kills", "boundaries", 1000, mutant)
    assert any("happened 2 times" in one for one in told["broken"]), told["broken"]


def _figures(told, of):
    counts = told["counts"]
    return {
        "kills": counts["kills"], of: counts[of], "calls": counts["calls"], "in_doubt": counts["in doubt"],
        "made_again_as_their_tool_says": counts.get("made again", 0), "made_twice": counts.get("made twice", 0),
        "lost": counts.get("lost", 0),
    }  # fmt: skip

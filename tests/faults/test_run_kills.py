"""Programs whose processes are killed with SIGKILL at random moments: no effect is lost, doubled or invented."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.faults.children import told_by, told_by_each
from tests.faults.report import tell, times

KILLS = times("HOLDFAST_RUN_KILLS", short=200, long=600)
WORKERS = 2

pytestmark = [pytest.mark.slow, pytest.mark.faults]


@pytest.mark.timeout(max(300, KILLS))
def test_killed_programs_come_to_their_ends_with_every_effect_once(tmp_path):
    told = told_by_each(
        [("tests.faults.run_kills", tmp_path, seed, KILLS // WORKERS) for seed in range(1, WORKERS + 1)]
    )
    found = sum((Counter(one["counts"]) for one in told), Counter())
    tell(
        "kills, programs",
        "Processes that run programs with effects are killed and recovered until every program has come to its end.",
        kills=found["killed"], programs=found["runs"], calls=found["calls"], in_doubt=found["in doubt"],
        made_again_as_their_tool_says=found["made again"], made_twice=found["calls made twice"],
        lost=found["results lost"],
    )  # fmt: skip
    assert [one for each in told for one in each["broken"]] == []
    assert found["killed"] >= KILLS // WORKERS * WORKERS
    assert found["runs"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        ("reconcile_is_never_asked", "was given up, which its tool does not want"),
        ("a_call_is_made_before_its_record", "happened 2 times|was made without its record"),
        ("a_result_is_told_before_its_record", "was called before the result of"),
        ("an_end_is_told_before_its_record", "was told, and is"),
    ],
)
def test_the_harness_sees_a_promise_to_programs_broken(tmp_path, mutant, found):
    """Controls: without the precaution, a few kills show it."""
    broken = told_by("tests.faults.run_kills", tmp_path, 1, 200, mutant)["broken"]
    assert any(re.search(found, one) for one in broken), broken[:5]

"""Training: loops put into runs, and the weights that are learned from them."""

from __future__ import annotations

import random

import pytest

from holdfast.drift.combination import Combination, train
from holdfast.drift.detector import DriftDetector
from holdfast.drift.forms import FORMS
from holdfast.drift.injection import HEALTHY, LOOPS, inject
from holdfast.drift.protocol import Event
from holdfast.drift.training import KINDS, learned
from holdfast.errors import InvalidArgument


def runs(count):
    return [[Event(action="work", arguments=(n, i), outcome=f"{n} {i}") for i in range(15)] for n in range(count)]


def alarms(detector, events):
    return [place for place, event in enumerate(events) if detector.observe(event)]


@pytest.mark.parametrize("kind", [*LOOPS, *HEALTHY])
def test_what_is_put_into_a_run_leaves_the_run_as_it_was_around_it(kind):
    chance = random.Random(1)
    for form in FORMS:
        [run] = runs(1)
        made = inject(run, kind, form, chance)
        assert [event for event in made.events if event in run] == run
        assert 0 <= made.begins < made.third < made.ends <= len(made.events)
        assert (made.kind, made.form) == (kind, form.name)


def test_the_same_chance_makes_the_same_loops():
    one, other = (inject(runs(1)[0], "volatile", FORMS[0], random.Random(5)) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("kind", LOOPS)
def test_every_kind_of_loop_is_found(kind, form):
    chance = random.Random(2)
    for run in runs(10):
        made = inject(run, kind, form, chance)
        found = alarms(DriftDetector(), made.events)
        assert found, made.events[made.begins]
        assert made.begins < found[0] < made.ends


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_work_that_looks_like_a_loop_is_left_alone(kind, form):
    chance = random.Random(3)
    for run in runs(10):
        assert alarms(DriftDetector(), inject(run, kind, form, chance).events) == []


def test_weights_follow_what_tells_drift():
    examples = [({"a": 1.0, "b": level}, True) for level in (0.0, 1.0)]
    examples += [({"a": 0.0, "b": level}, False) for level in (0.0, 1.0)]
    found = train(examples, ["a", "b"])
    assert found.weights["a"] > 5 * found.weights["b"]
    assert found.chance({"a": 1.0}) > 0.8
    assert found.chance({"b": 1.0}) < 0.2


def test_no_weight_speaks_against_drift():
    found = train([({"a": 0.0}, True), ({"a": 1.0}, False)], ["a"])
    assert found.weights["a"] == 0.0


def test_learning_takes_both_answers():
    with pytest.raises(InvalidArgument):
        train([({"a": 1.0}, True)], ["a"])


@pytest.mark.timeout(60)
def test_what_is_learned_from_runs_finds_loops_and_leaves_the_runs_alone():
    combination = learned(runs(20), FORMS, random.Random(1), count=120)
    assert set(combination.weights) == set(KINDS)
    again = Combination.from_dict(combination.to_dict())
    assert again == combination
    chance = random.Random(9)
    for kind in ("exact", "cycle_of_3", "near_errors"):
        made = inject(runs(1)[0], kind, FORMS[1], chance)
        assert alarms(DriftDetector(combination=combination), made.events)
    assert not any(alarms(DriftDetector(combination=combination), run) for run in runs(5))


@pytest.mark.parametrize(
    "plain", [None, [], {}, {"form": "other"}, {"form": "holdfast drift combination 1", "weights": 3}]
)
def test_what_is_no_combination_is_refused(plain):
    with pytest.raises(InvalidArgument):
        Combination.from_dict(plain)

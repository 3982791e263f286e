"""Counting: what is drift, what is not, and that a detector goes on where it was."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from itertools import cycle, islice

import pytest

from holdfast import InvalidArgument
from holdfast.drift.counting import CountingDetector, fingerprint
from holdfast.drift.protocol import Detector, Drift, Event


def feed(detector, *events):
    return [detector.observe(event) for event in events]


def only(**options):
    """A detector that counts one thing."""
    off = {"identical": None, "cycles": None, "error_rate": None, "stalled_events": None}
    return CountingDetector(**{**off, **options})


def steps(text, **fields):
    return [Event(action=letter, **fields) for letter in text]


def kinds(drifts):
    return [drift and drift.kind for drift in drifts]


def test_it_is_a_detector():
    assert isinstance(CountingDetector(), Detector)


def test_identical_events_in_a_row_are_drift_from_the_threshold_on():
    drifts = feed(only(identical=3), *steps("aaaab"))
    assert kinds(drifts) == [None, None, "repetition", "repetition", None]
    assert [drift.score for drift in drifts[2:4]] == [1.0, pytest.approx(4 / 3)]
    assert drifts[3].evidence == {"action": "a", "count": 4}
    assert "a was done 4 times" in drifts[3].reason


@pytest.mark.parametrize("field", ["arguments", "outcome", "error"])
def test_the_same_action_with_other_details_is_no_repetition(field):
    events = [Event(action="poll", **{field: f"{n}"}) for n in range(10)]
    assert kinds(feed(only(identical=3), *events)) == [None] * 10


def test_time_and_progress_do_not_make_an_event_another_one():
    events = [Event(action="poll", duration_seconds=n, progress=n) for n in range(3)]
    assert kinds(feed(only(identical=3), *events)) == [None, None, "repetition"]


@pytest.mark.parametrize("pattern", ["ab", "abc", "aab", "abcd"])
def test_a_pattern_that_goes_round_is_drift(pattern):
    detector = only(cycles=3, cycle_length_max=4)
    drifts = feed(detector, *islice(cycle(steps(pattern)), 3 * len(pattern)))
    assert kinds(drifts) == [None] * (3 * len(pattern) - 1) + ["cycle"]
    assert drifts[-1].evidence == {"actions": list(pattern), "count": 3}


@pytest.mark.parametrize("events", ["ababcabab", "aaaaaaaaaaaa", "abcdeabcdeabcde"])
def test_what_is_broken_of_one_kind_or_longer_than_the_longest_is_no_cycle(events):
    assert kinds(feed(only(cycles=3, cycle_length_max=4), *steps(events))) == [None] * len(events)


def test_errors_are_drift_when_enough_of_the_last_actions_failed():
    detector = only(error_rate=0.5, error_events=4)
    well, badly = Event(action="ok"), Event(action="try", error="refused")
    drifts = feed(detector, badly, badly, badly, well, well, well, badly)
    assert kinds(drifts) == [None, None, None, "errors", "errors", None, None]
    assert drifts[3].evidence == {"actions": ["try"] * 3, "rate": 0.75}
    assert drifts[3].score == 1.5


def test_progress_that_does_not_rise_is_drift():
    detector = only(stalled_events=3)
    drifts = feed(detector, *(Event(action="work", progress=progress) for progress in (0.1, 0.2, 0.2, 0.1, 0.2, 0.3)))
    assert kinds(drifts) == [None] * 4 + ["stalled", None]
    assert "0.2 for 3 events" in drifts[4].reason


def test_events_that_tell_no_progress_do_not_count_as_stalled():
    detector = only(stalled_events=2)
    assert kinds(feed(detector, Event(action="a", progress=0.5), *steps("bcdef"))) == [None] * 6


def test_of_several_the_strongest_is_told():
    detector = CountingDetector(identical=2, error_events=4, error_rate=1.0)
    drifts = feed(detector, *steps("aaaa", error="no"))
    assert (drifts[-1].kind, drifts[-1].score) == ("repetition", 2.0)


def test_by_default_a_few_repetitions_are_tolerated():
    assert kinds(feed(CountingDetector(), *steps("aaaabbbbabababcabcabc"))) == [None] * 21


def test_a_detector_goes_on_where_its_state_was_kept():
    events = [*steps("ababab", progress=0.1), *steps("abab", error="e e\nx")]
    for cut in range(len(events)):
        whole, first, second = (CountingDetector(cycles=3, stalled_events=4, error_events=4) for _ in range(3))
        feed(first, *events[:cut])
        second.restore(json.loads(json.dumps(first.state())))
        assert feed(whole, *events)[cut:] == feed(second, *events[cut:])


def test_an_empty_state_begins_anew():
    detector = only(identical=3, stalled_events=2)
    feed(detector, *steps("aa", progress=1))
    detector.restore({})
    assert kinds(feed(detector, *steps("aa", progress=1))) == [None, None]


def test_the_state_holds_no_contents_and_stays_small():
    detector = CountingDetector(window=20)
    feed(detector, *(Event(action="read", arguments="secret" * 1000, outcome=n) for n in range(100)))
    text = json.dumps(detector.state())
    assert "secret" not in text
    assert len(detector.state()["seen"]) == 20


def test_action_names_may_be_any_text():
    one, other = only(identical=2), only(identical=2)
    feed(one, Event(action="a b\nc"))
    other.restore(one.state())
    assert feed(other, Event(action="a b\nc"))[0].evidence["action"] == "a b\nc"


def test_fingerprints_do_not_mind_the_order_of_keys_but_mind_types():
    def of(arguments):
        return fingerprint(Event(action="a", arguments=arguments))

    assert of({"a": 1, "b": [2]}) == of({"b": [2], "a": 1})
    assert len({of(value) for value in (1, "1", 1.5, True, None, (1,), [1], {"a": 1})}) == 8
    assert of(object) == of(object), "what can't be kept is told by its repr"


@pytest.mark.parametrize("options", [{"window": 3}, {"identical": 1}, {"cycles": 1}, {"error_events": 50}])
def test_thresholds_that_cannot_be_counted_are_refused(options):
    with pytest.raises(InvalidArgument):
        CountingDetector(**options)


def test_events_and_drifts_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Event(action="a").action = "other"
    with pytest.raises(FrozenInstanceError):
        Drift(kind="k", score=1.0, reason="r").kind = "other"

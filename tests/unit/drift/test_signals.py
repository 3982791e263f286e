"""Signals: what each of them calls drift, from where on, and what it leaves alone."""

from __future__ import annotations

import random
from itertools import cycle, islice

import pytest

from holdfast.drift.cycles import Cycles
from holdfast.drift.detector import SIGNALS, DriftDetector
from holdfast.drift.errorrate import ErrorRate
from holdfast.drift.latency import Latency
from holdfast.drift.nearrepeats import NearRepeats
from holdfast.drift.noops import NoOps
from holdfast.drift.progress import Progress
from holdfast.drift.protocol import Event
from holdfast.drift.repetition import Repetition
from holdfast.drift.retracing import Retracing
from holdfast.drift.session import CycleCount, IdleTime, SessionAge
from holdfast.drift.stall import Stall


def only(kind, signal):
    """A detector with one signal."""
    return DriftDetector(**{**dict.fromkeys(SIGNALS), kind: signal})


def feed(detector, *events):
    return [detector.observe(event) for event in events]


def first(drifts):
    """The number of the first event with a drift."""
    return next((number for number, drift in enumerate(drifts, start=1) if drift), None)


def steps(text, **fields):
    return [Event(action=letter, **fields) for letter in text]


def work(count):
    return [Event(action="work", arguments=n, outcome=f"result {n}") for n in range(count)]


# --- repetition


def test_the_same_call_with_the_same_outcome_in_a_row_is_repetition():
    drifts = feed(only("repetition", Repetition(times=3)), *steps("aaab"))
    assert first(drifts) == 3
    assert drifts[3] is None
    assert drifts[2].reason == "a was done 3 times in a row with the same outcome"
    assert drifts[2].evidence == {"action": "a", "count": 3, "events": [1, 2, 3]}
    assert drifts[2].score == 1.0


def test_an_outcome_with_another_time_in_it_is_the_same():
    events = [Event(action="poll", outcome=f"waiting, 20:36:{n:02}") for n in range(4)]
    assert first(feed(only("repetition", Repetition()), *events)) == 4


@pytest.mark.parametrize("field", ["arguments", "outcome", "error"])
def test_the_same_action_with_other_details_is_no_repetition(field):
    events = [Event(action="poll", **{field: f"{n} of 10"}) for n in range(10)]
    assert first(feed(only("repetition", Repetition()), *events)) is None


def test_three_times_are_tolerated_by_default():
    assert first(feed(DriftDetector(), *steps("aaabcd"))) is None


# --- cycles


@pytest.mark.parametrize(
    ("pattern", "rounds"), [("a", 4), ("ab", 4), ("abc", 3), ("aab", 3), ("abcde", 3), ("abcdefgh", 3)]
)
def test_what_goes_round_is_a_cycle_however_long_it_is(pattern, rounds):
    drifts = feed(only("cycles", Cycles()), *islice(cycle(steps(pattern)), 10 * len(pattern)))
    assert len(pattern) * 2 - 1 <= first(drifts) <= len(pattern) * rounds


def test_a_call_that_comes_round_between_others_is_a_cycle_later():
    events = [event for new in work(10) for event in (Event(action="look", outcome="nothing"), new)]
    drifts = feed(only("cycles", Cycles()), *events)
    assert first(drifts) == 9
    assert drifts[8].reason == "look came round 5 times with the same outcome"
    assert drifts[8].evidence["events"] == [3, 5, 7, 9]


def test_what_went_round_long_ago_counts_no_more():
    drifts = feed(only("cycles", Cycles(events=10)), *steps("aaaa"), *work(10))
    assert [bool(drift) for drift in drifts[3:]] == [True] * 9 + [False] * 2


def test_two_interleaved_loops_add_up():
    detector = only("cycles", Cycles())
    drifts = feed(detector, *steps("axbyaxcybxaycx"))
    assert first(drifts) is not None
    assert "calls come round with the same outcomes, up to" in next(filter(None, drifts)).reason


def test_reading_everything_a_second_time_is_no_cycle():
    assert first(feed(DriftDetector(), *steps("abcdef" * 2))) is None


def test_a_check_that_always_passes_is_no_cycle_while_the_test_beside_it_changes():
    events = [
        event
        for n in range(20, 0, -1)
        for event in (
            Event(action="edit", arguments=n),
            Event(action="lint", outcome="all is well"),
            Event(action="test", error=f"{n} failed"),
        )
    ]
    assert first(feed(DriftDetector(), *events)) is None
    stuck = [Event(action=one.action, arguments=one.arguments, error=one.error and "3 failed") for one in events]
    assert first(feed(DriftDetector(), *stuck)) is not None


def test_explicit_progress_makes_repeats_harmless():
    assert first(feed(DriftDetector(), *(Event(action="a", progress=n / 100) for n in range(50)))) is None
    assert first(feed(DriftDetector(), *(Event(action="a", progress=0.1) for _ in range(50)))) == 4


# --- retracing


def test_going_back_to_one_thing_after_the_other_is_retracing():
    new = iter(work(100))
    events = [event for letter in "abcabcabc" for event in (Event(action=letter), next(new), next(new))]
    drifts = feed(only("retracing", Retracing()), *events)
    assert first(drifts) == 22
    assert drifts[21].reason == "3 different calls were made again within 40 events, with the same outcomes"


def test_one_call_that_comes_back_after_every_change_is_no_retracing():
    events = [event for new in work(50) for event in (Event(action="test", outcome="3 failed"), new)]
    assert first(feed(only("retracing", Retracing()), *events)) is None


# --- near repeats


def failing(n, error="no such user: {n}"):
    return Event(action="get", arguments={"user": f"u{n}"}, error=error.format(n=f"u{n}"))


def test_one_mistake_in_several_ways_is_a_near_repeat():
    drifts = feed(only("near_repeats", NearRepeats()), *(event for n in range(5) for event in (failing(n), *work(3))))
    assert first(drifts) == 13
    assert drifts[12].reason == "get was tried in 4 ways, and all of them failed with the same error"
    assert drifts[12].evidence["events"] == [1, 5, 9, 13]


def test_other_mistakes_or_the_same_call_again_are_no_near_repeats():
    assert first(feed(only("near_repeats", NearRepeats()), *(failing(n, f"error {n}") for n in "abcdefgh"))) is None
    assert first(feed(only("near_repeats", NearRepeats()), *[failing(1)] * 8)) is None


# --- no-ops


def test_calls_without_anything_to_do_are_a_collapse():
    nothing = [Event(action="bash", arguments={"command": f": {n * 'x'}"}, outcome="(no output)") for n in range(8)]
    drifts = feed(only("no_ops", NoOps()), *work(3), *nothing)
    assert first(drifts) == 9
    assert drifts[8].reason == "6 of the last 8 calls had nothing to do"


# --- stall


def test_nothing_new_for_long_is_a_stall():
    known = work(60)
    drifts = feed(only("stall", Stall()), *known, *known)
    assert first(drifts) == 72
    assert "12 events in a row brought nothing new" in drifts[71].reason


def test_a_new_way_to_make_a_known_mistake_is_nothing_new():
    assert first(feed(only("stall", Stall()), *map(failing, range(20)))) == 13


def test_a_batch_with_one_answer_for_all_is_no_stall():
    events = [Event(action="move", arguments=n, outcome="ok") for n in range(100)]
    assert first(feed(DriftDetector(), *events)) is None


# --- progress


def test_progress_that_does_not_rise_is_drift():
    detector = only("progress", Progress(events=3))
    drifts = feed(detector, *(Event(action="a", progress=progress) for progress in (0.1, 0.2, 0.2, 0.15, 0.2, 0.3)))
    assert [bool(drift) for drift in drifts] == [False] * 4 + [True, False]
    assert drifts[4].reason == "Progress has not gone beyond 0.2 for 3 events"


def test_progress_that_falls_is_drift_when_it_lasts():
    events = [
        Event(action="a", arguments=n, progress=progress) for n, progress in enumerate((10, 60, 20, 60, 20, 21, 22))
    ]
    drifts = feed(only("progress", Progress()), *events)
    assert first(drifts) == 7
    assert drifts[6].reason == "Progress fell from 60 to 22"


def test_events_that_tell_no_progress_do_not_count():
    assert first(feed(only("progress", Progress(events=2)), Event(action="a", progress=0.5), *work(9))) is None


# --- rises


def failures(rate, count, seed):
    chance = random.Random(seed)
    return [
        Event(action="a", arguments=n, outcome=n, error=f"cause {n}" if chance.random() < rate else None)
        for n in range(count)
    ]


def test_a_rise_of_errors_is_seen():
    drifts = feed(only("error_rate", ErrorRate(excess=3)), *failures(0.05, 100, 1), *failures(0.6, 30, 2))
    assert 100 < first(drifts) <= 115
    assert "actions failed, more than the" in drifts[first(drifts) - 1].reason


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9, 1.0])
def test_an_agent_that_always_fails_as_often_does_not_rise(rate):
    assert first(feed(only("error_rate", ErrorRate()), *failures(rate, 300, 3))) is None


def durations(seconds, count, seed, spread=0.3):
    chance = random.Random(seed)
    return [
        Event(
            action="ab"[n % 2],
            arguments=n,
            duration_seconds=seconds * (1 + n % 2 * 9) * chance.lognormvariate(0, spread),
        )
        for n in range(count)
    ]


def test_durations_that_double_are_seen_action_by_action():
    drifts = feed(only("latency", Latency(excess=3)), *durations(1, 100, 1), *durations(2, 40, 2))
    assert 100 < first(drifts) <= 120
    assert "Actions take longer than they used to" in drifts[first(drifts) - 1].reason


def test_durations_that_vary_are_no_drift():
    assert first(feed(only("latency", Latency()), *durations(1, 500, 3, spread=0.8))) is None


def test_a_single_slow_action_is_no_drift():
    slow = [Event(action="a", duration_seconds=10_000)]
    assert first(feed(only("latency", Latency()), *durations(1, 60, 4), *slow, *durations(1, 60, 5))) is None


def test_slowness_is_not_learned_as_usual():
    drifts = feed(only("latency", Latency(excess=3)), *durations(1, 100, 1), *durations(2, 600, 2))
    assert all(drifts[130:])


def test_what_was_slow_for_a_while_may_be_quick_again():
    detector = only("latency", Latency(excess=3))
    drifts = feed(detector, *durations(1, 100, 1), *durations(9, 40, 2), *durations(1, 60, 3))
    assert drifts[139] is not None
    assert drifts[-1] is None


# --- the session


def test_time_in_which_nothing_happened_is_told_once_it_is_over():
    drifts = feed(only("idle_time", IdleTime(seconds=60)), *(Event(action="a", at=at) for at in (0, 59, 120, 121)))
    assert [bool(drift) for drift in drifts] == [False, False, True, False]
    assert drifts[2].reason == "Nothing happened for 61 seconds"


def test_what_an_action_took_is_not_idle_time():
    assert (
        first(
            feed(
                only("idle_time", IdleTime(60)), Event(action="a", at=0), Event(action="a", at=99, duration_seconds=50)
            )
        )
        is None
    )


def test_a_session_with_many_events_is_told():
    assert first(feed(only("cycle_count", CycleCount(events=5)), *work(9))) == 5


def test_an_old_session_is_told():
    events = [Event(action="a"), *(Event(action="a", at=at) for at in (10, 40, 69, 70, None, 71))]
    drifts = feed(only("session_age", SessionAge(seconds=60)), *events)
    assert first(drifts) == 5
    assert drifts[5] is not None, "an event without a time makes no session younger"

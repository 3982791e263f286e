"""The detector: which drift it tells, when it is news, what can be switched off, and that it goes on where it was."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

import holdfast
from holdfast import Drift, DriftDetector, DriftEvent, InvalidArgument
from holdfast.drift.combination import Combination
from holdfast.drift.detector import SIGNALS
from holdfast.drift.normal import Normal
from holdfast.drift.protocol import Detector, Event
from holdfast.drift.repetition import Repetition
from holdfast.drift.session import CycleCount
from holdfast.drift.signal import Signal


class Shouting(Signal):
    """A signal of one's own: so many loud actions since the last quiet one."""

    def __init__(self, times=2):
        self.times, self.loud = times, 0

    def observe(self, moment):
        self.loud = self.loud + 1 if moment.event.action.isupper() else 0
        return self.loud / self.times

    def state(self):
        return self.loud

    def restore(self, state):
        self.loud = state or 0


def feed(detector, *events):
    return [detector.observe(event) for event in events]


def steps(text, **fields):
    return [Event(action=letter, **fields) for letter in text]


def news(drifts):
    return [number for number, drift in enumerate(drifts, start=1) if drift and not drift.ongoing]


def test_it_is_a_detector_and_public():
    assert isinstance(DriftDetector(), Detector)
    assert holdfast.DriftEvent is Event


def test_a_drift_is_told_with_every_event_but_is_news_once():
    drifts = feed(DriftDetector(), *steps("a" * 20))
    assert [bool(drift) for drift in drifts] == [False] * 3 + [True] * 17
    assert news(drifts) == [4]


def test_a_drift_that_lasts_is_news_again():
    assert news(feed(DriftDetector(again_after_events=10), *steps("a" * 30))) == [4, 14, 24]


def test_what_goes_away_and_comes_back_soon_is_no_news():
    drifts = feed(DriftDetector(cycles=None), *steps("aaaabcaaaa"))
    assert (drifts[4], drifts[9].ongoing) == (None, True)


def test_of_several_kinds_the_one_that_says_most_is_told():
    drifts = feed(DriftDetector(), *steps("aaaa"))
    assert (drifts[-1].kind, drifts[-1].score) == ("repetition", 1.0)


def test_repeats_are_news_while_drift_of_another_sort_lasts():
    drifts = feed(DriftDetector(cycle_count=CycleCount(events=2)), *steps("abcdddddd"))
    assert [(number, drifts[number - 1].kind) for number in news(drifts)] == [(2, "cycle_count"), (7, "repetition")]


def test_another_way_to_repeat_is_no_news():
    assert news(feed(DriftDetector(), *steps("abcabcabcabcdddddd"))) == [8]


@pytest.mark.parametrize("kind", SIGNALS)
def test_every_signal_can_be_switched_off(kind):
    detector = DriftDetector(**{kind: None})
    detector.observe(Event(action="a"))
    assert set(detector.levels) == set(SIGNALS) - {kind}


def test_levels_tell_how_near_drift_is():
    detector = DriftDetector()
    feed(detector, *steps("aaa"))
    assert detector.levels["repetition"] == 0.75


def test_a_signal_can_be_replaced():
    assert news(feed(DriftDetector(repetition=Repetition(times=2)), *steps("aa"))) == [2]


def test_a_signal_of_ones_own_joins_in():
    detector = DriftDetector(shouting=Shouting())
    drifts = feed(detector, *steps("aBC"))
    assert (drifts[2].kind, drifts[2].score) == ("shouting", 1.0)
    assert drifts[2].evidence == {"events": [3]}
    assert "C" in drifts[2].reason
    other = DriftDetector(shouting=Shouting(times=3))
    other.restore(detector.state())
    assert other.observe(Event(action="D")).kind == "shouting"


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(InvalidArgument, match="no signal 'repetitions'"):
        DriftDetector(repetitions=None)
    with pytest.raises(InvalidArgument, match="window"):
        DriftDetector(window=1)


def test_a_combination_decides_for_the_signals_that_it_weighs():
    combination = Combination(weights={"repetition": 20.0, "cycles": 0.0, "stall": 0.0, "retracing": 0.0}, bias=-5.0)
    drifts = feed(DriftDetector(combination=combination), *steps("aab"))
    assert (news(drifts), drifts[1].kind) == ([2], "repetition")
    assert news(feed(DriftDetector(combination=combination), *steps("aBC"))) == []
    deaf = Combination(weights=dict.fromkeys(SIGNALS, 0.0), bias=-5.0)
    assert news(feed(DriftDetector(combination=deaf), *steps("a" * 30))) == []


def test_a_detector_goes_on_where_its_state_was_kept():
    events = [*steps("abab", at=1.0), *steps("aaaaa", error="e e\nx", duration_seconds=2), *steps("c", progress=0.5)]
    for cut in range(len(events)):
        whole, before, after = (DriftDetector(normal=Normal()) for _ in range(3))
        feed(before, *events[:cut])
        after.restore(json.loads(json.dumps(before.state())))
        assert feed(whole, *events)[cut:] == feed(after, *events[cut:])


def test_an_empty_state_begins_anew():
    detector = DriftDetector()
    feed(detector, *steps("aaaa", progress=1, at=5.0))
    detector.restore({})
    assert detector.state() == DriftDetector().state()


def test_a_state_of_another_detector_begins_anew():
    detector = DriftDetector()
    detector.restore({"seen": ["abc done a"], "best": 0.5, "since_best": 3})
    assert detector.state() == DriftDetector().state()


def test_the_state_holds_no_contents_and_stays_small():
    detector = DriftDetector(normal=Normal())
    for n in range(1000):
        detector.observe(
            Event(
                action=f"read a very long name of an action {n % 50}" * 3,
                arguments={"path": f"secret {n}" * 1000},
                outcome=f"secret {n % 7} " * 1000,
                error=f"secret {n}" if n % 3 else None,
                duration_seconds=n + 1,
                at=n,
            )
        )
    text = json.dumps(detector.state())
    assert "secret" not in text
    assert len(text) < 20_000


def test_events_and_drifts_are_frozen():
    with pytest.raises(FrozenInstanceError):
        DriftEvent(action="a").action = "other"
    with pytest.raises(FrozenInstanceError):
        Drift(kind="k", score=1.0, reason="r").kind = "other"

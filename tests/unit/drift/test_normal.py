"""Normal: waiting is learned from waits that ended, and loops are found all the same."""

from __future__ import annotations

from holdfast.drift.detector import DriftDetector
from holdfast.drift.normal import Normal
from holdfast.drift.protocol import Event


def wait(number, questions, *, ends=True):
    """One question again and again, with a sleep after each, until the answer is another."""
    events = []
    for asked in range(questions):
        done = ends and asked == questions - 1
        events.append(Event(action="state", arguments=number, outcome="done" if done else "queued"))
        events.append(Event(action="sleep", arguments=30))
    return [*events, *(Event(action="work", arguments=(number, n), outcome=(number, n)) for n in range(10))]


def news(detector, events):
    return sum(drift is not None and not drift.ongoing for drift in map(detector.observe, events))


def test_an_agent_that_waits_by_nature_is_not_accused_once_it_is_known():
    detector, other = DriftDetector(normal=Normal()), DriftDetector()
    lengths = (6, 7, 6, 8, 6, 7)
    assert sum(news(detector, wait(n, length)) for n, length in enumerate(lengths[:3])) > 0, "nothing is known yet"
    assert sum(news(detector, wait(n, length)) for n, length in enumerate(lengths[3:], start=3)) == 0
    assert sum(news(other, wait(n, length)) for n, length in enumerate(lengths)) == 6


def test_a_wait_far_longer_than_usual_is_drift():
    detector = DriftDetector(normal=Normal())
    for number in range(5):
        news(detector, wait(number, 6))
    assert news(detector, wait(9, 12)) == 0
    assert news(detector, wait(10, 40, ends=False)) > 0


def test_nothing_is_learned_from_a_loop_that_never_ends():
    detector = DriftDetector(normal=Normal())
    for number in range(5):
        assert news(detector, wait(number, 12, ends=False)) > 0


def test_other_actions_are_judged_as_ever():
    detector = DriftDetector(normal=Normal())
    for number in range(5):
        news(detector, wait(number, 6))
    assert news(detector, [Event(action="read", arguments="a.txt")] * 4) == 1


def test_what_is_remembered_is_bounded():
    normal = Normal()
    number = 0
    for n in range(200):
        for outcome in ("no", "no", "no", "yes"):
            number += 1
            normal.excuses(f"action {n}", f"call {n}", outcome, number)
    state = normal.state()
    assert len(state["open"]) <= 32
    assert len(state["lengths"]) == 32

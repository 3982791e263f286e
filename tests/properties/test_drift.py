"""Claims about detectors of drift and any events."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.drift.detector import DriftDetector
from holdfast.drift.masking import masked
from holdfast.drift.normal import Normal
from holdfast.drift.protocol import Event

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=5,
)
FEW = st.sampled_from(["a", "b", ": ", "Error: x", '{"command": ":"}', "at 20:36:28", "id=81723", None])
EVENTS = st.builds(
    Event,
    action=st.sampled_from(["read", "write", "a\nb"]),
    arguments=FEW | VALUES,
    outcome=FEW | VALUES,
    error=st.none() | st.sampled_from(["refused", "no such file: a", ""]) | st.text(max_size=8),
    duration_seconds=st.none() | st.floats(),
    progress=st.none() | st.floats(),
    at=st.none() | st.floats(),
)
# Few different events, so that much of it repeats.
RUNS = st.lists(EVENTS, min_size=1, max_size=4).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=70))


def made():
    return DriftDetector(window=12, again_after_events=6, normal=Normal(spells=1))


@given(RUNS, st.integers(0, 70))
def test_a_restored_detector_goes_on_identically(events, cut):
    whole, before, after = made(), made(), made()
    drifts = [whole.observe(event) for event in events]
    for event in events[:cut]:
        before.observe(event)
    state = before.state()
    after.restore(json.loads(json.dumps(state, allow_nan=False)))
    assert after.state() == json.loads(json.dumps(state)) == state
    assert [after.observe(event) for event in events[cut:]] == drifts[cut:]
    assert after.state() == whole.state() or cut > len(events)


@given(RUNS)
def test_whatever_an_agent_does_a_drift_is_told_with_a_score_a_reason_and_numbers_of_events(events):
    detector = DriftDetector()
    for number, event in enumerate(events, start=1):
        drift = detector.observe(event)
        if drift is not None:
            assert drift.score >= 1.0
            assert drift.reason
            assert all(0 < told <= number for told in drift.evidence["events"])
            json.dumps(dict(drift.evidence))


@given(st.text(max_size=2000))
def test_masking_any_text_gives_the_same_text_twice(text):
    assert masked(text) == masked(text)
    assert masked(text).split() == masked(f"  {text}\n").split() or len(text) > 590

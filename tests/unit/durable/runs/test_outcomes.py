"""Claims about the answers of reconcile functions."""

from __future__ import annotations

import dataclasses

import pytest

from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Outcome, Unknown


def test_answers_are_values():
    assert Happened({"id": 1}) == Happened({"id": 1}) != Happened()
    assert len({DidNotHappen(), DidNotHappen(), Unknown()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Happened(1).result = 2


@pytest.mark.parametrize("answer", [Happened(), DidNotHappen(), Unknown()])
def test_each_is_an_outcome(answer):
    assert isinstance(answer, Outcome)

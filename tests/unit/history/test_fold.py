"""The folds over a history: the live path, the context and what is pending."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history import records as r
from holdfast.history.fold import Begun, Run, context, live_path, pending, runs


def history(*made):
    return [record.evolve(seq=seq) for seq, record in enumerate(made, start=1)]


def said(text):
    return r.UserMessage(content=text)


def saved(name, kind="manual"):
    return r.CheckpointSaved(id=name, kind=kind, parent=None, digest=b"")


def positions(*made):
    return [record.seq for record in live_path(history(*made))]


def test_without_a_rewind_everything_counts():
    assert positions(said("a"), saved("A"), said("b")) == [1, 2, 3]


def test_a_rewind_takes_back_what_came_after_its_position():
    assert positions(said("a"), said("b"), said("c"), r.Rewind(to=1), said("d")) == [1, 5]


def test_a_rewind_to_the_beginning_leaves_nothing():
    assert positions(said("a"), r.Rewind(to=0)) == []


def test_going_back_to_a_branch_that_was_left_brings_its_records_back():
    """A, then B on A, then C on A, then D on B: what counts is A, B, D."""
    assert positions(saved("A"), saved("B"), r.Rewind(to=1), saved("C"), r.Rewind(to=2), saved("D")) == [1, 2, 6]


def test_a_rewind_to_a_rewind_goes_to_where_that_one_went():
    assert positions(said("a"), said("b"), r.Rewind(to=1), said("c"), r.Rewind(to=3), said("d")) == [1, 6]


def test_a_path_goes_on_when_the_beginning_was_erased():
    erased = history(said("a"), said("b"), said("c"), r.Rewind(to=1), said("d"))[2:]
    assert [record.seq for record in live_path(erased)] == [5]


def test_a_forks_own_records_follow_the_past_that_it_shares():
    past = history(said("a"), said("b"))
    own = history(said("c"), said("d"), r.Rewind(to=1), said("e"))
    assert [record.content for record in live_path([*past, *own])] == ["a", "b", "c", "e"]
    assert [record.content for record in live_path([*past, *history(said("c"), r.Rewind(to=0))])] == ["a", "b"]


def test_the_context_has_no_internal_records():
    found = context(history(said("a"), saved("A"), r.RlmStart(tool_call_id="t", code="x"), said("b")))
    assert [record.content for record in found] == ["a", "b"]


def test_what_is_begun_and_not_ended_is_pending():
    start, end = (
        r.RlmStart(tool_call_id="t", code="x"),
        r.RlmComplete(tool_call_id="t", output=None, print_output="", tool_call_count=0),
    )
    assert pending(history(start, saved("op", "pre_operation"))) == [Begun("run", "t", 1), Begun("operation", "op", 2)]
    assert pending(history(start, end)) == []
    assert pending(history(start, end, r.Rewind(to=1))) == [Begun("run", "t", 1)]
    assert pending(history(said("a"), start, r.Rewind(to=1))) == []


def begun(name, session=None):
    return r.RlmStart(tool_call_id=name, code="x", session=session)


def ended(name):
    return r.RlmComplete(tool_call_id=name, output=None, print_output="", tool_call_count=0)


def test_a_run_stands_where_the_live_path_begins_and_ends_it():
    assert runs(history(said("a"), begun("t", "s"), begun("u"), ended("t"))) == [Run("t", "s", 2, 4), Run("u", None, 3)]
    assert runs(history(begun("t"), ended("t"), r.Rewind(to=1))) == [Run("t", None, 1)]
    assert runs(history(said("a"), begun("t"), ended("t"), r.Rewind(to=1), ended("t"))) == []


def test_an_end_belongs_to_what_was_begun_last_and_only_the_first_one_counts():
    assert runs(history(begun("t"), begun("t"), ended("t"), ended("t"))) == [Run("t", None, 1), Run("t", None, 2, 3)]
    assert runs(history(ended("t"), begun("t"))) == [Run("t", None, 2)]


def test_a_run_that_is_taken_up_again_is_the_same_run():
    made = history(begun("t"), r.RlmRestart(tool_call_id="t", attempt=1), ended("t"))
    assert runs(made) == [Run("t", None, 1, 3)]
    assert pending(made[:2]) == [Begun("run", "t", 1)]


def test_a_finished_operation_is_not_revived_by_a_rewind():
    made = history(saved("op", "pre_operation"), r.CheckpointDeleted(id="op"), r.Rewind(to=1))
    assert pending(made) == []


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=30))
def test_the_live_path_is_the_path_that_was_live_at_the_position_it_went_back_to(steps):
    """The model remembers the whole path after each record."""
    paths: list[list[int]] = [[]]
    made = []
    for seq, to in enumerate(steps, start=1):
        if to is None:
            made.append(said("x"))
            paths.append([*paths[-1], seq])
        else:
            there = min(to, seq - 1)
            made.append(r.Rewind(to=there))
            paths.append(paths[there])
    assert positions(*made) == paths[-1]


@pytest.mark.parametrize("cls", r.RECORD_TYPES.values(), ids=lambda cls: cls.type)
def test_every_record_type_has_a_number_of_its_own(cls):
    assert r.RECORD_NUMBERS[cls.number] is cls

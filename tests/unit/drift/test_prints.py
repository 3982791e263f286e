"""Prints: what is the same call, the same outcome, the same mistake, and what does nothing."""

from __future__ import annotations

import random

import pytest

from holdfast.drift.injection import _fill, _things
from holdfast.drift.prints import call_print, does_nothing, mistake_print, outcome_print
from holdfast.drift.protocol import Event


def called(arguments):
    return call_print(Event(action="a", arguments=arguments))


def test_a_call_is_the_same_whatever_the_order_of_keys_and_the_white_space():
    assert called({"a": 1, "b": [2]}) == called({"b": [2], "a": 1})
    assert called("grep  -r x\n") == called("grep -r x")


def test_calls_differ_by_action_by_value_and_by_kind_of_value():
    assert len({called(value) for value in (1, "1", 1.5, True, None, (1, 2), [2, 1], {"a": 1}, "2026-11-19")}) == 9
    assert call_print(Event(action="a")) != call_print(Event(action="b"))


def test_live_objects_are_told_by_what_they_show_but_not_by_their_address():
    assert called(object()) == called(object())
    assert called({1: "a", "b": object()}) == called({1: "a", "b": object()})


def test_an_outcome_that_failed_is_another_one():
    assert outcome_print(Event(action="a", outcome="x")) != outcome_print(Event(action="a", error="x"))
    assert outcome_print(Event(action="a", outcome="x")) == outcome_print(Event(action="other", outcome="x"))


MISTAKES = [
    ('{"path": "/a/<word>_<n>.py"}', "FileNotFoundError: No such file or directory: '/a/<word>_<n>.py'"),
    ("cat <word><n>.txt", "cat: <word><n>.txt: No such file or directory"),
    ('{"id": <n>}', "Item <n> does not exist (request <uuid>)"),
    ('{"query": "select <word> from t"}', 'column "<word>" does not exist\nLINE 1: select <word> from t'),
    ("import <word>", "ModuleNotFoundError: No module named '<word>'"),
    ('{"old_str": "x = <n>", "path": "/a/b.py"}', "old_str `x = <n>` did not appear verbatim in /a/b.py, line <n>."),
    ("track=<word> bar=<n> value=0.<n>", "lane <n> of track <word> is read-only (owner pid <number>)"),
    ("curl localhost:80<n>", "curl: (7) Failed to connect to localhost port 80<n> after <ms> ms"),
]


@pytest.mark.parametrize(("arguments", "error"), MISTAKES)
def test_a_mistake_is_the_same_whatever_it_repeats_of_the_arguments(arguments, error):
    chance = random.Random(2)
    prints = set()
    for n in range(3, 30):
        things = {**_things(chance), "n": str(n)}
        made = Event(action="a", arguments=_fill(arguments, chance, things), error=_fill(error, chance, things))
        prints.add(mistake_print(made))
    assert len(prints) == 1
    assert "" not in prints


def test_other_errors_are_other_mistakes():
    errors = ["'A' object has no attribute 'b'", "'A' object has no attribute 'c'", "3 failed", "2 failed"]
    assert len({mistake_print(Event(action="a", arguments="pytest -q", error=error)) for error in errors}) == 4


def test_an_outcome_that_begins_like_an_error_is_one():
    assert mistake_print(Event(action="a", outcome="Error: no such user"))
    assert mistake_print(Event(action="a", outcome="KeyError: 'x'"))
    assert not mistake_print(Event(action="a", outcome="No errors"))
    assert not mistake_print(Event(action="a", outcome={"error": None}))


def test_an_error_that_says_nothing_or_success_is_no_mistake():
    made = Event(action="create", arguments={"path": "/a/error.py"}, error="File created successfully at: /a/error.py")
    assert mistake_print(made) == ""
    assert mistake_print(Event(action="rm", arguments="rm -f error.log", error="rm -f error.log")) == ""
    assert mistake_print(Event(action="a", error="not successful: invalid token"))


@pytest.mark.parametrize(
    "arguments",
    [
        ":",
        "}",
        ": run the tests",
        '{"command": ": "}',
        '{"command": "", "timeout": 5}',
        {"command": ":", "note": "look"},
    ],
)
def test_what_has_nothing_to_carry_out_does_nothing(arguments):
    assert does_nothing(Event(action="bash", arguments=arguments))


@pytest.mark.parametrize(
    "arguments",
    [None, {}, "", 7, "ls", ": > out.txt", ": ok && make", {"order_id": "#W1"}, {"text": "", "to": "ada"}, {"x": [1]}],
)
def test_what_has_something_to_carry_out_does_something(arguments):
    assert not does_nothing(Event(action="bash", arguments=arguments))


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


TOO_MUCH = {
    "lists in a text": "[" * 100_000,
    "objects in a text": '{"a":' * 100_000,
    "digits in a text": '{"a":' + "9" * 6000 + "}",
    "lists": nested(5000),
    "lists in a dict": {1: nested(5000)},
    "a number": 10**5000,
    "a number in a list": [10**5000],
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_nothing_is_too_deep_or_too_large_to_be_looked_at(name):
    """It is what a model wrote or a tool returned, and the agent goes on with it."""
    event = Event(action="a", arguments=TOO_MUCH[name], outcome=TOO_MUCH[name], error="failed")
    assert [call_print(event), outcome_print(event), mistake_print(event), str(does_nothing(event))]

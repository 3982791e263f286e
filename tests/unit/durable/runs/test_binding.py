"""Claims about how arguments find their parameters: as in a call that Python itself makes."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.runs.binding import bound, spread


def nothing(): ...
def one(a): ...
def default(a, b=2): ...
def three(a, b, c): ...
def positional(a, b=1, /): ...
def mixed(a, /, b, c=3, *, d, e=5): ...
def named(*, a, b): ...
def rest(a, *b): ...
def every(a, /, b=2, *c, d, e=5, **f): ...
def words(a=1, /, **a_): ...
def keywords(**k): ...
def three_named(*, a, b, c=1): ...


FUNCTIONS = (nothing, one, default, three, positional, mixed, named, rest, every, words, keywords, three_named)


def _failure(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


NAMES = st.sampled_from("abcdefk")


@given(st.sampled_from(FUNCTIONS), st.lists(st.integers(), max_size=5), st.dictionaries(NAMES, st.integers()))
def test_a_call_fits_when_python_says_so_and_fails_in_python_s_words(function, args, kwargs):
    signature = inspect.signature(function)
    expected = _failure(function, *args, **kwargs)
    # From 3.13 on, Python adds what may have been meant.
    assert _failure(bound, function.__name__, signature, tuple(args), kwargs) == expected.partition(". Did you")[0]


@given(st.sampled_from(FUNCTIONS), st.lists(st.integers(), max_size=5), st.dictionaries(NAMES, st.integers()))
def test_what_was_recorded_calls_the_function_with_the_same_arguments(function, args, kwargs):
    signature = inspect.signature(function)
    try:
        expected = signature.bind(*args, **kwargs)
    except TypeError:
        return
    arguments = bound(function.__name__, signature, tuple(args), kwargs)
    args, kwargs = spread(function.__name__, signature, arguments)
    assert signature.bind(*args, **kwargs) == expected


def test_what_is_recorded_has_no_defaults_and_shows_what_was_collected():
    found = bound("every", inspect.signature(every), (1, 2, 3, 4), {"d": 5, "x": 6, "a": 7})
    assert found == {"a": 1, "b": 2, "c": [3, 4], "d": 5, "f": {"x": 6, "a": 7}}
    assert bound("every", inspect.signature(every), (1,), {"d": 5}) == {"a": 1, "d": 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": 1, "to": 2}, r"^default\(\) got an unexpected keyword argument 'to'$"),
        ({"b": 1}, r"^default\(\) missing 1 required positional argument: 'a'$"),
    ],
)
def test_arguments_of_an_older_function_are_refused_in_the_same_words(arguments, message):
    with pytest.raises(TypeError, match=message):
        spread("default", inspect.signature(default), arguments)

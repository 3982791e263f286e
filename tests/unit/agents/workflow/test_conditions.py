"""The language of `when`: what holds, what does not, and what is no condition."""

from __future__ import annotations

import pytest

from holdfast import InvalidArgument
from holdfast.agents.workflow.conditions import DEPTH_MAX, LENGTH_MAX, condition


class Values:
    """An input for each kind of value, and one step."""

    def inputs(self):
        return {"mode": "full", "n": 3, "none": None, "empty": [], "tags": ["a", 1], "by": {"key": 0}, "yes": True}

    def step(self, name, part):
        return {"output": {"score": 0.8, "hotels": [{"name": "Alma"}]}, "status": "done", "error": None}[part]

    def environment(self, name):
        return f"value of {name}"


@pytest.mark.parametrize(
    "text",
    [
        "true", "not false", "1", "'x'", "not ''", "not null", "not ${input.none}", "not ${input.empty}",
        "${input.yes}",
        "${search.output.score} >= 0.8 and ${input.mode} == 'full'", "${search.output.hotels[0].name} == 'Alma'",
        "${search.status} in ['done', 'skipped']", "'skipped' not in [${search.status}]", "1 == 1.0", "1 != '1'",
        "1 != true", "not 1 == true", "${input.yes} == true", "'a' in ${input.tags}", "true not in ${input.tags}",
        "'key' in ${input.by}", "'ul' in ${input.mode}", "'abc' < 'abd'", "-1.5e3 < 0", "2 <= 2", "3 > ${input.by.key}",
        "false or not (false and true)", "true or false and false", "not not true", "not false and true",
        "${env:REGION} == 'value of REGION'", "${search.error} == null", "[1, 'a'] == ${input.tags} or true",
        "'it\\'s' == \"it's\"", "'a\\nb' != 'a\\\\nb'", "[] == ${input.empty}", "((((1))))",
    ],
)  # fmt: skip
def test_holds(text):
    assert condition(text).holds(Values()) is True
    assert condition(f"not ({text})").holds(Values()) is False


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 < 'a'", "a number < a text: only two numbers or two texts have an order"),
        ("null >= 1", "null >= a number"),
        ("true < 2", "a truth value < a number"),
        ("[1] > [0]", "a list > a list"),
        ("1 in 2", "a number in a number: there must be a list, an object or a text on the right"),
        ("1 in 'a1'", "a number in a text"),
        ("${input.nothing}", "${input.nothing}: there is no input.nothing"),
        ("${search.output.hotels[1]}", "there is no search.output.hotels[1]"),
        ("${search.output.score.x}", "there is no search.output.score.x"),
    ],
)
def test_what_has_no_answer_is_an_error_that_shows_no_value(text, told):
    with pytest.raises(InvalidArgument) as caught:
        condition(text).holds(Values())
    assert told in str(caught.value)


def test_the_right_side_is_looked_at_only_when_the_left_one_does_not_decide():
    assert condition("true or ${input.nothing}").holds(Values())
    assert not condition("false and ${input.nothing}").holds(Values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at character 1: a value is expected, not the end"),
        ("1 <", "at character 4: a value is expected, not the end"),
        ("1 1", "at character 3: the end is expected, not 1"),
        ("(1", "at character 3: ) is expected"),
        ("[1 2]", "at character 4: , or ] is expected, not 2"),
        ("1 not 2", "at character 7: in is expected, not 2"),
        ("score > 1", "at character 1: a value is expected, not score"),
        ("__import__('os')", "at character 1: a value is expected"),
        ("${input.x}.__class__", "at character 11: '.__class__' is not understood"),
        ("1 = 1", "at character 3: '= 1' is not understood"),
        ("'open", "at character 1: \"'open\" is not understood"),
        (r"'\x41'", r"at character 1: \x is no escape"),
        ("1 == 2 == 3", "at character 8: the end is expected"),
        ("${a}", "${a} must go on with .output, .status, .error of step a"),
        ("${a.output + 1}", "is no reference"),
        ("(" * 30 + "1" + ")" * 30, f"nested at most {DEPTH_MAX} deep"),
        ("1 or " * 300 + "1", f"at most {LENGTH_MAX:,} characters"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_told_with_its_place(text, told):
    with pytest.raises(ValueError) as caught:
        condition(text)
    assert told in str(caught.value)


def test_a_condition_knows_what_it_names():
    found = condition("${a.output} == 1 and (${input.x} or ${env:Y} in ['b'])").references
    assert [(one.source, one.path) for one in found] == [("a", ("output",)), ("input", ("x",)), ("env", ("Y",))]

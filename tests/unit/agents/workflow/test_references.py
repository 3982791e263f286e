"""References: what they name, what they become, and that nothing else is read into a text."""

from __future__ import annotations

import pytest

from holdfast import InvalidArgument
from holdfast.agents.workflow.references import filled, references


class Values:
    def __init__(self, **inputs):
        self.given = inputs

    def inputs(self):
        return self.given

    def step(self, name, part):
        return None if name == "skipped" else {"hotels": [{"name": "Alma"}], "n": 2}

    def environment(self, name):
        return f"<{name}>"


def test_a_text_that_is_one_reference_becomes_the_value_itself():
    hotels = [{"name": "Alma"}]
    assert filled("${search.output.hotels}", Values()) == hotels
    assert filled(" ${search.output.n}", Values()) == " 2"
    assert filled({"a": ["${input.x}", 7, None], "b": {"c": "${env:KEY}"}}, Values(x=1.5)) == {
        "a": [1.5, 7, None], "b": {"c": "<KEY>"},
    }  # fmt: skip


def test_inside_a_text_a_value_is_its_text_or_json():
    text = "${input.name}: ${search.output.hotels} (${search.output.n}) ${skipped.output}"
    assert filled(text, Values(name="é")) == 'é: [{"name": "Alma"}] (2) null'


def test_what_is_filled_in_is_not_read_again():
    assert filled("say ${input.x}", Values(x="${env:KEY}")) == "say ${env:KEY}"
    assert filled("${input.x}", Values(x="${env:KEY}")) == "${env:KEY}"


def test_two_dollars_stand_for_one_that_begins_no_reference():
    assert filled("$${input.x} costs $5 or ${input.x}", Values(x=3)) == "${input.x} costs $5 or 3"
    assert list(references("$${a} $5 $ {x}")) == []


def test_what_was_filled_in_is_a_copy():
    given = {"list": [1]}
    filled("${input.x}", Values(x=given))["list"].append(2)
    assert given == {"list": [1]}


def test_the_output_of_a_skipped_step_is_null_with_all_its_parts():
    assert filled("${skipped.output.hotels[0].name}", Values()) is None


@pytest.mark.parametrize(
    "text",
    ["${", "${}", "${a", "a ${b{c}", "${a}", "${a.b}", "${input}", "${input[0]}", "${a.status.x}", "${env:}",
     "${env:A B}", "${env.HOME}", "${a.output.__class__()}", "${a.output[-1]}", "${a .output}", "${1a.output}"],
)  # fmt: skip
def test_what_is_no_reference_is_refused(text):
    with pytest.raises(ValueError) as caught:
        list(references({"deep": [text]}))
    assert "${" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["${input.y}", "${input.x.y}", "${input.x[1]}", "${search.output.hotels[3]}", "${search.output.no}"]
)
def test_what_is_not_there_is_an_error_that_names_it(text):
    with pytest.raises(InvalidArgument) as caught:
        filled(text, Values(x=["only"]))
    assert caught.value.path == text[2:-1]

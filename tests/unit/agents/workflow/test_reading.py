"""A workflow file is understood, or everything that is wrong with it is told at once, with line and key."""

from __future__ import annotations

import pytest

from holdfast import InvalidWorkflow
from holdfast.agents.workflow.definition import changed
from holdfast.agents.workflow.reading import definition, load


def read(text, agents=None, source="trip.yaml"):
    return definition(text.encode(), source, agents)


def problems(text, agents=("find", "book")):
    with pytest.raises(InvalidWorkflow) as caught:
        read(text, agents)
    return [str(problem) for problem in caught.value.problems]


WHOLE = """\
workflow:
  name: city-trip
  checkpoint: false
steps:
  - name: search
    agent: find
    inputs: {city: "${input.city}"}
  - name: book
    agent: book
    checkpoint: true
    needs: [search]
    inputs: {hotel: "${search.output[0]}"}
    retry: {max_attempts: 3, delay_seconds: 0.5}
    timeout_seconds: 60
    when: ${search.status} == 'done'
    on_error: continue
"""


def test_a_whole_file_is_read():
    found = read(WHOLE, ["find", "book"])
    assert (found.name, list(found.steps)) == ("city-trip", ["search", "book"])
    search, book = found.steps.values()
    assert (search.checkpoint, search.max_attempts, search.timeout_seconds, search.on_error) == (False, 1, None, "stop")
    assert (book.checkpoint, book.needs, book.max_attempts, book.delay_seconds) == (True, ("search",), 3, 0.5)
    assert (book.timeout_seconds, book.when.text, book.on_error) == (60.0, "${search.status} == 'done'", "continue")


def test_a_workflow_is_named_after_its_file_and_its_steps_follow_each_other():
    found = read(
        "steps: [{name: a, agent: x}, {name: b, agent: x}, {name: c, agent: x, needs: []}]", source="x/trip.yml"
    )
    assert found.name == "trip"
    assert [step.needs for step in found.steps.values()] == [(), ("a",), ()]
    assert all(step.checkpoint for step in found.steps.values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("7", ["line 1: must be an object with keys, not 7"]),
        ("workflow: {}", ["line 1: steps: a workflow needs a list of steps"]),
        ("steps: []", ["line 1: steps: there are no steps"]),
        ("steps:", ["line 1: steps: must be a list, not nothing"]),
        ("steps: {a: 1}", ["line 1: steps: must be a list, not an object"]),
        ("step: [{name: a, agent: find}]",
         ["line 1: step: unknown key; did you mean steps?", "line 1: steps: a workflow needs a list of steps"]),
        ("workflow: {name: a/b}\nsteps: [{name: a, agent: find}]",
         ["line 1: workflow.name: a name is made of letters, digits, `_`, `-` and `.`"]),
        ("workflow: {name: 7, checkpoint: on}\nsteps: [{name: a, agent: find}]",
         ["line 1: workflow.name: must be a text, not 7",
          "line 1: workflow.checkpoint: must be true or false, not 'on'"]),
        ("steps:\n- {needs: []}\n- {name: b}\n- 7",
         ["line 2: steps[0].agent: a step needs this", "line 3: steps[1].agent: a step needs this",
          "line 4: steps[2]: must be an object with keys, not 7"]),
        ("steps: [{name: input, agent: find}]", ["line 1: steps[0].name: 'input' is taken by references"]),
        ("steps: [{name: a b, agent: find}]",
         ["line 1: steps[0].name: 'a b' must be letters, digits, `_` and `-`"]),
        ("steps:\n- {name: a, agent: fnd}", ["line 2: steps[0].agent: there is no agent 'fnd'; did you mean find?"]),
        ("steps:\n- {name: a, agent: pay}", ["line 2: steps[0].agent: there is no agent 'pay'; there is book, find"]),
        ("steps:\n- name: a\n  agent: find\n  retry: {max_attempt: 3}",
         ["line 4: steps[0].retry.max_attempt: unknown key; did you mean max_attempts?"]),
        ("steps:\n- {name: a, agent: find, retry: {max_attempts: true, delay_seconds: -1}}",
         ["line 2: steps[0].retry.max_attempts: must be a whole number from 1 on, not True",
          "line 2: steps[0].retry.delay_seconds: must be a number of seconds, not -1"]),
        ("steps:\n- {name: a, agent: find, timeout_seconds: 0, on_error: retry, inputs: [1]}",
         ["line 2: steps[0].timeout_seconds: must be a number of seconds, not 0",
          "line 2: steps[0].inputs: must be an object with keys, not a list",
          "line 2: steps[0].on_error: must be stop or continue, not 'retry'"]),
        ("steps:\n- name: a\n  agent: find\n  when: 1 <",
         ["line 4: steps[0].when: at character 4: a value is expected, not the end"]),
        ("steps:\n- name: a\n  agent: find\n  inputs:\n    x:\n      - y: ${oops}",
         ["line 6: steps[0].inputs.x[0].y: ${oops} must go on with .output, .status, .error of step oops"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_line_and_key(text, told):
    found = problems(text)
    assert sorted(found) == sorted(told)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("- {name: a, agent: find}\n- {name: a, agent: find}",
         "line 3: steps[1].name: there is a step 'a' already, in line 2"),
        ("- {name: a, agent: find, needs: [b]}\n- {name: b, agent: find, needs: c}\n- {name: c, agent: find, needs: a}",
         "line 2: steps[0].needs: a cycle: a needs b needs c needs a"),
        ("- {name: a, agent: find, needs: a}", "line 2: steps[0].needs: a cycle: a needs a"),
        ("- {name: a, agent: find}\n- {name: b, agent: find, needs: [aa]}",
         "line 3: steps[1].needs: there is no step 'aa'; did you mean a?"),
        ("- {name: a, agent: find, inputs: {x: '${b.output}'}}\n- {name: b, agent: find}",
         "line 2: steps[0]: ${b.output}: a does not need b; add it to needs"),
        ("- name: a\n  agent: find\n- name: b\n  agent: find\n  needs: []\n  inputs:\n    x: ${a.output}",
         "line 8: steps[1]: ${a.output}: b does not need a; add it to needs"),
        ("- name: a\n  agent: find\n  when: ${serch.output}",
         "line 4: steps[0]: ${serch.output}: there is no step 'serch'"),
        ("- name: a\n  agent: find\n  inputs: {x: '${a.output}'}",
         "line 4: steps[0]: ${a.output}: a step can't use what it gives itself"),
    ],
)  # fmt: skip
def test_what_is_wrong_between_steps_is_told_with_line_and_key(steps, told):
    [found] = problems(f"steps:\n{steps}")
    assert found.startswith(told)


def test_everything_is_told_at_once_in_the_order_of_the_lines():
    found = problems("workflow: {nam: x}\nsteps:\n- {name: a, agent: fnd, checkpoint: yes}\n- {name: b, needs: [c]}")
    assert [line.split(":")[0] for line in found] == ["line 1", "line 3", "line 3", "line 4", "line 4"]


def test_an_error_names_the_file_and_carries_every_problem(tmp_path):
    path = tmp_path / "trip.yaml"
    path.write_text("steps: [{name: a}, {name: a}]")
    with pytest.raises(InvalidWorkflow) as caught:
        load(path)
    assert caught.value.path == str(path)
    assert str(caught.value) == f"{path}, line 1: steps[0].agent: a step needs this (and 2 more)"
    assert len([note for note in caught.value.__notes__ if note.startswith(str(path))]) == 2


def test_a_step_is_named_after_its_agent():
    found = read("steps: [{agent: find}, {agent: book, inputs: {x: '${find.output}'}}]")
    assert list(found.steps) == ["find", "book"]
    [told] = problems("steps:\n- {agent: find}\n- {agent: find}")
    assert told == "line 3: steps[1].name: there is a step 'find' already, in line 2"


@pytest.mark.parametrize(
    "change",
    [("agent: book", "agent: find"), ("[search]", "[]"), ("checkpoint: true", "checkpoint: false"), ("[0]", "[1]"),
     ("max_attempts: 3", "max_attempts: 4"), ("0.5", "0.6"), ("seconds: 60", "seconds: 61"), ("'done'", "'failed'"),
     ("continue", "stop")],
)  # fmt: skip
def test_a_change_of_any_key_is_one(change):
    text = WHOLE.replace("${search.output[0]}", "${input.hotels[0]}").replace("${search.status}", "${input.said}")
    assert changed(read(text).digests, read(text.replace(*change)).digests) == {"book": "changed"}


def test_a_change_is_one_of_what_is_said_not_of_how():
    before = read(WHOLE).digests
    same = read("# a comment\n" + WHOLE.replace("    needs: [search]\n", "")).digests
    assert changed(before, same) == {}
    other = read(WHOLE.replace("60", "61").replace("search", "look")).digests
    assert changed(before, other) == {"search": "removed", "look": "added", "book": "changed"}

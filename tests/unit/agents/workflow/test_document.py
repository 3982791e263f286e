"""YAML is read as plain values with their places; what could harm or mislead is refused, by its line."""

from __future__ import annotations

import sys

import pytest

from holdfast import InvalidWorkflow, MissingExtra
from holdfast.agents.workflow.document import BYTES_MAX, NODES_MAX, read


def plain(text):
    return read(text.encode(), "w.yaml").plain()


def refusal(text):
    with pytest.raises(InvalidWorkflow) as caught:
        read(text if isinstance(text, bytes) else text.encode(), "w.yaml")
    [problem] = caught.value.problems
    assert str(caught.value).startswith(f"w.yaml, line {problem.line}: ")
    return problem


def test_values_are_those_of_yaml_1_2():
    assert plain("{a: yes, b: on, c: true, d: 0o14, e: 0x1F, f: 012, g: 1_000, h: 12:30, i: 2026-03-01}") == {
        "a": "yes", "b": "on", "c": True, "d": 12, "e": 31, "f": 12, "g": "1_000", "h": "12:30", "i": "2026-03-01",
    }  # fmt: skip
    assert plain("[1, -2.5, 1e3, ~, null, '', '1', \"true\", .inf]") == [
        1, -2.5, 1000.0, None, None, "", "1", "true", float("inf"),
    ]  # fmt: skip


def test_every_value_and_key_knows_its_place():
    root = read(b"a: 1\nb:\n  - x\n  - c: 2\n", "w.yaml")
    inner = root.value["b"].value[1]
    assert (root.value["a"].line, inner.line, inner.value["c"].line) == (1, 4, 4)
    assert inner.keys == {"c": (4, 5)}


def test_a_byte_order_mark_is_no_part_of_the_document():
    assert read(b"\xef\xbb\xbfa: 1", "w.yaml").plain() == {"a": 1}


def test_an_alias_stands_for_what_it_names():
    assert plain("a: &retry {max_attempts: 3}\nb: *retry") == {"a": {"max_attempts": 3}, "b": {"max_attempts": 3}}


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' is there already, in line 1"),
        ("a:\n  b: 1\n  b: 1", 3, "the key 'b' is there already, in line 2"),
        ("a: 1\n1: 2", 2, "a key must be a text"),
        ("a: 1\n? [x]\n: 2", 2, "a key must be a text"),
        ("a: !!python/object/apply:os.system [id]", 1, "the tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !secret x", 1, "the tag !secret is refused"),
        ("a: 1\n---\nb: 2", 2, "a second document begins here"),
        ("", 1, "the file is empty"),
        ("# nothing", 1, "the file is empty"),
        ("a: [1,\nb", 2, "this is no YAML"),
        ("a:\n\tb: 1", 2, "this is no YAML"),
        ("a: *b", 1, "nothing complete has the anchor &b"),
        ("a: &a\n  b: *a", 2, "nothing complete has the anchor &a"),
        ("a: 1\nb: \x07", 2, "the character #x0007 is not allowed"),
        (b"a: 1\nb: \xff", 2, "this is not UTF-8"),
        ("[" * 40, 1, "nested more than 32 deep"),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_with_its_line(text, line, told):
    problem = refusal(text)
    assert (problem.line, told in problem.message) == (line, True), problem


def test_aliases_that_multiply_are_counted_as_what_they_stand_for():
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 10)]
    problem = refusal("\n".join(lines))
    assert problem.line == 5
    assert f"more than {NODES_MAX:,} values" in problem.message


def test_a_huge_document_is_refused_before_it_is_parsed():
    assert f"at most {BYTES_MAX:,}" in refusal("a: " + "x" * BYTES_MAX).message
    assert f"more than {NODES_MAX:,} values" in refusal("[" + "1," * NODES_MAX + "]").message


def test_without_its_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra) as caught:
        read(b"a: 1", "w.yaml")
    assert caught.value.hint == "pip install 'holdfast[workflow]'"

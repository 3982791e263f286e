"""Whatever a workflow file holds, it is a workflow or an `InvalidWorkflow` with places; nothing else is ever raised."""

from __future__ import annotations

import string
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import InvalidWorkflow
from holdfast.agents.workflow.conditions import condition
from holdfast.agents.workflow.reading import definition
from holdfast.agents.workflow.references import references
from tests.faults.report import LONG, tell

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200 if LONG else 60)]

EXAMPLES = settings(max_examples=5000) if LONG else settings()

FILE = """\
workflow: {name: trip, checkpoint: false}
steps:
  - name: search
    agent: find
    inputs: {city: "${input.city}", deep: [{key: "${env:KEY}"}]}
  - &book
    name: book
    agent: book
    needs: [search]
    when: ${search.output.n} > 5 and not ('a' in ["b", 1.5e3, null])
    retry: {max_attempts: 3, delay_seconds: 0.5}
    timeout_seconds: 60
    on_error: continue
"""
PIECES = st.sampled_from(
    ["${", "}", "*book", "&a ", "!!python/name:os.system ", "? ", "- ", ": ", "\n", "  ", "[", "]", "{", "}", "'", '"',
     "|\n", ">", "#", "%YAML 1.1\n", "---\n", "...\n", "<<: *book\n", "true", "null", "0x", "1e999", "\\UFFFFFFFF",
     "\\ud800", "\t", "\x85", "\u2028", "\ufeff", "\ud800", "9" * 400, ".nan", "~", "@", "`"]
)  # fmt: skip


def understood(data):
    """Whether it is a workflow; else it is refused with the places at which it is none."""
    try:
        problems = () if definition(data, "trip.yaml", ["find", "book"]).digests else None
    except InvalidWorkflow as error:
        problems = error.problems or None
    assert problems is not None
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems)
    return not problems


@st.composite
def damaged(draw):
    """The file with a few places cut out or filled with something odd."""
    text = FILE
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        until = draw(st.integers(at, min(len(text), at + 12)))
        text = text[:at] + draw(PIECES | st.text(max_size=4)) + text[until:]
    return text.encode("utf-8", "surrogatepass")


def test_a_damaged_file_is_understood_or_refused():
    found = Counter()

    @EXAMPLES
    @given(damaged())
    @example(FILE.encode())
    @example(b'steps: ["\\UFFFFFFFF"]')
    @example(b'steps: [{name: "\\ud800", agent: find, inputs: {x: "\\ud800"}}]')
    @example(b"%YAML 9.9\n---\na: 1")
    @example(b"%TAG ! tag:x,\n---\n!x a")
    def holds(data):
        found["understood" if understood(data) else "refused"] += 1

    holds()
    tell("Hostile workflow files", "A YAML file with a few places cut out or filled with something odd.", **found)
    assert found["understood"]
    assert found["refused"]


@EXAMPLES
@given(st.binary(max_size=60))
def test_bytes_are_understood_or_refused(data):
    understood(data)


@EXAMPLES
@given(st.text(alphabet=string.printable, max_size=40) | st.lists(PIECES, max_size=6).map("".join))
def test_a_text_is_a_condition_or_a_value_error(text):
    for read in (condition, lambda one: list(references(one))):
        with suppress(ValueError):
            read(text)

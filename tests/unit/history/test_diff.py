"""Claims about the difference of two checkpoints, and about how it reads."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, OrderedDict, deque
from dataclasses import FrozenInstanceError, dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import NamedTuple

import pytest
from pydantic import BaseModel

from holdfast.errors import InvalidArgument
from holdfast.history.alignment import align
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.diff import Change, compare

AT = datetime(2026, 1, 5, 10, 12, 3, tzinfo=UTC)


def checkpoint(id="chk_1", **fields):
    return Checkpoint(id=id, **{"agent_id": "booking-7", "timestamp": AT, "state": {}, **fields})


def of_states(old, new):
    return compare(checkpoint("chk_1", state={"x": old}), checkpoint("chk_2", state={"x": new}))


def told(old, new):
    """(kind, path) of every change between two values at state.x."""
    return [(change.kind, change.path) for change in of_states(old, new).changes]


def lines(diff):
    return str(diff).split("\n")[3:]


def messages(count):
    return [{"role": ("user", "assistant")[i % 2], "content": f"This is turn number {i}"} for i in range(count)]


# What is compared


def test_every_field_that_counts_is_compared_and_named_in_reading_order():
    first = checkpoint(status="RUNNING", collected_fields={"day": "Friday"}, required_fields=["day", "guests"])
    second = first.evolve(
        id="chk_2",
        status="COMPLETED",
        collected_fields={"day": "Friday", "guests": 4},
        required_fields=["day"],
        context_summary="Booked",
        metadata={"model": "m"},
        state={"turn": 1},
    )
    diff = compare(first, second)
    assert diff.changed_fields == [
        "status",
        "collected_fields.guests",
        "required_fields[1]",
        "context_summary",
        "metadata.model",
        "state.turn",
    ]
    assert (diff.first_id, diff.second_id) == ("chk_1", "chk_2")
    assert (diff.old_status, diff.new_status) == ("RUNNING", "COMPLETED")
    assert diff


def test_ids_times_and_kinds_are_no_change():
    diff = compare(checkpoint("chk_1"), checkpoint("chk_2", timestamp=AT + timedelta(1), kind="auto", position=9))
    assert not diff
    assert diff.changes == ()
    assert str(diff).endswith("1 d later: nothing changed")


def test_a_status_that_is_an_enum_member_is_the_word_it_is_stored_as():
    class Status(StrEnum):
        RUNNING = "RUNNING"

    assert not compare(checkpoint(status=Status.RUNNING), checkpoint(status="RUNNING"))


@pytest.mark.parametrize("side", [0, 1])
def test_a_listed_checkpoint_is_refused_with_the_advice_to_load_it(side):
    sides = [checkpoint("chk_1"), checkpoint("chk_2")]
    sides[side].state = None
    with pytest.raises(InvalidArgument, match="was listed, not loaded") as caught:
        compare(*sides)
    assert caught.value.checkpoint_id == sides[side].id
    assert "load" in caught.value.hint


def test_a_deleted_checkpoint_is_not_said_to_be_loadable():
    with pytest.raises(InvalidArgument, match="was deleted"):
        compare(checkpoint(), checkpoint(state=None, deleted=True))


def test_a_change_and_a_diff_are_frozen():
    diff = of_states(1, 2)
    with pytest.raises(FrozenInstanceError):
        diff.changes[0].path = "elsewhere"
    with pytest.raises(FrozenInstanceError):
        diff.first = diff.second
    assert diff.changes[0] == Change("state.x", "changed", 1, 2, ("state", "x"), ("state", "x"))
    assert repr(diff) == "<CheckpointDiff chk_1 → chk_2: 1 changed>"


# Sameness


class Color(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        (0.0, -0.0),
        ((1, 2), [1, 2]),
        ({1}, frozenset({1})),
        ("red", Color.RED),
        (b"a", bytearray(b"a")),
        (Decimal("1.0"), Decimal("1.00")),
        (AT, AT.astimezone(timezone(timedelta(hours=1)))),
        (None, False),
        ({}, []),
        ({"a": 1}, OrderedDict(a=1)),
        (math.nan, None),
        (deque([1]), deque([1], maxlen=4)),
    ],
)
def test_a_change_of_type_or_of_representation_is_a_change_that_can_be_seen(old, new):
    diff = of_states(old, new)
    assert [(change.kind, change.path) for change in diff.changes] == [("changed", "state.x")]
    old_text, _, new_text = lines(diff)[1].removeprefix("~ state.x: ").partition(" → ")
    assert old_text != new_text


@pytest.mark.parametrize(
    "value", [math.nan, complex(math.nan, -0.0), Decimal("NaN"), -0.0, Color.RED, AT, {math.nan}, b"x", 2**200]
)
def test_an_equal_copy_is_no_change(value):
    assert not of_states(value, copy.deepcopy(value))
    assert not of_states([value, {"k": value}], copy.deepcopy([value, {"k": value}]))


def test_the_order_of_keys_is_no_change():
    assert not of_states({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_a_key_that_changes_its_type_is_another_key():
    assert told({1: "a"}, {True: "a"}) == [("removed", "state.x[1]"), ("added", "state.x[True]")]


def test_two_nans_in_one_set_are_counted():
    assert told({float("nan")}, {float("nan"), float("nan")}) == [("changed", "state.x")]


# Paths


def test_keys_that_are_no_identifiers_are_quoted_and_other_keys_shown_as_they_are():
    old = {"a b": {"x": 1}, 3: 1, "3": 1, None: 1, (1, "b"): 1, Color.RED: 1, 'quo"te': 1, "\x1b[2J": 1}
    new = {key: {"x": 2} if key == "a b" else 2 for key in old}
    assert of_states(old, new).changed_fields == [
        'state.x["a b"].x',
        "state.x[3]",
        'state.x["3"]',
        "state.x[None]",
        "state.x[(1, 'b')]",
        "state.x[Color.RED]",
        'state.x["quo\\"te"]',
        'state.x["\\x1b[2J"]',
    ]


def test_paths_use_indexes_of_the_second_and_for_removed_ones_of_the_first():
    old = [{"gone": 1}, {"id": 1, "v": 1, "tags": ["x"]}, "kept"]
    new = ["inserted one", "inserted two", {"id": 1, "v": 2, "tags": []}, "kept", "end"]
    assert told(old, new) == [
        ("removed", "state.x[0]"),
        ("added", "state.x[0]"),
        ("added", "state.x[1]"),
        ("changed", "state.x[2].v"),
        ("removed", "state.x[1].tags[0]"),
        ("added", "state.x[4]"),
    ]


def test_a_path_that_lost_one_thing_and_got_another_is_listed_once():
    diff = of_states(["a long text that goes away, never to be seen"], [{"another": "thing"}])
    assert [change.kind for change in diff.changes] == ["removed", "added"]
    assert diff.changed_fields == ["state.x[0]"]


def test_elements_of_sets_are_added_and_removed():
    assert told({"new", "vip"}, {"vip", "dog"}) == [("removed", 'state.x{"new"}'), ("added", 'state.x{"dog"}')]


class Seat(NamedTuple):
    row: int
    number: int


@dataclass(frozen=True, slots=True)
class Guest:
    name: str
    diet: list


class Table(BaseModel):
    number: int
    guests: list[str]


def test_objects_are_compared_by_their_attributes():
    old = [Guest("Ann", ["vegan"]), Table(number=7, guests=["Ann"]), Seat(1, 2)]
    new = [Guest("Ann", ["vegan", "no nuts"]), Table(number=7, guests=["Ann", "Bob"]), Seat(1, 3)]
    assert told(old, new) == [
        ("added", "state.x[0].diet[1]"),
        ("added", "state.x[1].guests[1]"),
        ("changed", "state.x[2].number"),
    ]


def test_an_object_of_another_class_is_one_change():
    class Other(Enum):
        RED = "red"

    assert told(Guest("Ann", []), {"name": "Ann", "diet": []}) == [("changed", "state.x")]
    assert told([Color.RED], [Other.RED]) == [("changed", "state.x[0]")]


# Lists


def test_an_insertion_at_the_front_of_a_long_conversation_is_one_change():
    old = messages(1000)
    new = [{"role": "system", "content": "Be brief"}, *copy.deepcopy(old)]
    assert told(old, new) == [("added", "state.x[0]")]
    assert told(new, old) == [("removed", "state.x[0]")]


def test_scattered_edits_of_a_long_conversation_are_just_those():
    old = messages(1000)
    new = copy.deepcopy(old)
    new[900]["content"] += ", edited"
    new[10]["content"] += ", edited"
    del new[500]
    new.insert(100, {"role": "user", "content": "By the way"})
    assert told(old, new) == [
        ("changed", "state.x[10].content"),
        ("added", "state.x[100]"),
        ("removed", "state.x[500]"),
        ("changed", "state.x[900].content"),
    ]


def test_insertions_among_repeated_elements_are_found():
    old = [1, 0, 0, 1, 1, 0, 1, 0] * 200
    new = [*old[:300], 7, *old[300:900], 7, *old[900:]]
    assert told(old, new) == [("added", "state.x[300]"), ("added", "state.x[901]")]


def test_an_element_with_the_same_id_is_the_same_element_wherever_it_went():
    old = [{"id": i, "task": f"task {i}", "done": False} for i in range(4)]
    new = [{**old[3], "done": True}, *copy.deepcopy(old[:3])]
    diff = of_states(old, new)
    assert [(c.kind, c.path) for c in diff.changes] == [("moved", "state.x[0]"), ("changed", "state.x[0].done")]
    assert diff.changes[0].old_parts == ("state", "x", 3)


def test_different_ids_and_different_roles_are_never_one_element():
    assert told([{"id": 1, "v": "same"}], [{"id": 2, "v": "same"}]) == [
        ("removed", "state.x[0]"),
        ("added", "state.x[0]"),
    ]
    assert told(messages(2)[:1], messages(2)[1:]) == [("removed", "state.x[0]"), ("added", "state.x[0]")]


def test_a_call_and_its_result_are_two_elements_although_they_share_the_id_of_the_call():
    call = {"type": "rlm_start", "toolCallId": "c1", "code": "f()"}
    done = {"type": "rlm_complete", "toolCallId": "c1", "output": 1}
    assert told([call], [done]) == [("removed", "state.x[0]"), ("added", "state.x[0]")]
    assert told([done], [{**done, "output": 2}]) == [("changed", "state.x[0].output")]


def test_a_rewritten_turn_is_a_changed_turn_and_turns_after_it_are_added():
    old = [{"role": "user", "content": "Book a table"}]
    new = [{"role": "user", "content": "What's the weather?"}, {"role": "assistant", "content": "Fine"}]
    assert told(old, new) == [("changed", "state.x[0].content"), ("added", "state.x[1]")]


def test_similar_elements_are_paired_across_an_insertion():
    old = [{"name": f"n{i}", "v": 0} for i in range(50)]
    new = [{"name": "first", "other": 1}] + [{"name": f"n{i}", "v": 1} for i in range(50)]
    assert told(old, new) == [("added", "state.x[0]")] + [("changed", f"state.x[{i + 1}].v") for i in range(50)]


def test_tuples_and_deques_are_aligned_as_lists_are():
    assert told((1, 2, 3), (0, 1, 2, 3)) == [("added", "state.x[0]")]
    assert told(deque([1, 2, 3]), deque([1, 3])) == [("removed", "state.x[1]")]


class CountingLikeness:
    """Everything resembles everything; counts how often it was asked."""

    def __init__(self):
        self.asked = 0

    def identity(self, side, index):
        return None

    def likeness(self, old_index, new_index):
        self.asked += 1
        return 0.5


def test_lists_of_entirely_different_elements_are_paired_by_position_with_bounded_work():
    likeness = CountingLikeness()
    found = align(range(10_000), range(10_000, 20_000), likeness)
    assert found.kept == [(i, i) for i in range(10_000)]
    assert found.moved == []
    assert likeness.asked <= 10_000


def test_ten_thousand_unlike_messages_against_ten_thousand_others_end_in_an_answer():
    diff = of_states(list(range(10_000)), list(range(10_000, 20_000)))
    assert Counter(change.kind for change in diff.changes) == {"changed": 10_000}


@pytest.mark.parametrize("seed", [3, 7, 11])
def test_random_lists_of_few_values_end_in_an_answer_too(seed):
    old, new = ([i * i // step % seed % 3 for i in range(10_000)] for step in (5, 7))
    found = align(old, new, CountingLikeness())
    assert found.kept == sorted(set(found.kept))
    assert all(a < c and b < d for (a, b), (c, d) in zip(found.kept, found.kept[1:], strict=False))


# Depth


def nested(depth, leaf):
    for i in range(depth):
        leaf = {"k": leaf} if i % 2 else [leaf]
    return leaf


@pytest.mark.parametrize("depth", [10, 60, 1_000, 50_000])
def test_any_depth_is_compared_and_printed_without_a_recursion_error(depth):
    old, new = nested(depth, 1), nested(depth, 2)
    assert not of_states(old, nested(depth, 1))
    [change] = of_states(old, new).changes
    assert change.kind == "changed"
    assert len(change.new_parts) == min(depth + 2, 64)
    assert all(len(line) <= 100 for line in str(of_states(old, new)).split("\n"))


def test_a_value_that_contains_itself_does_not_hang():
    old, new = [1], [1]
    old.append(old)
    new.append(new)
    assert not of_states(old, old)
    assert str(of_states(old, new))


# Text


def conversation():
    first = checkpoint(
        "chk_01kdr3w5tq8h2m9xv4n7c6b5a1",
        agent_type="BookingAgent",
        status="WAITING_FOR_INPUT",
        collected_fields={"day": "Friday"},
        context_summary="Booking a table at Trattoria Lucia for Friday evening; the number of guests is still unknown.",
        state={
            "messages": [
                {"role": "user", "content": "Book me a table"},
                {"role": "assistant", "content": "For how many guests?"},
            ],
            "code": "def f(x):\n    return x + 1\n\nprint(f(2))\n",
            "todo": ["ask", "search", "book"],
        },
    )
    second = copy.deepcopy(first).evolve(
        id="chk_01kdr40z8m2p5s7t9w1y3a4c6e",
        timestamp=AT + timedelta(minutes=2, seconds=37),
        kind="auto",
        status="COMPLETED",
        context_summary="Booking a table at Trattoria Lucia for Saturday evening; the number of guests is known.",
    )
    second.collected_fields["guests"] = 4
    second.state["messages"] += [
        {"role": "user", "content": "Four of us\nand a dog"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": '{"q": "Lucia", "guests": 4}'}}],
        },
        {"role": "tool", "name": "search", "tool_call_id": "c1", "content": '[{"table": 7}]'},
        {
            "type": "assistant_message",
            "content": "I'll take it.",
            "toolCalls": [{"id": "c2", "name": "book", "arguments": {"table": 7}}],
        },
        {"type": "tool_result", "toolCallId": "c2", "content": "No such table", "isError": True},
        {"role": "assistant", "content": [{"type": "text", "text": "Sorry:"}, {"type": "image", "data": "…"}]},
    ]
    second.state["code"] = "def f(x):\n    return x + 2\n\nprint(f(3))\n"
    second.state["todo"] = ["book", "ask", "search"]
    return first, second


def test_a_diff_reads_like_this():
    assert str(compare(*conversation())) == READS_LIKE_THIS


READS_LIKE_THIS = r"""
--- chk_01kdr3w5tq8h2m9xv4n7c6b5a1  2026-01-05 10:12:03Z  manual  WAITING_FOR_INPUT
+++ chk_01kdr40z8m2p5s7t9w1y3a4c6e  2026-01-05 10:14:40Z  auto    COMPLETED
Agent booking-7 (BookingAgent), 2 min 37 s later: 7 added, 3 changed, 1 moved

~ status: WAITING_FOR_INPUT → COMPLETED

+ collected_fields.guests: 4

~ context_summary:
    - "…at Trattoria Lucia for Friday evening; the number of guests is still unknown."
    + "…at Trattoria Lucia for Saturday evening; the number of guests is known."

+ state.messages[2] user: "Four of us\nand a dog"
+ state.messages[3] assistant calls search(q="Lucia", guests=4)
+ state.messages[4] tool search: '[{"table": 7}]'
+ state.messages[5] assistant: "I'll take it." calls book(table=7)
+ state.messages[6] tool result (error): "No such table"
+ state.messages[7] assistant: "Sorry: [image]"
~ state.code, line 2 (and 1 more place):
    - "    return x + 1"
    + "    return x + 2"
> state.todo[0] (was [2]): "book"
""".strip()


def test_a_conversation_that_was_rewound_shows_what_is_gone():
    second, first = conversation()
    text = str(compare(first, second))
    assert "2 min 37 s earlier" in text
    assert '- state.messages[2] user: "Four of us\\nand a dog"' in text


def test_checkpoints_of_different_agents_say_so():
    first = checkpoint(agent_type="BookingAgent")
    text = str(compare(first, checkpoint("chk_2", agent_id="support-1")))
    assert "Different agents, booking-7 (BookingAgent) → support-1: nothing changed" in text
    text = str(compare(first, checkpoint("chk_2", agent_type="BookingAgentV2")))
    assert "Agent booking-7 (BookingAgent → BookingAgentV2): nothing changed" in text


def test_naive_and_aware_times_can_stand_in_one_header():
    text = str(compare(checkpoint(), checkpoint(timestamp=AT.replace(tzinfo=None))))
    assert "2026-01-05 10:12:03Z" in text


def test_a_long_text_is_cut_round_the_place_where_it_differs():
    old = "lorem ipsum " * 400 + "on Friday at seven" + " dolor sit" * 400
    diff = of_states(old, old.replace("Friday", "Saturday"))
    _, head, gone, come = lines(diff)
    assert head == "~ state.x:"
    assert "on Friday at seven" in gone
    assert "on Saturday at seven" in come
    assert len(gone) <= 100 >= len(come)


def test_many_changes_of_one_field_are_summed_up():
    text = str(of_states({}, {f"k{i}": i for i in range(5_000)}))
    assert text.count("\n") < 50
    assert "4,965 more here (4,965 added); diff.changes has them all" in text
    assert text.endswith("+ state.x.k4999: 4999")


def test_a_multi_line_text_shows_only_the_first_lines_that_differ():
    old = "\n".join(f"line {i}" for i in range(1000))
    new = old.replace("line 500\n", "".join(f"new {i}\n" for i in range(10)))
    assert lines(of_states(old, new))[1:] == [
        "~ state.x, line 501:",
        '    - "line 500"',
        '    + "new 0"',
        '    + "new 1"',
        '    + "new 2"',
        '    + "new 3"',
        "    + … 6 more lines",
    ]


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J\x1b[31m", "\u202egnp.exe", "\ud800", "\r\b\b", "\x00", "a\u2028b"],
    ids=["ansi", "right-to-left", "surrogate", "backspaces", "null", "separator"],
)
def test_no_value_key_or_name_can_reach_the_terminal_as_a_command(hostile):
    first = checkpoint(agent_id=hostile, status=hostile, state={"a": hostile, "m": []})
    second = checkpoint(
        "chk_" + hostile,
        agent_type=hostile,
        status="x" + hostile,
        context_summary=hostile + "\n" + hostile,
        collected_fields={hostile: {hostile}},
        state={
            "a": hostile + "!",
            hostile: b"x",
            "m": [{"role": hostile, "content": hostile, "toolCalls": [{"name": hostile, "arguments": {hostile: 1}}]}],
        },
    )
    text = str(compare(first, second))
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert text.encode()


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000,
        "宽" * 200,
        "🐕" * 200,
        "\x00" * 200,
        {"k" * 300: "v" * 300},
        [[["deep"] * 50] * 50] * 50,
        b"\xff" * 10_000,
        10**5_000,
        {"role": "user" * 50, "content": "c" * 500},
        {
            "role": "assistant",
            "content": "c" * 500,
            "tool_calls": [{"name": "n" * 50, "arguments": {"a" * 90: "b" * 90}}] * 9,
        },
        Table(number=1, guests=["name" * 30] * 30),
        {f"element {i}" * 9 for i in range(40)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_line_is_wider_than_a_hundred_columns(value):
    from holdfast.history.preview import columns

    key = "a very long key " * 20
    for old, new in [
        ({}, {key: value}),
        ({"x": 1}, {"x": value}),
        ([value], [value, value]),
        ({key: value}, {key: None}),
    ]:
        text = str(of_states(old, new))
        assert max(columns(line) for line in text.split("\n")) <= 100
        assert text.count("\n") < 12


# JSON


def test_to_dict_is_plain_json_with_exact_values():
    diff = compare(*conversation())
    plain = json.loads(json.dumps(diff.to_dict()))
    assert plain["first_id"] == diff.first_id
    assert plain["old_status"] == "WAITING_FOR_INPUT"
    assert plain["changed_fields"] == diff.changed_fields
    by_path = {(change["kind"], change["path"]): change for change in plain["changes"]}
    assert by_path["added", "collected_fields.guests"] == {"path": "collected_fields.guests", "kind": "added", "new": 4}
    moved = by_path["moved", "state.todo[0]"]
    assert (moved["old_index"], moved["new"]) == (2, "book")


def test_to_dict_keeps_what_json_has_no_word_for():
    from holdfast.history.jsonform import from_json

    [change] = json.loads(json.dumps(of_states((1, 2), {b"bytes"}).to_dict()))["changes"]
    assert from_json(change["old"]) == (1, 2)
    assert from_json(change["new"]) == {b"bytes"}

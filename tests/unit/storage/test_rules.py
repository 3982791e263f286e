"""The rules by themselves: who owns an agent after a change, and which records the change becomes."""

import pytest

from holdfast.errors import InvalidArgument, OwnedElsewhere, StaleWriter, UnknownCheckpoint, WrongOwner
from holdfast.history.records import CheckpointDeleted, CheckpointSaved, Rewind, UserMessage
from holdfast.storage import rules
from holdfast.storage.protocol import Change
from holdfast.storage.rules import Head, Place
from holdfast.testing.samples import saving

ME, LIVE, DEAD = "me", "live", "dead"
NEW = Head(user_id="user")
AT_FIVE = Head(user_id="user", seq=5, tip_seq=4, tip_id="chk_tip", epoch=2)
PLACES = {"chk_tip": Place("agent", 4), "chk_old": Place("agent", 2), "chk_theirs": Place("other", 1)}


def change(**fields):
    return Change(agent_id="agent", user_id="user", **fields)


def claim(head, *, joined=False, **fields):
    return rules.claim(change(**fields), head, writer=ME, joined=joined, alive=lambda writer: writer != DEAD)


def records_of(changed, head, *, deleted=()):
    return rules.records_of(changed, head, place_of=PLACES.get, deleted=deleted, digest=b"digest")


# --- ownership


@pytest.mark.parametrize(
    ("owner", "fields", "expected"),
    [
        (None, {}, (2, None)),  # a single commit owns nothing afterwards and needs no epoch of its own
        (None, {"hold": True}, (3, ME)),
        (ME, {"hold": True}, (2, ME)),  # joins what this writer does already
        (ME, {}, (2, ME)),
        (ME, {"epoch": 2}, (2, None)),
        (ME, {"epoch": 2, "hold": True}, (2, ME)),
        (DEAD, {}, (3, None)),
        (DEAD, {"hold": True}, (3, ME)),
        (LIVE, {"hold": True, "take_over": True}, (3, ME)),
    ],
)
def test_epoch_and_owner_after_a_change(owner, fields, expected):
    assert claim(AT_FIVE.evolve(owner=owner), **fields) == expected


@pytest.mark.parametrize("epoch", [1, 3])
def test_only_the_epoch_of_now_continues(epoch):
    with pytest.raises(StaleWriter) as refused:
        claim(AT_FIVE.evolve(owner=ME), epoch=epoch)
    assert refused.value.epoch == epoch


@pytest.mark.parametrize("owner", [None, LIVE, DEAD])
def test_an_epoch_continues_for_its_owner_only(owner):
    with pytest.raises(StaleWriter):
        claim(AT_FIVE.evolve(owner=owner), epoch=2, take_over=True)


def test_a_live_owner_is_named():
    with pytest.raises(OwnedElsewhere) as refused:
        claim(AT_FIVE.evolve(owner=LIVE), hold=True)
    assert (refused.value.owner, refused.value.epoch, refused.value.agent_id) == (LIVE, 2, "agent")


def test_an_inner_operation_leaves_the_owner():
    assert claim(AT_FIVE.evolve(owner=ME), joined=True, epoch=2) == (2, ME)


def test_another_users_write_is_refused_and_a_first_write_is_not():
    rules.check_owner(change(), None)
    rules.check_owner(change(), NEW)
    with pytest.raises(WrongOwner):
        rules.check_owner(change(), Head(user_id="them"))


@pytest.mark.parametrize(
    ("fields", "advances"),
    [
        ({}, False),
        ({"delete": ("chk_x",), "pin": {"chk_y": True}}, False),
        ({"erase": True}, False),
        ({"hold": True}, True),
        ({"epoch": 0}, True),
        ({"acknowledge": 0}, True),
        ({"records": (UserMessage(content=""),)}, True),
    ],
)
def test_what_needs_ownership(fields, advances):
    assert change(**fields).advances is advances


# --- records


def test_records_are_numbered_on_from_the_head_deletions_first_and_the_checkpoint_last():
    changed = saving(parent="chk_old", records=(UserMessage(content="hello"),), id="chk_new")
    records = records_of(changed, AT_FIVE, deleted=("chk_gone",))
    assert [(type(record), record.seq) for record in records] == [
        (CheckpointDeleted, 6),
        (Rewind, 7),
        (UserMessage, 8),
        (CheckpointSaved, 9),
    ]
    assert records[1].to == 2
    assert (records[3].id, records[3].parent, records[3].digest) == ("chk_new", "chk_old", b"digest")


@pytest.mark.parametrize("parent", [None, "chk_tip", "chk_theirs", "chk_unknown"])
def test_only_an_older_parent_of_the_same_agent_rewinds(parent):
    assert [type(record) for record in records_of(saving(parent=parent), AT_FIVE)] == [CheckpointSaved]


def test_a_parent_from_before_an_erasure_rewinds_nothing():
    erased = AT_FIVE.evolve(floor=5, tip_id=None, tip_seq=0)
    assert [type(record) for record in records_of(saving(parent="chk_old"), erased)] == [CheckpointSaved]


def test_continuing_the_newest_makes_it_the_parent():
    [record] = records_of(saving(continue_newest=True, parent="chk_old"), AT_FIVE)
    assert record.parent == "chk_tip"


def test_a_forks_first_record_says_where_it_came_from():
    [record] = records_of(saving(fork_of="chk_theirs", parent="chk_theirs"), NEW)
    assert record.forked_from == {"agentId": "other", "seq": 1, "checkpointId": "chk_theirs"}


def test_a_fork_of_nothing_is_refused():
    with pytest.raises(UnknownCheckpoint):
        records_of(saving(fork_of="chk_unknown"), NEW)


def test_one_commit_changes_an_agent_once():
    rules.check_distinct((saving("a"), saving("b")))
    with pytest.raises(InvalidArgument):
        rules.check_distinct((saving("a"), saving("b"), saving("a")))

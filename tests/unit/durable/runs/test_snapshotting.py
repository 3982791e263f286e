"""When a snapshot is due: claims about the policy alone, with invented costs."""

from __future__ import annotations

import itertools

from holdfast.durable.runs.snapshotting import SnapshotPolicy


def taken_among(calls, *, dump, commit, more, turn):
    """The numbers of the calls that had a snapshot, in a run where everything costs the same every time."""
    policy, taken = SnapshotPolicy(), []
    for number in range(calls):
        if due := policy.wants(turn):
            policy.taken(dump)
            taken.append(number)
        policy.committed(commit + (more if due else 0), snapshot=due)
    return taken


def test_the_first_call_has_one_whatever_it_costs():
    assert taken_among(1, dump=60, commit=0.001, more=60, turn=0) == [0]


def test_cheap_ones_are_taken_at_seven_of_eight_calls():
    taken = taken_among(82, dump=0.0001, commit=0.001, more=0.0001, turn=0)
    assert taken == [0, *(number for number in range(2, 82) if (number - 1) % 8)]


def test_a_dear_one_is_taken_when_a_replay_would_cost_four_times_as_much():
    taken = taken_among(2000, dump=0.010, commit=0.001, more=0.015, turn=0.0008)
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    assert set(gaps[5:]) == {100}  # 4 x 25 ms at 1 ms a call


def test_what_a_commit_takes_longer_with_it_counts_as_much_as_taking_it():
    in_the_sandbox = taken_among(300, dump=0.010, commit=0.001, more=0, turn=0.0008)
    in_the_store = taken_among(300, dump=0.0001, commit=0.001, more=0.010, turn=0.0008)
    assert abs(len(in_the_sandbox) - len(in_the_store)) <= 3
    assert len(in_the_store) < 15


def test_a_program_that_computes_for_long_gets_one_before_that_would_be_done_again():
    assert taken_among(20, dump=0.010, commit=0.001, more=0, turn=0.1) == list(range(20))


def test_a_disk_that_becomes_slow_makes_snapshots_cheap():
    policy = SnapshotPolicy()
    for _ in range(20):
        policy.wants(0)
        policy.taken(0.002)
        policy.committed(0.0002, snapshot=False)
    assert not policy.wants(0)
    for _ in range(40):
        policy.committed(0.010, snapshot=False)
    assert policy.wants(0)

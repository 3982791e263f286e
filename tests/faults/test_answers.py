"""The judge of the damage tests is judged: every way in which an answer can be wrong is seen."""

import pytest

from holdfast.errors import Corrupt
from holdfast.history.records import snapshot_of
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from tests.faults.stores import answers, refused, small_store, wrong

pytestmark = [pytest.mark.faults, pytest.mark.anyio]

LISTS = ("agents", "list of", "list oldest", "runs", "pending", "operations", "inbox", "group", "history")


@pytest.fixture(scope="module")
async def right(tmp_path_factory):
    store = SQLiteCheckpointStorage(await small_store(tmp_path_factory.mktemp("answers")), read_only=True)
    given = await answers(store)
    await store.close()
    assert not refused(given)
    return given


def named(right, *beginnings):
    return [name for name, answer in right.items() if name.startswith(beginnings) and answer]


def without_snapshots(history):
    return [one if snapshot_of(one) is None else one.evolve(snapshot=None) for one in history]


async def test_right_answers_errors_and_snapshots_that_are_not_kept_are_not_wrong(right):
    assert wrong(dict(right), right) == []
    assert wrong({name: Corrupt("it is damaged") for name in right}, right) == []
    cached = {name: without_snapshots(answer) for name, answer in right.items() if name.startswith("history")}
    assert cached != {name: right[name] for name in cached}
    assert wrong(right | cached | dict.fromkeys(named(right, "snapshot")), right) == []


@pytest.mark.parametrize("way", ["nothing", "no first", "no last", "one twice", "in another order", "of another"])
async def test_a_list_is_wrong_when_anything_is_missing_added_or_moved(right, way):
    for name in named(right, *LISTS):
        answer = right[name]
        others = [one for other in named(right, "history", "list of agent") for one in right[other]]
        changed = {
            "nothing": [],
            "no first": answer[1:],
            "no last": answer[:-1],
            "one twice": [*answer, answer[-1]],
            "in another order": answer[::-1],
            "of another": [*answer[:-1], next(one for one in others if one != answer[-1])],
        }[way]
        assert changed == answer or wrong(right | {name: changed}, right) == [name]
        if name.startswith("history"):
            bare = without_snapshots(changed)
            assert bare == without_snapshots(answer) or wrong(right | {name: bare}, right) == [name]


async def test_any_other_answer_is_wrong_when_it_is_another(right):
    for name in named(right, "agent ", "position", "content", "snapshot"):
        another = b"another" if name.startswith("snapshot") else None
        assert wrong(right | {name: another}, right) == [name]
    for name in [name for name, answer in right.items() if answer is None]:
        assert wrong(right | {name: right["agent ada"]}, right) == [name]

"""One agent's checkpoints: what is kept, what comes back or does not, what goes by itself."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from holdfast import (
    Corrupt,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    InvalidArgument,
    SQLiteCheckpointStorage,
    UnknownCheckpoint,
    UnknownValueType,
    WrongAgent,
)
from holdfast.blocking import AgentState, CheckpointManager
from holdfast.drift.detector import DriftDetector
from holdfast.drift.protocol import Event
from holdfast.drift.repetition import Repetition
from tests.unit.durable.samples import Clock, ThreeMethods


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["files", "memory", "sqlite"])
def open_manager(request, tmp_path, clock):
    """Opens managers of one storage."""
    storage = {
        "files": lambda: FileCheckpointStorage(tmp_path / "files"),
        "memory": InMemoryCheckpointStorage,
        "sqlite": lambda: SQLiteCheckpointStorage(tmp_path / "store.db"),
    }[request.param]()
    opened = []

    def open_(agent_id="agent-3", cls=CheckpointManager, **options):
        opened.append(cls(agent_id, storage, **{"now": clock, **options}))
        return opened[-1]

    yield open_
    for manager in opened:
        manager.close()


@pytest.fixture
def manager(open_manager):
    manager = open_manager()
    manager.state.current_task.update(id="t1", status="in_progress", progress_percentage=40)
    return manager


@pytest.fixture
def in_files(tmp_path, clock):
    manager = CheckpointManager("agent-3", directory=tmp_path / "files", now=clock)
    manager.state.current_task.update(id="t1", status="in_progress", progress_percentage=40)
    return manager


class Sections(CheckpointManager):
    """An agent of its own making, which can be told to fail."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.own = {"task": {"status": "busy", "n": 0}, "mail": {"n": 0}, "context": {"n": 0}, "memory": {"n": [0]}}
        self.fails = None
        self.threads = set()

    def set(self, n):
        for section in self.own.values():
            section["n"] = n
        self.own["memory"]["n"] = [n]

    def _put(self, name, state):
        self.threads.add(threading.current_thread())
        self.own[name].update(state)
        if self.fails == name and state["n"] not in (7, [7]):
            raise ZeroDivisionError(name)

    def _get_current_task_state(self):
        self.threads.add(threading.current_thread())
        return self.own["task"]

    def _get_mailbox_state(self):
        return self.own["mail"]

    def _get_operational_context(self):
        return self.own["context"]

    def _get_memory_state(self):
        return self.own["memory"]

    def _restore_task_state(self, state):
        self._put("task", state)

    def _restore_mailbox_state(self, state):
        self._put("mail", state)

    def _restore_operational_context(self, state):
        self._put("context", state)

    def _restore_memory_state(self, state):
        self._put("memory", state)


# --- keeping and restoring


def test_what_was_kept_comes_back(manager):
    manager.state.memory["short_term"].append({"said": "hello"})
    path = manager.create_checkpoint("routine")
    task = manager.state.current_task
    task["progress_percentage"] = 90
    manager.state.memory["short_term"].clear()
    manager.state.mailbox["surprise"] = True
    assert manager.restore_checkpoint(path) is True
    assert manager.state.current_task is task, "whoever holds a section sees the change"
    assert task["progress_percentage"] == 40
    assert manager.state.memory["short_term"] == [{"said": "hello"}]
    assert "surprise" not in manager.state.mailbox


def test_another_manager_of_the_agent_finds_and_restores_it(manager, open_manager):
    path = manager.create_checkpoint("routine")
    other = open_manager()
    assert other.get_latest_checkpoint("routine") == path
    assert other.restore_checkpoint(other.get_latest_checkpoint())
    assert other.state == manager.state


def test_what_is_restored_is_a_copy(manager):
    manager.state.memory["short_term"] = [[1]]
    path = manager.create_checkpoint("routine")
    for _ in range(2):
        manager.restore_checkpoint(path)
        assert manager.state.memory["short_term"] == [[1]]
        manager.state.memory["short_term"][0].append(2)


@pytest.mark.parametrize("kind", ["manual", "rutine", "", None])
def test_other_kinds_are_refused_with_the_three_there_are(manager, kind):
    with pytest.raises(InvalidArgument) as caught:
        manager.create_checkpoint(kind)
    assert "routine, pre_operation and recovery" in caught.value.hint
    assert manager.list_checkpoints() == []
    with pytest.raises(InvalidArgument):
        manager.get_latest_checkpoint("rutine")


def test_the_latest_is_of_its_kind_and_lists_are_newest_first(manager, open_manager, clock):
    assert manager.get_latest_checkpoint() is None
    open_manager("somebody-else").create_checkpoint("routine")
    first = manager.create_checkpoint("routine")
    recovery = manager.create_checkpoint("recovery")
    clock.pass_days(-1)
    last = manager.create_checkpoint("routine")
    assert manager.list_checkpoints() == [last, recovery, first]
    assert manager.list_checkpoints("routine") == [last, first]
    assert manager.get_latest_checkpoint() == manager.get_latest_checkpoint("routine") == last
    assert manager.get_latest_checkpoint("recovery") == recovery
    assert manager.get_latest_checkpoint("pre_operation") is None


def test_a_subclass_keeps_what_it_likes_on_the_callers_thread(open_manager):
    manager = open_manager(cls=Sections)
    manager.set(1)
    path = manager.create_checkpoint("routine")
    manager.set(2)
    assert manager.restore_checkpoint(path)
    assert [section["n"] for section in manager.own.values()] == [1, 1, 1, [1]]
    assert manager.threads == {threading.current_thread()}


@pytest.mark.parametrize("fails", ["task", "mail", "context", "memory"])
def test_a_restore_is_whole_or_nothing(open_manager, fails):
    manager = open_manager(cls=Sections)
    manager.set(1)
    path = manager.create_checkpoint("routine")
    manager.set(7)
    manager.fails = fails
    with pytest.raises(ZeroDivisionError, match=fails):
        manager.restore_checkpoint(path)
    assert [section["n"] for section in manager.own.values()] == [7, 7, 7, [7]]


def test_what_cannot_be_put_back_is_told_with_the_first_error(open_manager, caplog):
    manager = open_manager(cls=Sections)
    manager.set(1)
    path = manager.create_checkpoint("routine")
    manager.set(2)
    manager.fails = "context"
    with caplog.at_level(logging.ERROR, "holdfast"), pytest.raises(ZeroDivisionError) as caught:
        manager.restore_checkpoint(path)
    assert "operational_context of agent agent-3 could not be put back" in caught.value.__notes__[0]
    assert [manager.own[name]["n"] for name in ("task", "mail")] == [2, 2]


def test_another_agents_checkpoint_is_refused(manager, open_manager):
    other = open_manager("agent-4")
    path = other.create_checkpoint("routine")
    before = manager.state.current_task.copy()
    for refused in (manager.restore_checkpoint, manager.delete_checkpoint):
        with pytest.raises(WrongAgent, match="agent-4") as caught:
            refused(path)
        assert caught.value.agent_id == "agent-4"
    assert manager.state.current_task == before
    assert other.list_checkpoints() == [path]


def test_an_unknown_checkpoint_is_named(manager, tmp_path):
    for unknown in (str(tmp_path / "none.checkpoint"), "chk_none"):
        with pytest.raises(UnknownCheckpoint, match="none"):
            manager.restore_checkpoint(unknown)
        assert manager.delete_checkpoint(unknown) is False


def test_what_cannot_be_kept_is_named_and_nothing_is_saved(manager):
    manager.state.memory["session"]["socket"] = object()
    with pytest.raises(UnknownValueType) as caught:
        manager.create_checkpoint("routine")
    assert caught.value.path == "state.memory.session.socket"
    assert manager.list_checkpoints() == []


def test_a_section_must_be_a_dict(open_manager):
    manager = open_manager(cls=Sections)
    manager.own["mail"] = []
    with pytest.raises(InvalidArgument, match="mailbox"):
        manager.create_checkpoint("routine")


def test_going_on_from_an_older_checkpoint_is_a_branch(manager):
    first = manager.create_checkpoint("pre_operation")
    manager.create_checkpoint("routine")
    manager.restore_checkpoint(first)
    branch = manager.create_checkpoint("routine")
    read = manager._shelf.read
    assert read(branch).parent_checkpoint_id == read(first).id


def test_a_state_can_be_given_and_have_more_keys(open_manager):
    state = AgentState(current_task={"id": 1, "status": "busy"}, memory={"facts": ("a", 1)})
    manager = open_manager(state=state)
    path = manager.create_checkpoint("routine")
    state.memory.clear()
    manager.restore_checkpoint(path)
    assert state.memory == {"facts": ("a", 1)}


def test_an_agent_needs_an_id():
    with pytest.raises(InvalidArgument):
        CheckpointManager("")


def test_any_storage_will_do():
    manager = CheckpointManager("ada", ThreeMethods())
    id_ = manager.create_checkpoint("recovery")
    manager.state.mailbox["pending_count"] = 3
    assert manager.restore_checkpoint(id_)
    assert manager.state.mailbox["pending_count"] == 0


@pytest.mark.blocks_the_loop("as a cell of a notebook does")
async def test_it_works_below_a_running_loop(tmp_path):
    manager = CheckpointManager("ada", directory=tmp_path)
    assert manager.restore_checkpoint(manager.create_checkpoint("routine"))


def test_threads_may_share_a_manager(manager):
    threads = [threading.Thread(target=manager.create_checkpoint, args=("pre_operation",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain = [manager._shelf.read(path) for path in manager.list_checkpoints()]
    assert [one.parent_checkpoint_id for one in chain] == [one.id for one in chain[1:]] + [None]


# --- files


def test_by_default_the_checkpoint_is_a_file_that_a_person_can_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    manager = CheckpointManager("agent-3")
    manager.state.operational_context["goals"].append("ship")
    path = manager.create_checkpoint("routine")
    assert isinstance(path, Path)
    assert os.fspath(path).startswith("runtime/agent_comms/checkpoints/agent-3_")
    assert path.name.endswith("_routine.checkpoint")
    document = json.loads(path.read_text())
    assert (document["agent_id"], document["checkpoint_type"]) == ("agent-3", "routine")
    assert document["state"] == {
        "current_task": {"id": None, "status": "idle", "progress_percentage": 0, "context": {}},
        "mailbox": {"last_processed_id": None, "pending_count": 0},
        "operational_context": {"goals": ["ship"], "constraints": [], "decisions": []},
        "memory": {"short_term": [], "session": {}},
    }


def test_a_path_may_be_text(in_files):
    path = in_files.create_checkpoint("routine")
    assert in_files.restore_checkpoint(str(path))
    in_files.create_checkpoint("routine")
    assert in_files.delete_checkpoint(str(path))


@pytest.mark.parametrize("damage", [
    lambda text: text.replace('"progress_percentage": 40', '"progress_percentage": 99'),
    lambda text: text[: len(text) // 2],
    lambda text: "",
])  # fmt: skip
def test_a_damaged_file_is_refused_by_name_kept_and_can_be_deleted(in_files, damage):
    path = in_files.create_checkpoint("routine")
    path.write_text(damage(path.read_text()))
    in_files.state.current_task["progress_percentage"] = 50
    with pytest.raises(Corrupt) as caught:
        in_files.restore_checkpoint(path)
    assert caught.value.path == str(path)
    assert in_files.state.current_task["progress_percentage"] == 50
    assert path.exists()
    assert in_files.delete_checkpoint(path) is True
    assert not path.exists()


def home_made(path, **changes):
    state = {"current_task": {"status": "x"}, "mailbox": {}, "operational_context": {}, "memory": {"a": 1}}
    document = {"agent_id": "agent-3", "timestamp": "2026-01-01T00:00:00", "checkpoint_type": "routine", "version": 1}
    path.write_text(json.dumps({**document, "state": state, **changes}))
    return path


def test_a_home_made_file_without_integrity_restores_with_a_warning(in_files, tmp_path, caplog):
    path = home_made(tmp_path / "mine.checkpoint")
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert in_files.restore_checkpoint(path)
    assert "no integrity field" in caplog.text
    assert in_files.state.memory == {"a": 1}


def test_a_verified_file_restores_without_a_warning(in_files, caplog):
    with caplog.at_level(logging.WARNING, "holdfast"):
        in_files.restore_checkpoint(in_files.create_checkpoint("routine"))
    assert caplog.text == ""


def test_a_file_that_lacks_a_section_is_refused(in_files, tmp_path):
    path = home_made(tmp_path / "mine.checkpoint", state={"current_task": {}, "mailbox": 7, "memory": {}})
    with pytest.raises(Corrupt, match="no mailbox, operational_context") as caught:
        in_files.restore_checkpoint(path)
    assert caught.value.path == str(path)


def test_a_copy_elsewhere_can_be_restored_but_not_deleted(in_files, tmp_path):
    path = in_files.create_checkpoint("routine")
    copy = tmp_path / "copy.checkpoint"
    copy.write_bytes(path.read_bytes())
    assert in_files.restore_checkpoint(copy)
    assert in_files.delete_checkpoint(copy) is False
    assert copy.exists()
    assert in_files.list_checkpoints() == [path]


# --- what goes by itself


def test_the_last_three_routine_checkpoints_stay(manager):
    made = [manager.create_checkpoint("routine") for _ in range(5)]
    assert manager.list_checkpoints() == made[:1:-1]


def test_how_many_stay_is_an_option_and_the_newest_always_does(open_manager):
    for routine_max, left in ((1, 1), (0, 1), (5, 5)):
        manager = open_manager(f"agent-{routine_max}", routine_max=routine_max)
        made = [manager.create_checkpoint("routine") for _ in range(6)]
        assert manager.list_checkpoints() == made[::-1][:left]


def test_recovery_checkpoints_stay_seven_days(manager, clock):
    manager.create_checkpoint("recovery")
    clock.pass_days(6)
    second = manager.create_checkpoint("recovery")
    clock.pass_days(2)
    third = manager.create_checkpoint("recovery")
    assert manager.list_checkpoints() == [third, second]
    clock.pass_days(100)
    assert manager.get_latest_checkpoint() == third


def test_pre_operation_checkpoints_stay_until_deleted_or_completed(manager, clock):
    made = [manager.create_checkpoint("pre_operation") for _ in range(5)]
    clock.pass_days(100)
    for _ in range(5):
        manager.create_checkpoint("routine")
    assert manager.list_checkpoints("pre_operation") == made[::-1]
    assert manager.complete_operation() is True
    assert manager.complete_operation(made[0]) is True
    assert manager.delete_checkpoint(made[1]) is True
    assert manager.delete_checkpoint(made[1]) is False
    assert manager.list_checkpoints("pre_operation") == [made[3], made[2]]
    assert len(manager.list_checkpoints("routine")) == 3


def test_without_an_operation_there_is_none_to_complete(manager):
    manager.create_checkpoint("routine")
    assert manager.complete_operation() is False


# --- operations


def test_a_successful_operation_leaves_its_work_and_no_checkpoint(manager):
    with manager.operation("deploy") as path:
        assert manager.list_checkpoints() == [path]
        manager.state.current_task["progress_percentage"] = 100
    assert manager.list_checkpoints() == []
    assert manager.state.current_task["progress_percentage"] == 100


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failed_operation_is_undone_and_its_exception_goes_on(manager, error):
    with pytest.raises(error), manager.operation("deploy") as path:  # noqa: PT012 - a block is what an operation is
        manager.state.current_task["progress_percentage"] = 100
        inner = manager.create_checkpoint("routine")
        raise error
    assert manager.state.current_task["progress_percentage"] == 40
    assert manager.list_checkpoints() == [inner, path]
    again = manager._shelf.read(manager.create_checkpoint("routine"))
    assert again.parent_checkpoint_id == manager._shelf.read(path).id


def test_an_operation_that_cannot_be_undone_still_raises_its_own_error(open_manager, caplog):
    manager = open_manager(cls=Sections)
    with pytest.raises(KeyError) as caught, manager.operation("deploy"):  # noqa: PT012
        manager.fails = "mail"
        raise KeyError
    assert any("could not be brought back" in note for note in caught.value.__notes__)
    assert "could not be brought back" in caplog.text


def test_operations_nest(manager):
    with manager.operation("outer"):
        with pytest.raises(ZeroDivisionError), manager.operation("inner"):  # noqa: PT012
            manager.state.mailbox["pending_count"] = 1
            raise ZeroDivisionError
        assert manager.state.mailbox["pending_count"] == 0
        manager.create_checkpoint("routine")
    assert len(manager.list_checkpoints("pre_operation")) == 1


# --- drift


def test_an_agent_that_gets_on_does_not_drift(manager):
    for n in range(10):
        manager.state.current_task["progress_percentage"] = n
        manager.create_checkpoint("routine")
        assert manager.detect_drift() is False


def test_checkpoints_of_an_unchanged_busy_agent_are_drift(manager):
    drifting = []
    for _ in range(5):
        manager.create_checkpoint("routine")
        drifting.append(manager.detect_drift())
    assert drifting == [False] * 3 + [True] * 2
    assert manager.drift.kind == "repetition"
    manager.state.current_task["progress_percentage"] = 41
    manager.create_checkpoint("routine")
    assert manager.detect_drift() is False


@pytest.mark.parametrize(
    "task", [{}, {"status": "idle"}, {"status": "Completed"}, {"status": "x", "progress_percentage": 100}]
)
def test_an_idle_agent_does_not_drift(manager, task):
    manager.state.put_back("current_task", task)
    for _ in range(10):
        manager.create_checkpoint("routine")
    assert manager.detect_drift() is False


def test_what_is_observed_takes_the_place_of_checkpoints(manager):
    for n in range(10):
        assert manager.observe(Event(action="read", arguments={"page": n})) is None
        manager.create_checkpoint("routine")
    assert manager.detect_drift() is False
    drifts = [manager.observe(Event(action="read", arguments={"page": 1})) for _ in range(5)]
    assert drifts[-1] == manager.drift
    assert manager.detect_drift() is True


def test_the_detectors_state_is_part_of_the_checkpoint(manager, open_manager):
    same = Event(action="read", arguments={"page": 1})
    for _ in range(2):
        manager.observe(same)
    path = manager.create_checkpoint("routine")
    for _ in range(2):
        manager.observe(same)
    assert manager.detect_drift()
    other = open_manager(detector=DriftDetector())
    for restored in (manager, other):
        restored.restore_checkpoint(path)
        assert restored.detect_drift() is False
        assert [restored.observe(same) is not None for _ in range(2)] == [False, True]


def test_a_detector_of_ones_own_is_asked(open_manager):
    class Impatient(DriftDetector):
        def __init__(self):
            super().__init__(repetition=Repetition(times=2))

    manager = open_manager(detector=Impatient())
    manager.state.current_task["status"] = "busy"
    manager.create_checkpoint("routine")
    manager.create_checkpoint("routine")
    assert manager.detect_drift() is True

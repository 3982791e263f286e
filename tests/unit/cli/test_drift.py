"""`holdfast drift`: alarms in recorded runs and in histories, weights, pictures, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from holdfast import SQLiteCheckpointStorage
from holdfast.history.records import AssistantMessage, ToolResult
from holdfast.testing import samples

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")


def written(path, *events):
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    return path


@pytest.fixture
def runs(tmp_path):
    """A run that goes astray, and one that does not."""
    loop = [{"run": "loop", "action": "read", "args": {"path": "a"}, "obs": "x", "ts": n} for n in range(5)]
    work = [{"run": "work", "action": "read", "args": {"path": n}, "obs": f"result {n}", "ts": n} for n in range(9)]
    return written(tmp_path / "runs.jsonl", {"kind": "run", "run": "loop", "success": False}, *loop, *work)


def test_alarms_are_told_with_their_evidence(holdfast, runs):
    ran = holdfast("drift", runs)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "loop  event 4 of 5  repetition  read was done 4 times in a row with the same outcome",
        "  evidence: action read; count 4; events 1, 2, 3, 4",
        "2 runs, 14 events: 1 of the runs went astray",
    ]
    assert holdfast("drift", "check", runs).out == ran.out


def test_programs_get_the_same_in_json(holdfast, runs):
    for line in (["drift", "--json", runs], ["drift", runs, "--json"], ["--json", "drift", runs]):
        [loop, work] = json.loads(holdfast(*line).out)
        assert work == {"run": "work", "events": 9, "alarms": []}
        [alarm] = loop["alarms"]
        assert (alarm["event"], alarm["kind"], alarm["score"]) == (4, "repetition", 1.0)
        assert alarm["evidence"] == {"action": "read", "count": 4, "events": [1, 2, 3, 4]}


def test_signals_can_be_left_out(holdfast, runs):
    ran = holdfast("drift", "--off", "repetition", "--off", "cycles", runs)
    assert ran.out == "2 runs, 14 events: none of the runs went astray\n"
    ran = holdfast("drift", "--off", "everything", runs)
    assert ran.code == 1
    assert "There is no signal 'everything'" in ran.err


def test_the_history_of_an_agent_is_looked_at(holdfast, tmp_path):
    async def fill(store):
        records = []
        for n in range(6):
            call = {"id": f"c{n}", "name": "fetch", "arguments": {"url": "x"}}
            records += [
                AssistantMessage(content=None, tool_calls=[call]),
                ToolResult(tool_call_id=f"c{n}", content="down"),
            ]
        await samples.commit(store, "trip-1", records=tuple(records))
        await store.close()

    asyncio.run(fill(SQLiteCheckpointStorage(tmp_path / "checkpoints.db")))
    ran = holdfast("drift", "--agent", "trip-1")
    assert ran.out.splitlines()[0] == (
        "trip-1  event 4 of 6  repetition  fetch was done 4 times in a row with the same outcome"
    )
    assert holdfast("export", "trip-1", "-o", "trip.jsonl").code == 0
    assert holdfast("drift", "trip.jsonl").out == ran.out.replace("trip-1  event", "trip  event")
    assert holdfast("drift", "--agent", "nobody").code == 1


@pytest.mark.timeout(60)
def test_weights_are_learned_from_good_runs_and_judge_others(holdfast, runs, tmp_path):
    good = [
        {"run": f"r{n}", "action": "work", "args": {"n": [n, i]}, "obs": f"{n} {i}"}
        for n in range(12)
        for i in range(12)
    ]
    written(tmp_path / "good.jsonl", *good)
    train = ("drift", "train", "good.jsonl", "--loops", 60)
    assert holdfast(*train, "-o", "weights.json").code == 0
    weights = json.loads((tmp_path / "weights.json").read_text())
    assert weights == json.loads(holdfast(*train).out)
    assert weights != json.loads(holdfast(*train, "--seed", 2).out)
    assert "1 of the runs went astray" in holdfast("drift", runs, "--weights", "weights.json", "--normal").out


def test_runs_that_failed_teach_nothing(holdfast, tmp_path):
    written(tmp_path / "bad.jsonl", {"kind": "run", "run": "", "success": False}, {"action": "x"})
    ran = holdfast("drift", "train", "bad.jsonl")
    assert (ran.code, ran.err.splitlines()[0]) == (1, "error: There is no run to learn from")


def test_a_picture_needs_its_library(holdfast, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = holdfast("drift", runs, "--plot", "drift.png")
    assert ran.code == 1
    assert ran.err == "error: A plot needs matplotlib, which is not installed\nhint: pip install 'holdfast[plot]'\n"


class Axes:
    """Stands for matplotlib's axes, and for its figures: notes what is drawn."""

    def __init__(self, drawn):
        self.drawn = drawn

    def plot(self, numbers, values, label, linewidth):
        self.drawn.append((label, list(numbers), max(values)))

    def savefig(self, path, dpi):
        self.drawn.append(str(path))

    def get_legend_handles_labels(self):
        return [], []

    def __getattr__(self, name):
        return lambda *_, **__: None


def test_a_picture_shows_the_signals_of_each_run(holdfast, runs, monkeypatch):
    drawn = []

    class Grid:
        def __getitem__(self, key):
            return [Axes(drawn), Axes(drawn)]

    class Figure(Axes):
        def __init__(self, **_):
            super().__init__(drawn)

        def subplots(self, rows, squeeze):
            assert (rows, squeeze) == (2, False)
            return Grid()

    monkeypatch.setattr("holdfast.cli.driftplot.import_module", lambda name: type("figures", (), {"Figure": Figure}))
    assert holdfast("drift", runs, "--plot", "drift.png").code == 0
    assert ("repetition", [1, 2, 3, 4, 5], 1.25) in drawn
    assert drawn[-1] == "drift.png"


def test_a_real_picture_is_written_where_the_library_is(holdfast, runs, tmp_path):
    pytest.importorskip("matplotlib")
    assert holdfast("drift", runs, "--plot", "drift.png").code == 0
    assert (tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")


def test_files_that_are_not_there_or_hold_something_else_are_named(holdfast, tmp_path):
    ran = holdfast("drift", "nowhere.jsonl")
    assert (ran.code, ran.err.splitlines()[0]) == (4, "error: nowhere.jsonl can't be read: No such file or directory")
    (tmp_path / "text.jsonl").write_text("hello\n")
    assert "error: Line 1 is no event" in holdfast("drift", "text.jsonl").err
    assert holdfast("drift", "text.jsonl", "--weights", "text.jsonl").code == 1
    assert holdfast("drift").code == holdfast("drift", "check").code == 2
    assert holdfast("drift", "text.jsonl", "--agent", "a").code == 2

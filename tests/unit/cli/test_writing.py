"""What changes a store: `gc`, `pin`, `import`, `key`, and backups put back."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.unit.cli.conftest import plain

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")


def test_gc_tells_its_plan_and_carries_out_the_same(holdfast, ids):
    options = ["--older-than", "0", "--per-user", "1"]
    told = holdfast("gc", "--dry-run", *options)
    assert plain(told.out, ids) == snapshot("""\
chk_07........................  trip-1: limit of 1 checkpoints per user
chk_03........................  trip-1: limit of 1 checkpoints per user
chk_02........................  trip-1: limit of 1 checkpoints per user
chk_01........................  trip-1: limit of 1 checkpoints per user
4 checkpoints would be retired
""")
    planned = {one["checkpoint_id"] for one in json.loads(holdfast("gc", "--dry-run", "--json", *options).out)["plan"]}
    before = {one["id"] for one in json.loads(holdfast("list", "--json").out)}
    assert json.loads(holdfast("gc", "--json", *options).out)["done"]["retired"] == len(planned)
    assert {one["id"] for one in json.loads(holdfast("list", "--json").out)} == before - planned
    assert holdfast("gc", "--dry-run", *options).out == "Nothing would be retired\n"


def test_gc_without_limits_applies_none(holdfast, ids):
    assert holdfast("gc").out.startswith("0 checkpoints retired")
    assert len(json.loads(holdfast("list", "--json").out)) == 8


def test_pin_keeps_from_gc_and_unpin_gives_back(holdfast, ids):
    assert holdfast("pin", ids[0], "trip-1~3").code == 0
    options = ["gc", "--dry-run", "--json", "--older-than", "0"]
    planned = [one["checkpoint_id"] for one in json.loads(holdfast(*options).out)["plan"]]
    assert ids[0] not in planned
    assert plain(holdfast("unpin", ids[0]).out, ids) == "chk_01........................ is no longer pinned\n"
    planned = [one["checkpoint_id"] for one in json.loads(holdfast(*options).out)["plan"]]
    assert ids[0] in planned


def test_pin_of_several_changes_none_when_one_is_unknown(holdfast, ids):
    assert holdfast("pin", ids[0], "chk_nonesuch").code == 1
    assert not json.loads(holdfast("show", ids[0], "--json").out)["pinned"]


def test_export_gives_what_counts_now_and_all_gives_everything(holdfast, ids):
    live = [json.loads(line) for line in holdfast("export", "trip-1").out.splitlines()]
    everything = [json.loads(line) for line in holdfast("export", "trip-1", "--all").out.splitlines()]
    assert [one["seq"] for one in live if one["type"] == "checkpoint"] == [1, 2, 8, 9]
    assert "rewind" not in {one["type"] for one in live}
    assert [one["seq"] for one in everything] == list(range(1, 12))


def test_export_leaves_snapshots_out_when_asked(holdfast, ids):
    def snapshots(*options: str) -> list[str | None]:
        lines = holdfast("export", "trip-2", *options).out.splitlines()
        return [one["snapshot"] for one in map(json.loads, lines) if one["type"] == "rlm_tool_call"]

    assert snapshots() == ["Ynl0ZXM="]
    assert snapshots("--snapshots", "none") == [None]


def test_what_was_exported_comes_in_again(holdfast, ids):
    assert holdfast("export", "trip-2", "-o", "out.jsonl").out == ""
    assert list(Path().glob(".out*")) == []
    ran = holdfast("--store", "new.db", "import", "out.jsonl", "--agent", "copy", "--user", "eve")
    assert (ran.code, ran.out) == (0, snapshot("4 records imported; left out: 5 checkpoint records and 1 snapshot\n"))
    copied = [json.loads(line) for line in holdfast("export", "copy", "--store", "new.db").out.splitlines()]
    original = [json.loads(line) for line in holdfast("export", "trip-2", "--snapshots", "none").out.splitlines()]
    assert [{**one, "seq": 0} for one in copied] == [
        {**one, "seq": 0} for one in original if one["type"] != "checkpoint"
    ]
    assert json.loads(holdfast("agents", "--json", "--store", "new.db").out)[0]["user_id"] == "eve"
    assert holdfast("verify", "--store", "new.db").code == 0


def test_import_reads_a_pipe(holdfast, ids, monkeypatch):
    lines = holdfast("export", "trip-2").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert json.loads(holdfast("import", "-", "--agent", "copy", "--json").out) == snapshot(
        {"agent_id": "copy", "user_id": "default", "records": 4, "checkpoints_left_out": 5, "snapshots_left_out": 1}
    )


def test_import_refuses_an_agent_that_exists(holdfast, ids):
    Path("in.jsonl").write_text(holdfast("export", "trip-2").out)
    ran = holdfast("import", "in.jsonl", "--agent", "trip-1", "--user", "ada")
    assert (ran.code, ran.err) == (
        1,
        snapshot("""\
error: There is an agent trip-1 already
hint: Import into an agent of another name.
"""),
    )


def test_import_names_the_line_that_is_wrong_and_makes_no_store(holdfast, tmp_path):
    good = '{"type":"user_message","seq":1,"at":"2026-03-01T12:00:00Z","content":"hello"}'
    Path("in.jsonl").write_text(f"{good}\n\n{good[:-1]}")
    ran = holdfast("import", "in.jsonl", "--agent", "new")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: Line 3: The line is no JSON object")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_key_show_tells_fingerprints_and_only_on_request_the_secret(holdfast, ids):
    secret = Path("checkpoints.db.key").read_text().split(":")[1].strip()
    shown = holdfast("key", "show")
    assert shown.code == 0
    assert secret not in shown.out
    assert holdfast("key", "show", "--secret").out == f"1:{secret}\n"


def test_key_rotate_makes_a_new_key_current_and_keeps_what_was_written(holdfast, ids):
    assert json.loads(holdfast("key", "rotate", "--json").out) == {"current": 2}
    assert json.loads(holdfast("key", "show", "--json").out)["current"] == 2
    assert holdfast("pin", ids[0]).code == 0
    assert holdfast("verify").code == 0


def test_without_its_key_a_store_is_read_but_not_written_until_the_key_is_reset(holdfast, ids):
    Path("checkpoints.db.key").unlink()
    assert holdfast("show", ids[0]).code == 0
    assert holdfast("pin", ids[0]).code == 4
    assert holdfast("key", "show").code == 4
    refused = holdfast("key", "reset")
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert holdfast("key", "reset", "--yes").code == 0
    assert holdfast("pin", ids[0]).code == 0
    assert holdfast("verify").code == 0


def test_a_key_that_did_not_write_the_store_opens_nothing(holdfast, ids, monkeypatch):
    monkeypatch.setenv("HOLDFAST_KEY", "another key, long enough")
    assert holdfast("log").code == 4
    assert holdfast("key", "show").code == 4


def test_a_backup_is_put_back(holdfast, ids):
    made = json.loads(holdfast("backup", "copies/one.db", "--json").out)
    assert made["path"] == "copies/one.db"
    assert holdfast("backup", "copies/one.db").code == 1
    before = holdfast("log").out
    assert holdfast("pin", ids[0]).code == 0
    assert holdfast("restore-backup", "copies/one.db").code == 1
    assert holdfast("restore-backup", "copies/one.db", "--overwrite").out == "checkpoints.db is as copies/one.db was\n"
    assert holdfast("log").out == before
    assert holdfast("restore-backup", "copies/one.db", "--store", "elsewhere.db").code == 0
    assert holdfast("verify", "--store", "elsewhere.db").code == 0

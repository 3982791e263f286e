"""Looking at a store: what `log`, `list`, `agents`, `show`, `diff`, `verify` and `stats` say."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import apsw
import pytest
from inline_snapshot import snapshot

from holdfast.cli import output
from holdfast.storage.sqlite.schema import key_of
from tests.unit.cli.conftest import plain

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

READING = [
    ["log"], ["list"], ["agents"], ["show", "trip-1@latest"], ["diff", "trip-1@latest"], ["verify"], ["stats"],
    ["export", "trip-2"], ["key", "show"], ["gc", "--dry-run"], ["runs"], ["trace", "call_1"],
    ["backup", "../copy.db", "--overwrite"],
]  # fmt: skip


@pytest.fixture
def terminal(monkeypatch):
    """As if stdout were a terminal of 60 columns that wants no colours."""
    monkeypatch.setattr(output, "at_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")


def test_log_draws_branches_forks_gaps_and_pins(holdfast, ids):
    assert plain(holdfast("log").out, ids) == snapshot("""\
*  chk_10........................  (bob's)  #1  manual  RUNNING  2026-03-01T12:18:00.000Z

*  chk_09........................  (trip-2)  #1  manual  WAITING_FOR_INPUT  2026-03-01T12:17:00.000Z
*  chk_08........................  (trip-1)  #9  routine  WAITING_FOR_INPUT  2026-03-01T12:15:00.000Z
*  chk_07........................  #8  manual  WAITING_FOR_INPUT  2026-03-01T12:13:00.000Z
| o  chk_06........................  #6  auto  RUNNING  2026-03-01T12:11:00.000Z  pinned
| :  2 checkpoints deleted, up to #5
| *  chk_03........................  #3  auto  RUNNING  2026-03-01T12:05:00.000Z
|/
*  chk_02........................  #2  auto  RUNNING  2026-03-01T12:03:00.000Z
*  chk_01........................  #1  auto  RUNNING  2026-03-01T12:01:00.000Z
""")


def test_log_of_a_fork_goes_on_into_the_past_that_it_shares(holdfast, ids):
    assert plain(holdfast("log", "--agent", "trip-2").out, ids) == snapshot("""\
*  chk_09........................  (trip-2)  #1  manual  WAITING_FOR_INPUT  2026-03-01T12:17:00.000Z
*  chk_08........................  (trip-1)  #9  routine  WAITING_FOR_INPUT  2026-03-01T12:15:00.000Z
*  chk_07........................  #8  manual  WAITING_FOR_INPUT  2026-03-01T12:13:00.000Z
*  chk_02........................  #2  auto  RUNNING  2026-03-01T12:03:00.000Z
*  chk_01........................  #1  auto  RUNNING  2026-03-01T12:01:00.000Z
""")


def test_log_in_json_has_what_was_deleted_and_whose_newest_it_is(holdfast, ids):
    found = json.loads(holdfast("log", "--json").out)
    assert {one["id"] for one in found if one["deleted"]} == set(ids[3:5])
    assert {one["id"]: one["tip_of"] for one in found if one["tip_of"]} == {
        ids[7]: ["trip-1"], ids[8]: ["trip-2"], ids[9]: ["bob's"],
    }  # fmt: skip


def test_log_of_one_user_shows_nothing_of_another(holdfast, ids):
    ran = holdfast("log", "--user", "bob")
    assert ran.out.count("chk_") == 1
    assert "trip" not in ran.out


def test_at_a_terminal_lines_fit_and_ids_are_cut_but_still_name_their_checkpoint(holdfast, ids, terminal):
    lines = holdfast("log").out.splitlines()
    assert max(map(len, lines)) <= 60
    shown = re.findall(r"chk_\w+", "\n".join(lines))
    assert len(set(shown)) == len(ids) - 2
    assert all(holdfast("show", short).code == 0 for short in shown)


def test_at_a_terminal_ages_are_relative_and_on_a_pipe_they_are_times(holdfast, ids, monkeypatch):
    assert "2026-03-01T12:11:00.000Z" in holdfast("list").out
    monkeypatch.setattr(output, "at_terminal", lambda: True)
    assert re.search(r"\d+ d ago", holdfast("list").out)


def test_at_a_terminal_more_than_the_limit_is_announced(holdfast, ids, terminal):
    assert "--limit 4" in holdfast("log", "--limit", 2).out
    assert "--limit" not in holdfast("log", "--limit", 0).out


def test_list_is_a_table_newest_first(holdfast, ids):
    assert plain(holdfast("list", "--agent", "trip-1").out, ids) == snapshot("""\
ID                              AGENT   POSITION  KIND     STATUS             SAVED
chk_08........................  trip-1  #9        routine  WAITING_FOR_INPUT  2026-03-01T12:15:00.000Z
chk_07........................  trip-1  #8        manual   WAITING_FOR_INPUT  2026-03-01T12:13:00.000Z
chk_06........................  trip-1  #6        auto     RUNNING            2026-03-01T12:11:00.000Z  pinned
chk_03........................  trip-1  #3        auto     RUNNING            2026-03-01T12:05:00.000Z
chk_02........................  trip-1  #2        auto     RUNNING            2026-03-01T12:03:00.000Z
chk_01........................  trip-1  #1        auto     RUNNING            2026-03-01T12:01:00.000Z
""")


def test_list_by_kind(holdfast, ids):
    assert [one["id"] for one in json.loads(holdfast("list", "--kind", "routine", "--json").out)] == [ids[7]]


def test_agents_says_where_each_stands(holdfast, ids):
    assert holdfast("agents").out == snapshot("""\
AGENT   USER  TYPE  CHECKPOINTS  POSITION
bob's   bob   Trip  1            #1
trip-2  ada   Trip  1            #5        forked from trip-1 at #9
trip-1  ada   Trip  6            #11
""")
    assert json.loads(plain(holdfast("agents", "--json").out, ids))[1] == snapshot(
        {
            "agent_id": "trip-2",
            "user_id": "ada",
            "agent_type": "Trip",
            "checkpoints": 1,
            "position": 5,
            "commit_number": 13,
            "newest_checkpoint_id": "chk_09........................",
            "running": False,
            "interrupted": False,
            "forked_from": {"agent_id": "trip-1", "position": 9},
            "inbox_waiting": 0,
        }
    )


def test_show_tells_what_a_checkpoint_is_and_holds(holdfast, ids):
    assert plain(holdfast("show", ids[5]).out, ids) == snapshot("""\
chk_06........................  pinned
agent      trip-1 (Trip)
user       ada
kind       auto
status     RUNNING
saved      2026-03-01T12:11:00.000Z
position   #6
parent     chk_05........................

guests: 2
messages: 6 messages
  [0] user: "message 0"
  [1] user: "message 1"
  [2] user: "message 2"
  [3] user: "message 3"
  [4] user: "message 4"
  [5] user: "message 5"
""")


def test_show_full_leaves_nothing_out_and_state_is_json(holdfast, ids):
    state = {"guests": 2, "messages": [{"role": "user", "content": f"message {n}"} for n in range(6)]}
    assert json.loads(holdfast("show", ids[5], "--state").out) == state
    assert json.loads(holdfast("show", ids[5], "--full").out.split("\n\n")[1]) == state
    assert json.loads(holdfast("show", ids[5], "--json").out)["state"] == state


def test_diff_with_one_id_is_against_what_is_left_before_it(holdfast, ids):
    assert holdfast("diff", ids[5]).out == holdfast("diff", ids[2], ids[5]).out
    assert plain(holdfast("diff", ids[6]).out, ids) == snapshot("""\
--- chk_02........................  2026-03-01 12:03:00Z  auto    RUNNING
+++ chk_07........................  2026-03-01 12:13:00Z  manual  WAITING_FOR_INPUT
Agent trip-1 (Trip), 10 min later: 2 changed

~ status: RUNNING → WAITING_FOR_INPUT

~ state.guests: 2 → 5
""")


def test_diff_of_a_first_checkpoint_says_that_nothing_is_before_it(holdfast, ids):
    ran = holdfast("diff", ids[0])
    assert (ran.code, ran.out) == (1, "")
    assert "nothing before" in ran.err


def test_diff_in_json_has_the_paths(holdfast, ids):
    found = json.loads(holdfast("diff", ids[1], ids[6], "--json").out)
    assert found["changed_fields"] == ["status", "state.guests"]


def test_places_in_an_agents_list_name_checkpoints(holdfast, ids):
    assert json.loads(holdfast("show", "trip-1@latest", "--json").out)["id"] == ids[7]
    assert json.loads(holdfast("show", "trip-1~2", "--json").out)["id"] == ids[5]


def test_an_ambiguous_beginning_is_refused_with_the_candidates(holdfast, ids):
    ran = holdfast("show", ids[0][:8])
    assert ran.code == 1
    assert "8 checkpoints" in ran.err
    assert ids[9] in ran.err


@pytest.mark.parametrize("name", ["chk_zzzz", "chk_0", "nobody@latest", "trip-1~99", "trip-1", ""])
def test_a_name_that_names_nothing_is_one_line_and_a_hint(holdfast, ids, name):
    ran = holdfast("show", name)
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(r"error: .+\nhint: .+\n", ran.err)


def test_verify_says_that_all_is_well(holdfast, ids):
    ran = holdfast("verify")
    assert (ran.code, ran.out) == (0, snapshot("ok: 8 checkpoints and 18 records read, nothing is damaged\n"))


def test_verify_names_what_is_damaged_and_ends_with_3(holdfast, ids):
    db = apsw.Connection("checkpoints.db")
    [(state,)] = db.execute("SELECT state FROM checkpoints WHERE key = ?", (key_of(1, 6),)).fetchall()
    db.execute("UPDATE checkpoints SET state = ? WHERE key = ?", (state[:-1] + bytes([state[-1] ^ 1]), key_of(1, 6)))
    db.close()
    ran = holdfast("verify")
    assert ran.code == 3
    assert ids[5] in ran.out
    assert "still whole" in ran.out
    found = json.loads(holdfast("verify", "--json").out)
    assert not found["ok"]
    assert ids[5] not in found["whole"]
    assert ids[2] in found["whole"]
    assert holdfast("show", ids[5]).code == 3


def test_stats_counts(holdfast, ids):
    found = json.loads(holdfast("stats", "--json").out)
    assert (found["agents"], found["checkpoints"], found["checkpoints_deleted"]) == (3, 8, 2)
    assert re.search(r"^checkpoints by kind routine +1$", holdfast("stats").out, re.MULTILINE)


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: arguments[0])
def test_reading_writes_nothing_at_all(holdfast, ids, arguments):
    Path("work").mkdir()
    for path in Path().glob("checkpoints.db*"):
        path.rename(Path("work") / path.name)
    before = _everything_in(Path("work"))
    assert holdfast("--store", "work/checkpoints.db", *arguments).code == 0
    assert _everything_in(Path("work")) == before


def test_a_folder_of_files_is_a_store_too(holdfast, folder):
    before = _everything_in(folder)
    assert [one["agent_id"] for one in json.loads(holdfast("list", "--store", folder, "--json").out)] == [
        "two", "two", "one", "one",
    ]  # fmt: skip
    assert holdfast("log", "--store", f"file://{folder}").out.count("*") == 4
    assert "~ state.guests: 2 → 3" in holdfast("diff", "two@latest", "--store", folder).out
    assert holdfast("verify", "--store", folder).out.startswith("ok: 4 checkpoints")
    assert json.loads(holdfast("stats", "--store", folder, "--json").out)["agents"] == 2
    assert [one["user_id"] for one in json.loads(holdfast("agents", "--store", folder, "--json").out)] == ["bob", "ada"]
    assert holdfast("export", "one", "--store", folder).code == 1
    assert holdfast("key", "show", "--store", folder).code == 1
    assert _everything_in(folder) == before


def test_a_damaged_file_of_a_folder_is_named_by_whatever_lists_its_agent(holdfast, folder):
    path = min(folder.glob("*.checkpoint"))
    path.write_bytes(path.read_bytes().replace(b"guests", b"guesses"))
    for words in (["list"], ["log", "--agent", "one"], ["show", "one@latest"], ["stats"]):
        ran = holdfast(*words, "--store", folder)
        assert (ran.code, ran.out) == (3, "")
        assert re.search(rf"error: .*{path.name} of agent one is damaged", ran.err)
    assert holdfast("show", "two@latest", "--store", folder).code == 0
    assert holdfast("verify", "--store", folder).code == 3


def test_what_could_move_a_terminals_cursor_is_escaped(holdfast, tmp_path, monkeypatch):
    from holdfast import CheckpointManager, SQLiteCheckpointStorage
    from holdfast.cli.command import run
    from tests.unit.cli.conftest import Trip

    async def fill() -> None:
        async with CheckpointManager(SQLiteCheckpointStorage(tmp_path / "evil.db")) as manager:
            trip = Trip("evil\x1b[2J\u202e", "u\x07ser")
            trip.status = "\x1b]0;title\x07"
            trip.messages = [{"role": "user\x9b", "content": "\x1b[31mred\u202e\ud800"}]
            await manager.save(trip, metadata={"\x1b": "\x1b"})

    run(fill())
    monkeypatch.setenv("HOLDFAST_STORE", "evil.db")
    checkpoint_id = json.loads(holdfast("list", "--json").out)[0]["id"]
    for arguments in (
        ["log"], ["list"], ["agents"], ["show", checkpoint_id], ["show", checkpoint_id, "--full"], ["log", "--json"],
        ["show", checkpoint_id, "--json"], ["agents", "--json"], ["diff", checkpoint_id, checkpoint_id],
        ["log", "--agent", "\x1b"], ["show", "\x1b\n"], ["\x1b"], ["gc", "--dry-run"],
    ):  # fmt: skip
        ran = holdfast(*arguments)
        assert (ran.out + ran.err).replace("\n", "").isprintable(), arguments


def _everything_in(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in [folder, *folder.rglob("*")]
    }

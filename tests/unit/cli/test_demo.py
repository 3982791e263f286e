"""The demo: what it tells is what the store and the ledgers say."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from holdfast import SQLiteCheckpointStorage
from holdfast.cli import demo_acts
from holdfast.cli.demo_claims import Unproven
from holdfast.cli.demo_processes import killed_when
from holdfast.cli.demo_program import PROGRAM
from holdfast.cli.demo_shop import ORDERS, Ledger
from holdfast.history.records import RlmComplete, RlmRestart, RlmStart, RlmToolCall, RlmToolResult

pytestmark = [pytest.mark.blocks_the_loop("a command has the loop to itself"), pytest.mark.faults]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def payments(folder: Path) -> list[dict]:
    return [line for line in lines(folder / "bank.jsonl") if line["what"] == "payment"]


async def history(path: Path, agent_id: str) -> list:
    storage = SQLiteCheckpointStorage(db_path=path, read_only=True)
    try:
        return await storage.read(agent_id)
    finally:
        await storage.close()


def in_session(number: int) -> list[str]:
    """The processes of a session that still do something."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        state, _, _, session = rest.split()[:4]
        if int(session) == number and state != "Z":
            found.append(name)
    return found


def test_each_order_is_charged_once_though_its_process_is_killed_before_the_receipt_arrives(holdfast, tmp_path):
    ran = holdfast("demo", "--keep", "kept", "--json")
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    paid, sent = payments(tmp_path / "kept"), lines(tmp_path / "kept/parcels.jsonl")
    numbers = [order["number"] for order in ORDERS]
    assert [line["order"] for line in paid] == [line["order"] for line in sent] == numbers
    assert {line["euros"] for line in paid} == {order["euros"] for order in ORDERS}
    assert len({line["key"] for line in paid + sent}) == 2 * len(ORDERS)

    records = asyncio.run(history(Path(told["store"]), "clerk"))
    assert isinstance(records[0], RlmStart)
    assert isinstance(records[-1], RlmComplete)
    assert records[0].code == PROGRAM
    [restart] = [place for place, record in enumerate(records) if isinstance(record, RlmRestart)]
    cut_short, result = records[restart - 1], records[restart + 1]
    assert isinstance(cut_short, RlmToolCall)
    assert isinstance(result, RlmToolResult)
    assert (cut_short.seq, cut_short.line) == (told["pending"]["seq"], told["pending"]["line"])
    assert PROGRAM.splitlines()[cut_short.line - 1].strip() == told["pending"]["source"]
    [payment] = [line for line in paid if line["order"] == cut_short.tool_args["order"]]
    assert payment == told["killed"]["payment"]
    assert (result.call_id, result.tool_result) == (cut_short.call_id, payment["receipt"])
    [question] = [line for line in lines(tmp_path / "kept/bank.jsonl") if line["what"] == "question"]
    assert (question["key"], question["answer"]) == (payment["key"], payment["receipt"])
    assert records[-1].output == told["went_on"]["output"] == f"{sum(line['euros'] for line in paid)} euros taken"
    assert told["verified"]["records"] >= len(records)


def test_plain_python_killed_at_the_same_place_pays_again_for_what_it_had_done(holdfast, tmp_path):
    told = json.loads(holdfast("demo", "--keep", "kept", "--json").out)
    plain = tmp_path / "kept/plain"
    paid = Counter(line["order"] for line in payments(plain))
    sent = Counter(line["order"] for line in lines(plain / "parcels.jsonl"))
    assert told["ledgers"]["plain"] == {
        str(order): {"payments": paid[order], "parcels": sent[order]} for order in (line["number"] for line in ORDERS)
    }
    killed_in = told["killed"]["payment"]["order"]
    assert {order for order, times in paid.items() if times == 2} == set(range(101, killed_in + 1))

    forked = asyncio.run(history(Path(told["store"]), told["fork"]["agent_id"]))
    assert forked[0].forked_from["toolCallId"] == told["pending"]["run"]
    assert forked[-1].output == told["fork"]["output"] != told["went_on"]["output"]
    assert f"{killed_in} card refused" in forked[-1].print_output

    if Path("/proc/self/stat").exists():
        until = time.monotonic() + 10
        while left := in_session(told["killed"]["process"]) + in_session(told["went_on"]["process"]):
            assert time.monotonic() < until, f"{left} outlived the demo"
            time.sleep(0.02)


def test_the_demo_tells_its_story_on_one_screen_and_keeps_nothing_unasked(holdfast, tmp_path):
    ran = holdfast("demo")
    assert (ran.code, ran.err) == (0, "")
    shown = ran.out.splitlines()
    assert len(shown) <= 40
    assert max(map(len, shown)) <= 80
    assert "\x1b" not in ran.out
    assert [line[0] for line in shown if line[1:3] == ". "] == list("12345")
    rows = [line.split() for line in shown if line.startswith("   1") and len(line.split()) == 5]
    assert [(row[0], *row[1:3]) for row in rows] == [(str(order["number"]), "1", "1") for order in ORDERS]
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_show_is_an_error_that_says_so(holdfast, monkeypatch):
    def finished(way, folder):
        number = really_finished(way, folder)
        Ledger(folder / "bank.jsonl").add(what="payment", order=102, euros=95, receipt="receipt-9", key="another")
        return number

    really_finished = demo_acts.finished
    monkeypatch.setattr(demo_acts, "finished", finished)
    ran = holdfast("demo")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "error: Order 102 has 2 payments and 1 parcels"
    assert "Verified" not in ran.out


def test_a_process_that_ends_before_it_can_be_killed_is_an_error(tmp_path, capfd):
    (tmp_path / "file").touch()
    with pytest.raises(Unproven, match="ended with code 4 before it could be killed"):
        killed_when(lambda: False, "durable", tmp_path / "file", ORDERS[0]["number"])
    assert capfd.readouterr().err.startswith("error: ")


def test_a_process_is_ended_even_if_ctrl_c_comes_while_it_is_being_started(tmp_path, monkeypatch, request):
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    # Who is started in the background of a script ignores SIGINT, and so would Python.
    request.addfinalizer(
        partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
    )
    with pytest.raises(KeyboardInterrupt):
        killed_when(lambda: False, "plain", tmp_path, ORDERS[0]["number"])
    assert [child.returncode for child in started] == [-signal.SIGKILL]


def test_without_the_sandbox_the_demo_says_what_to_install(holdfast, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    ran = holdfast("demo", "--keep", "kept")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "error: run_python needs pydantic-monty, which is not installed",
        "hint: pip install 'holdfast[python]'",
    ]
    assert list(tmp_path.iterdir()) == []


def test_the_demo_leaves_a_folder_with_something_in_it_alone(holdfast, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/bank.jsonl").touch()
    ran = holdfast("demo", "--keep", "kept")
    assert (ran.code, ran.out) == (1, "")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["bank.jsonl"]

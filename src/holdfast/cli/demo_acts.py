"""The acts of `holdfast demo`. Whatever they tell was read from the store and from the ledgers just before."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.command import run
from holdfast.cli.demo_claims import Unproven, prove
from holdfast.cli.demo_processes import Way, finished, killed_when
from holdfast.cli.demo_program import AGENT_ID, PROGRAM, RUN
from holdfast.cli.demo_shop import ORDERS, Bank, Parcels
from holdfast.cli.demo_tools import tools
from holdfast.cli.opening import sqlite
from holdfast.cli.output import say, styled
from holdfast.durable.runs.log import RunLog
from holdfast.durable.runs.runner import PythonRunner
from holdfast.history.fold import live_path
from holdfast.history.preview import fit, preview

if TYPE_CHECKING:
    from holdfast.durable.runs.result import RunResult
    from holdfast.history.records import RlmToolCall
    from holdfast.storage.protocol import Pending, Report

STORE: Final = "clerk.db"
_UNHEARD: Final = ORDERS[2]["number"]  # its receipt is lost with the process
_CALL_COLUMNS: Final = 30
_ANSWER_COLUMNS: Final = 30

_Tally = dict[int, tuple[int, int]]


class Demo:
    """What is shown, in the order in which it happens. Each act proves what it says, or ends the demo."""

    def __init__(self, folder: Path, *, kept: bool, quiet: bool) -> None:
        self.folder = folder
        self.kept = kept
        self.quiet = quiet
        self.bank, self.parcels = Bank(folder), Parcels(folder)
        self.told: dict[str, Any] = {}

    def play(self) -> dict[str, Any]:
        started = time.monotonic()
        self._shown()
        self._killed()
        call = self._left_behind()
        self._went_on(call)
        self._counted()
        self._forked(call)
        records = run(_verified(self.folder)).records
        self.told["verified"] = {"records": records}
        self._say(f"{styled('Verified', fg='green')}, with {records} records in the store, in"
                  f" {time.monotonic() - started:.1f} s.")  # fmt: skip
        self._say(f"Look around in {self.folder}." if self.kept else "Keep it to look around: holdfast demo --keep DIR")
        return self.told

    def _shown(self) -> None:
        self._act(f"A program that a model wrote, for the agent {AGENT_ID}; charge and ship are tools:")
        for number, line in enumerate(PROGRAM.splitlines(), start=1):
            self._say(f"  {styled(f'{number:>2}', dim=True)}  {line}")
        self._say("")

    def _killed(self) -> None:
        """The bank has taken the money, and its receipt has not arrived."""
        self._act(f"1. It runs, until order {_UNHEARD} is paid and the receipt still on its way:")
        pid = _killed_when_paid("durable", self.folder)
        [payment] = self._payments()
        how = styled("kill -9", fg="red", bold=True)
        self._say(f"   {how} {pid}; the bank has written: order {payment['order']}, {payment['receipt']}")
        self.told["killed"] = {"process": pid, "payment": payment}

    def _left_behind(self) -> RlmToolCall:
        """What the store says of a process that could not say goodbye. Returns the call without a result."""
        log, left = run(_read(self.folder))
        self._act("2. The process is gone. The store has each call, recorded before it was made:")
        for call in log.order:
            result = log.results.get(int(call.call_id))
            answer = styled("no result", fg="red", bold=True) if result is None else _short(result.tool_result)
            self._say(f"   #{call.seq:<4}line {call.line:<4}{_called(call):<{_CALL_COLUMNS}}  {answer}")
        pending = [call for call in log.order if int(call.call_id) not in log.results]
        prove(len(left) == 1 and not left[0].owner_alive, f"{len(left)} runs were left behind, and not one")
        prove(len(pending) == 1, f"{len(pending)} calls have no result, and not one")
        [call] = pending
        prove(call.tool_args.get("order") == _UNHEARD, f"{_called(call)} has no result, and was not cut short")
        source = log.start.code.splitlines()[(call.line or 1) - 1].strip()
        self._say(f"   {left[0].name} stands in line {call.line}: {styled(source, bold=True)}")
        self.told["pending"] = {
            "run": left[0].name, "agent_id": left[0].agent_id, "seq": call.seq, "line": call.line, "source": source,
            "tool": call.tool_name, "arguments": dict(call.tool_args),
        }  # fmt: skip
        return call

    def _went_on(self, call: RlmToolCall) -> None:
        """The same command again: it finds the run, and asks the bank by a key that is the call's in any process."""
        self._act('3. Started again. charge has on_restart="reconcile", so the bank is asked:')
        pid = finished("durable", self.folder)
        log, left = run(_read(self.folder))
        [payment], questions = self._payments(), self.bank.ledger.lines(what="question")
        for question in questions:
            self._say(f"   process {pid} asks what was paid under key {question['key'][:8]}…: {question['answer']}")
        prove([one["key"] for one in questions] == [payment["key"]], "The bank was not asked once, for its payment")
        complete = log.complete
        if complete is None or left:
            raise Unproven(f"The run has no end: {log.parked or 'nothing says why'}")
        prove(not complete.is_error, f"The run failed: {complete.error}")
        receipt = log.results[int(call.call_id)].tool_result
        prove(receipt == payment["receipt"], f"The program was told {receipt}, the bank wrote {payment['receipt']}")
        self._say(f"   It went on from line {call.line} with that, and ended after {complete.tool_call_count} calls:"
                  f" {_short(complete.output)}")  # fmt: skip
        self.told["went_on"] = {
            "process": pid, "restarts": log.restarts, "asked": questions, "tool_calls": complete.tool_call_count,
            "output": complete.output, "printed": complete.print_output,
        }  # fmt: skip

    def _counted(self) -> None:
        """What each order has in the ledgers, beside what it has where nothing was recorded."""
        folder = self.folder / "plain"
        folder.mkdir()
        _killed_when_paid("plain", folder)
        finished("plain", folder)
        ours, plain = _tally(self.bank, self.parcels), _tally(Bank(folder), Parcels(folder))
        self._act("4. The ledgers. Plain Python was killed at the same place, and started again:")
        self._say(f"   {'':<6}{'with Holdfast':>22}{'plain Python':>24}")
        self._say(styled(f"   {'order':<6}{'payments':>12}{'parcels':>10}{'payments':>14}{'parcels':>10}", dim=True))
        for order, (payments, sent) in ours.items():
            beside = f"{plain[order][0]:>14}{plain[order][1]:>10}"
            twice = max(plain[order]) > 1
            self._say(f"   {order:<6}{payments:>12}{sent:>10}{styled(beside, fg='red') if twice else beside}")
        for order, (payments, sent) in ours.items():
            prove((payments, sent) == (1, 1), f"Order {order} has {payments} payments and {sent} parcels")
        self.told["ledgers"] = {"durable": _named(ours), "plain": _named(plain)}

    def _forked(self, call: RlmToolCall) -> None:
        """Another answer to the call that was cut short, in a history of its own."""
        self._act(f"5. What if the card of order {_UNHEARD} had been refused? A fork with that answer:")
        before = _tally(self.bank, self.parcels)
        forked = run(_fork(self.folder, self.bank, self.parcels, call))
        prove(not forked.is_error, f"The fork failed: {forked.error}")
        prove(_tally(self.bank, self.parcels) == before, "The fork paid or sent something")
        was = self.told["went_on"]
        for name, printed, output in (
            ("the run", was["printed"], was["output"]), ("the fork", forked.print_output, forked.output),
        ):  # fmt: skip
            [line] = [line for line in printed.splitlines() if line.startswith(str(_UNHEARD))]
            self._say(f"   {name:<8}  {line:<26}{_short(output)}")
        self._say("   The ledgers have not a line more: the other calls got their recorded answers.")
        self.told["fork"] = {"agent_id": forked.agent_id, "output": forked.output, "printed": forked.print_output}

    # --- parts

    def _payments(self) -> list[dict[str, Any]]:
        paid = self.bank.ledger.lines(what="payment", order=_UNHEARD)
        prove(len(paid) == 1, f"Order {_UNHEARD} was paid {len(paid)} times")
        return paid

    def _act(self, sentence: str) -> None:
        self._say(styled(sentence, bold=True))

    def _say(self, line: str) -> None:
        if not self.quiet:
            say(line)
            sys.stdout.flush()


def _killed_when_paid(way: Way, folder: Path) -> int:
    ledger = Bank(folder).ledger
    return killed_when(lambda: ledger.lines(what="payment", order=_UNHEARD), way, folder, _UNHEARD)


async def _read(folder: Path) -> tuple[RunLog, list[Pending]]:
    """What the store says of the run, and which runs have no end. Nothing is written."""
    store = sqlite(folder / STORE, read_only=True)
    try:
        records = await store.read(AGENT_ID, snapshots=False)
        return RunLog.of(live_path(records)), await store.pending("run")
    finally:
        await store.close()


async def _fork(folder: Path, bank: Bank, parcels: Parcels, call: RlmToolCall) -> RunResult:
    async with PythonRunner(sqlite(folder / STORE), tools(bank, parcels)) as runner:
        refused = ValueError("card refused")
        return await runner.fork(RUN, at=call.tool_call_count, exception=refused, agent_id=f"{AGENT_ID}-refused")


async def _verified(folder: Path) -> Report:
    store = sqlite(folder / STORE, read_only=True)
    try:
        report = await store.verify()
    finally:
        await store.close()
    prove(report.ok, f"{len(report.damaged)} things in the store are damaged")
    return report


def _tally(bank: Bank, parcels: Parcels) -> _Tally:
    """How many payments and parcels each order has."""
    numbers = [order["number"] for order in ORDERS]
    return {
        number: (len(bank.ledger.lines(what="payment", order=number)), len(parcels.ledger.lines(order=number)))
        for number in numbers
    }


def _named(tally: _Tally) -> dict[str, dict[str, int]]:
    return {str(order): {"payments": payments, "parcels": sent} for order, (payments, sent) in tally.items()}


def _called(call: RlmToolCall) -> str:
    arguments = ", ".join(f"{name}={preview(value, _CALL_COLUMNS)}" for name, value in call.tool_args.items())
    return fit(f"{call.tool_name}({arguments})", _CALL_COLUMNS)


def _short(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else preview(value, _ANSWER_COLUMNS)

"""Programs that call tools with effects, for tests that look what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from holdfast.durable.runs.currentcall import current_call
from holdfast.durable.runs.observing import CallEvent
from holdfast.durable.runs.runner import PythonRunner
from holdfast.storage.sqlite import SQLiteCheckpointStorage

Call = tuple[str, str, int]  # agent, run, number of the call

PAYS = """
import asyncio
told = []
async def careful(order):
    try:
        return await ship(order)
    except RuntimeError as error:
        return "lost: " + str(error)
for order in range({orders}):
    try:
        told.append(pay(order))
    except RuntimeError as error:
        told.append("lost: " + str(error))
    print("order", order, "y" * {bulk})
    told += await asyncio.gather(careful(order), careful(order + 100))
told
"""


class Effects:
    """The outside world: what was done to it, with the receipt that was given for it."""

    def __init__(self, tell: Callable[..., None] = lambda *_: None) -> None:
        self.made: dict[Call, str] = {}
        self.twice: list[Call] = []
        self._tell = tell
        self._answered: defaultdict[tuple[str, str], set[Call]] = defaultdict(set)

    def runner(self, store: SQLiteCheckpointStorage, **options: Any) -> PythonRunner:
        def pay(order: int) -> str:
            return self._happens("paid", order)

        async def ship(order: int) -> str:
            return self._happens("shipped", order)

        return PythonRunner(store, [pay, ship], on_call=self._seen, type_check=False, workers=1, **options)

    def _happens(self, what: str, order: int) -> str:
        call = current_call()
        key = (call.agent_id, call.tool_call_id, call.call_id)
        if key in self.made:
            self.twice.append(key)
        self.made[key] = f"{what} {order} as {key}"
        self._tell("made", key, self.made[key])
        return self.made[key]

    def _seen(self, event: CallEvent) -> None:
        run = (event.agent_id, event.tool_call_id)
        if event.what == "answered" and event.error is None:
            self._answered[run].add((*run, event.call_id))
        else:  # a new call: what was answered before must be durable
            self._tell("settled", *self._answered[run])

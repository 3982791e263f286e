"""The tools of `holdfast demo`, each with what becomes of a call that a restart cut short."""

from __future__ import annotations

from typing import Any

from holdfast.cli.demo_shop import ORDERS, Bank, Parcels
from holdfast.durable.runs.currentcall import CurrentCall, current_call
from holdfast.durable.runs.outcomes import DidNotHappen, Happened
from holdfast.durable.runs.tool import Tool


def tools(bank: Bank, parcels: Parcels) -> list[Tool]:
    """What the program may call. The docstrings are what the model reads of them."""

    def todays_orders() -> list[dict[str, Any]]:
        """The orders to be handled: number, euros and city of each."""
        return list(ORDERS)

    def charge(order: int, euros: int) -> str:
        """Takes the money and returns the receipt. ValueError if the card was refused."""
        return bank.take(order, euros, key=current_call().idempotency_key)

    def was_charged(call: CurrentCall) -> Happened | DidNotHappen:
        # The key is the same in every process, so the bank knows the call by it.
        receipt = bank.receipt_for(call.idempotency_key)
        return DidNotHappen() if receipt is None else Happened(receipt)

    def ship(order: int, city: str) -> str:
        """Sends the goods and returns the number of the parcel."""
        return parcels.send(order, city, key=current_call().idempotency_key)

    return [
        Tool(todays_orders, on_restart="retry", read_only=True),
        Tool(charge, on_restart="reconcile", reconcile=was_charged),
        Tool(ship, on_restart="retry"),  # harmless: the service sends one parcel for each key
    ]

"""The world outside of `holdfast demo`: a shop's orders, a bank, a parcel service. None of them knows of Holdfast.

Bank and parcel service each write down what they did in a file that outlives every process: that is what counts.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

ORDERS: Final[tuple[dict[str, Any], ...]] = (
    {"number": 101, "euros": 40, "city": "Oslo"},
    {"number": 102, "euros": 95, "city": "Porto"},
    {"number": 103, "euros": 75, "city": "Lyon"},
    {"number": 104, "euros": 70, "city": "Ghent"},
)
_LOST_SECONDS: Final = 60  # nobody waits as long as that


class Ledger:
    """Lines of JSON, each durable before it counts, none ever changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **line: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self, **wanted: Any) -> list[dict[str, Any]]:
        """Those that say what is wanted, in the order in which they were written."""
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in found if wanted.items() <= line.items()]


class Bank:
    """Takes money as often as it is asked to, and tells whether it has."""

    def __init__(self, folder: Path, unheard: int | None = None) -> None:
        """`unheard`: the order whose payment is made, but whose receipt gets lost on the way to the shop."""
        self.ledger = Ledger(folder / "bank.jsonl")
        self._unheard = unheard

    def take(self, order: int, euros: int, key: str | None) -> str:
        receipt = f"receipt-{len(self.ledger.lines(what='payment')) + 1}"
        self.ledger.add(what="payment", order=order, euros=euros, receipt=receipt, key=key)
        if order == self._unheard:
            time.sleep(_LOST_SECONDS)
        return receipt

    def receipt_for(self, key: str) -> str | None:
        """The receipt of the payment that was asked for under this key, if there was one."""
        paid = self.ledger.lines(what="payment", key=key)
        receipt = paid[0]["receipt"] if paid else None
        self.ledger.add(what="question", key=key, answer=receipt)
        return receipt


class Parcels:
    """Sends parcels, one for each key."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder / "parcels.jsonl")

    def send(self, order: int, city: str, key: str | None) -> str:
        sent = self.ledger.lines(key=key) if key else []
        if sent:
            return str(sent[0]["parcel"])
        parcel = f"parcel-{len(self.ledger.lines()) + 1}"
        self.ledger.add(order=order, city=city, parcel=parcel, key=key)
        return parcel

"""The program of `holdfast demo`, as a model writes one into the argument of a `run_python` call.

It knows nothing of stores, keys and restarts: it calls tools, and what they return is there.
"""

from __future__ import annotations

from typing import Final

AGENT_ID: Final = "clerk"
RUN: Final = "call_1"  # the id of the tool call in which the model handed it over

PROGRAM: Final = """\
taken = 0
for order in todays_orders():
    try:
        receipt = charge(order["number"], order["euros"])
    except ValueError as refused:
        print(order["number"], refused)
        continue
    parcel = ship(order["number"], order["city"])
    print(order["number"], receipt, parcel)
    taken += order["euros"]
f"{taken} euros taken"
"""

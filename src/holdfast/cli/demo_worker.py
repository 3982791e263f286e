"""The processes of `holdfast demo`, which go through the orders until they are done or killed.

    python -m holdfast.cli.demo_worker durable|plain FOLDER [ORDER]

ORDER is the one whose receipt gets lost on its way from the bank.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.cli.demo_program import AGENT_ID, PROGRAM, RUN
from holdfast.cli.demo_shop import Bank, Parcels
from holdfast.cli.demo_tools import tools
from holdfast.cli.opening import sqlite
from holdfast.durable.runs.runner import PythonRunner
from holdfast.errors import HoldfastError


async def durable(folder: Path, bank: Bank, parcels: Parcels) -> None:
    """Goes on with what a dead process left, or begins. Nothing here says which of the two it will be."""
    async with PythonRunner(sqlite(folder / "clerk.db"), tools(bank, parcels)) as runner:
        if not await runner.recover():
            await runner.run(AGENT_ID, PROGRAM, RUN)


async def plain(_folder: Path, bank: Bank, parcels: Parcels) -> None:
    """The same program in plain Python: whoever starts it again starts it from the beginning."""
    functions = {tool.name: tool.function for tool in tools(bank, parcels)}
    functions["charge"] = lambda order, euros: bank.take(order, euros, key=None)
    functions["ship"] = lambda order, city: parcels.send(order, city, key=None)
    exec(PROGRAM, functions)  # noqa: S102 - the text is our own


def main() -> int:
    way, folder, unheard = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None
    work = {"durable": durable, "plain": plain}[way]
    try:
        asyncio.run(work(folder, Bank(folder, unheard), Parcels(folder)))
    except HoldfastError as error:
        from holdfast.cli.failures import tell

        return tell(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

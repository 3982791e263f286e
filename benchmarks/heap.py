"""Programs that hold so much and then call a tool, and what their snapshots would take without Holdfast."""

from __future__ import annotations

from typing import Any

_ITEM_BYTES = 41.4  # of a snapshot, for one item of the heap


def holding(kilobytes: float) -> str:
    """Code that fills the heap, so that a snapshot of it has about this size."""
    return f"data = [f'item {{n}}: some words' for n in range({kilobytes * 1000 / _ITEM_BYTES:.0f})]\n"


def calling(calls: int) -> str:
    """Code that calls `note` so often, one call after the other, and keeps what it returns."""
    return f"told = []\nfor n in range({calls}):\n    told.append(note(n))\nlen(told)"


def awaiting(calls: int) -> str:
    """The same for a tool that is awaited."""
    return f"told = []\nfor n in range({calls}):\n    told.append(await note(n))\nlen(told)"


def gathering(calls: int, batch: int) -> str:
    """The same with so many calls at a time."""
    return (
        f"import asyncio\ntold = []\nfor n in range({calls // batch}):\n"
        f"    told += await asyncio.gather(*[note(n * {batch} + m) for m in range({batch})])\nlen(told)"
    )


def told(number: int) -> dict[str, Any]:
    """What the tool returns."""
    return {"number": number, "state": "noted", "detail": f"number {number} of a list"}


def dumps(code: str) -> list[int]:
    """The size of the snapshot at each call of a program, taken in a bare sandbox."""
    from pydantic_monty import FunctionSnapshot, Monty, MontyComplete, NameLookupSnapshot

    def note() -> None: ...

    sizes: list[int] = []
    with Monty(max_processes=1) as pool, pool.checkout() as session:
        here: Any = session.feed_start(code)
        while not isinstance(here, MontyComplete):
            if isinstance(here, NameLookupSnapshot):
                here = here.resume(value=note)
            elif isinstance(here, FunctionSnapshot):
                sizes.append(len(session.dump()))
                here = here.resume({"return_value": told(here.args[0])})
            else:
                raise TypeError(f"The program stopped at {here!r}")
    return sizes


def in_base64(sizes: list[int]) -> int:
    """What so many snapshots take as base64, each of them whole."""
    return sum(-(-size // 3) * 4 for size in sizes)

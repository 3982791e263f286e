"""`holdfast stats`: what a store holds and what takes up its room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.cli.command import Invocation, command, run


@command("stats", examples="holdfast stats --json | jq .bytes")
def stats_command(invocation: Invocation) -> None:
    """Show how much there is, and what takes up the room."""
    run(_stats(invocation))


async def _stats(invocation: Invocation) -> None:
    from holdfast.cli.opening import reading
    from holdfast.cli.output import say, say_json, styled
    from holdfast.history.preview import escape

    async with reading(invocation) as manager:
        found = await manager.stats()
    if invocation.json:
        say_json(found)
        return
    lines = list(_lines(found))
    wide = max(len(name) for name, _ in lines)
    for name, value in lines:
        say(f"{styled(f'{escape(name):<{wide}}', dim=True)}  {escape(value)}")


def _lines(found: dict[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    """A name and a text for each number; those inside others are named after them."""
    from holdfast.cli.output import size

    for key, value in found.items():
        name = f"{within} {key}".strip().replace("_", " ")
        if key == "limits":
            continue  # those of the command line itself, which has none; a program's are not in the store
        if isinstance(value, dict):
            yield from _lines(value, name)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield name, size(value) if within == "bytes" else f"{value:,}"
        else:
            yield name, {None: "none", True: "yes", False: "no"}.get(value, str(value))

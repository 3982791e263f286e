"""`holdfast pin` and `unpin`: keeping checkpoints from every policy, and giving them back."""

from __future__ import annotations

import click

from holdfast.cli.command import Invocation, command, run


@command("pin", examples="holdfast pin trip-1@latest")
@click.argument("checkpoints", metavar="ID...", nargs=-1, required=True)
def pin_command(invocation: Invocation, checkpoints: tuple[str, ...]) -> None:
    """Keep checkpoints from every policy and from gc."""
    run(_pin(invocation, checkpoints, pinned=True))


@command("unpin", examples="holdfast unpin chk_01ka3f")
@click.argument("checkpoints", metavar="ID...", nargs=-1, required=True)
def unpin_command(invocation: Invocation, checkpoints: tuple[str, ...]) -> None:
    """Give pinned checkpoints back to the policies."""
    run(_pin(invocation, checkpoints, pinned=False))


async def _pin(invocation: Invocation, names: tuple[str, ...], *, pinned: bool) -> None:
    from holdfast.cli.naming import named
    from holdfast.cli.opening import writing
    from holdfast.cli.output import say, say_json

    async with writing(invocation) as manager:
        ids = [await named(manager, name) for name in names]  # all are found before the first is changed
        for checkpoint_id in ids:
            await manager.pin(checkpoint_id, pinned=pinned)
    if invocation.json:
        say_json([{"id": checkpoint_id, "pinned": pinned} for checkpoint_id in ids])
        return
    for checkpoint_id in ids:
        say(f"{checkpoint_id} is {'pinned' if pinned else 'no longer pinned'}")
